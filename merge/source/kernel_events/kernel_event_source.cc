#include "merge/source/kernel_events/kernel_event_source.h"

#include "backend_ftrace/base/saturated_sum.h"
#include "merge/source/payload_text.h"

namespace trapline::kernel_events {

std::vector<std::pair<std::string, std::uint64_t>> KernelEventSource::event_counts() const {
  std::vector<std::pair<std::string, std::uint64_t>> counts;
  std::uint64_t left = counters().events;
  for (std::size_t type = 0; type < counts_.size() && left != 0; ++type) {
    if (counts_[type] == 0) continue;
    left -= counts_[type];
    const auto name = formats_.name(static_cast<std::uint16_t>(type));
    counts.emplace_back(name.empty() ? fmt::format("type {}", type) : std::string(name),
                        counts_[type]);
  }
  return counts;
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
      [this](std::size_t most, std::vector<RecordedEvent>& events) { following(most, events); });
}

}  // namespace trapline::kernel_events
