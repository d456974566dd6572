#include "merge/source/kernel_events/kernel_event_source.h"

#include "backend_ftrace/base/saturated_sum.h"
#include "merge/source/payload_text.h"

namespace trapline::kernel_events {

std::vector<std::pair<std::uint16_t, std::uint64_t>> KernelEventSource::types_read() const {
  std::vector<std::pair<std::uint16_t, std::uint64_t>> types;
  std::uint64_t left = counters_.events + passed_;
  for (std::size_t type = 0; type < counts_.size() && left != 0; ++type) {
    if (counts_[type] == 0) continue;
    left -= counts_[type];
    types.emplace_back(static_cast<std::uint16_t>(type), counts_[type]);
  }
  return types;
}

std::string KernelEventSource::type_name(std::uint16_t type) const {
  const auto name = formats_.name(type);
  return name.empty() ? fmt::format("type {}", type) : std::string(name);
}

std::vector<std::pair<std::string, std::uint64_t>> KernelEventSource::event_counts() const {
  std::vector<std::pair<std::string, std::uint64_t>> counts;
  for (const auto& [type, count] : types_read()) counts.emplace_back(type_name(type), count);
  return counts;
}

std::vector<std::pair<std::string, std::string>> KernelEventSource::facts() const {
  constexpr const char* kUnread =
      "{} events of {}, whose format could not be read, are not counted";
  constexpr const char* kNameless =
      "the print format of {} could not be read: reasons without a name are numbers";
  std::vector<std::pair<std::string, std::string>> facts;
  for (const auto& [type, count] : types_read()) {
    if (formats_.is_unread(type))
      facts.emplace_back(kDamagedFact, fmt::format(kUnread, count, type_name(type)));
    if (formats_.is_nameless(type))
      facts.emplace_back("note", fmt::format(kNameless, type_name(type)));
  }
  return facts;
}

void KernelEventSource::select(EventClass events) {
  const auto schemas = formats_.schemas();
  for (std::size_t type = 0; type < selected_.size(); ++type) {
    selected_[type] =
        has(events, type < schemas.size() ? schemas[type].events : EventClass::kOthers);
  }
}

void KernelEventSource::fill_lost(std::uint32_t cpu, Timestamp from, Timestamp to,
                                  std::int64_t lost, Event& event, bool on_purpose) {
  const std::uint64_t count = lost > 0 ? static_cast<std::uint64_t>(lost) : 0;
  event.at = from;
  event.cpu = cpu;
  event.thread = ThreadId{-1};
  event.type = 0;
  event.raw = {};
  event.payload = Lost{from, to, count, on_purpose};
  if (on_purpose) {
    counters_.left_out_events = saturated_sum(counters_.left_out_events, count);
    ++counters_.left_out_pieces;
    return;
  }
  counters_.add_gap(count);
}

std::string KernelEventSource::event_name(const Event& event) const {
  if (auto name = name_of_payload(event)) return *std::move(name);
  return std::string(formats_.name(event.type));
}

std::string KernelEventSource::event_text(const Event& event) const {
  if (auto text = text_of_payload(event)) return *std::move(text);
  return formats_.texts().text(
      event.type, event.raw, event.cpu,
      [this](std::size_t most, std::vector<RecordedEvent>& events) { following(most, events); },
      [this] { return kallsyms(); });
}

}  // namespace trapline::kernel_events
