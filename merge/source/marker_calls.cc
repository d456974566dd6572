#include "merge/source/marker_calls.h"

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

constexpr std::string_view kPrefix = "trapline: ";

bool take_vcpu(std::string_view& text, std::int32_t& vcpu) {
  return take_text(text, " cpu") && take_number(text, vcpu) && vcpu >= 0;
}

// Removes the fields " KEY=VALUE" before the address: takes the task and skips fields of later
// versions.
bool take_fields(std::string_view& text, GuestCall& call) {
  while (text.starts_with(' ') && !text.starts_with(" 0x")) {
    const std::string_view field = text.substr(1, text.find(' ', 1) - 1);
    const std::size_t equals = field.find('=');
    if (equals == 0 || equals == std::string_view::npos) return false;
    std::string_view value = field.substr(equals + 1);
    if (field.substr(0, equals) == "t") {
      std::uint32_t task = 0;
      if (!take_number(value, task) || !value.empty()) return false;
      call.task = static_cast<std::int32_t>(task);
    }
    text.remove_prefix(1 + field.size());
  }
  return true;
}

}  // namespace

std::optional<GuestCall> parse_marker_call(std::string_view text) {
  if (!take_text(text, kPrefix)) return std::nullopt;
  GuestCall call{};
  call.entry = text.starts_with('E');
  if (!call.entry && !text.starts_with('X')) return std::nullopt;
  text.remove_prefix(1);
  if (!take_vcpu(text, call.vcpu) || !take_text(text, " d=") || !take_number(text, call.depth))
    return std::nullopt;
  if (!take_fields(text, call)) return std::nullopt;
  if (!take_text(text, " 0x") || !take_number(text, call.function, 16) || !take_text(text, " "))
    return std::nullopt;
  call.name = trimmed(text);
  if (call.name == "?") call.name = {};
  return call;
}

std::optional<std::uint64_t> parse_marker_loss(std::string_view text) {
  std::int32_t vcpu = 0;
  std::uint64_t calls = 0;
  if (!take_text(text, kPrefix) || !take_text(text, "L") || !take_vcpu(text, vcpu))
    return std::nullopt;
  if (!take_text(text, " ") || !take_number(text, calls) || !trimmed(text).empty())
    return std::nullopt;
  return calls;
}

std::optional<std::string_view> parse_marker_run(std::string_view text) {
  if (!take_text(text, kPrefix) || !take_text(text, "calls 1 ")) return std::nullopt;
  if (!text.starts_with("begin ") && !text.starts_with("end ")) return std::nullopt;
  std::string_view run;
  for (text = trimmed(text); !text.empty();) {
    std::string_view field = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), field.size() + 1));
    if (take_text(field, "run=")) run = field;
  }
  return run;
}

void MarkerCalls::on(Event& event, SourceCounters& counters) {
  const auto& marker = std::get<Marker>(event.payload);
  if (!marker.text.starts_with(kPrefix)) return;
  if (const auto loss = parse_marker_loss(marker.text)) {
    counters.add({*loss, 1, 0});
    return;
  }
  auto call = parse_marker_call(marker.text);
  if (!call) {
    const std::string_view record = marker.text.substr(kPrefix.size());
    if (record.starts_with("E cpu") || record.starts_with("X cpu") || record.starts_with("L cpu"))
      ++counters.damaged_events;
    return;
  }
  const Stack stack{event.thread, call->vcpu, call->task};
  auto known = stacks_.find(stack);
  if (known == stacks_.end() && stacks_.size() < kMostStacks)
    known = stacks_.emplace(stack, static_cast<std::int32_t>(stacks_.size()) + 1).first;
  call->task = known == stacks_.end() ? 0 : known->second;
  event.payload = *call;
}

}  // namespace trapline
