#include "merge/source/trace_text/text_events.h"

#include <algorithm>
#include <limits>

#include "backend_ftrace/base/text.h"

#include "merge/model/kernel_events.h"

namespace trapline::trace_text {
namespace {

constexpr std::size_t kMostNames = 8192;

// Returns TEXT of "tracing_mark_write: TEXT", "0xffffffff8119: TEXT", "ip=tracing_mark_write
// buf=TEXT".
std::string_view marker_text(std::string_view text) {
  if (text.starts_with("ip=")) {
    const std::size_t buffer = text.find(" buf=");
    return buffer == text.npos ? std::string_view() : text.substr(buffer + 5);
  }
  const std::size_t colon = text.find(':');
  if (colon == text.npos || text.find(' ') < colon) return text;
  text.remove_prefix(colon + 1);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

// Returns the interrupt bits of common_flags, from the third column of the line's flags.
std::uint64_t common_flags(char level) {
  constexpr std::uint64_t kHard = 0x8, kSoft = 0x10;
  return level == 's' ? kSoft : level == '.' ? 0 : level == 'H' ? kHard | kSoft : kHard;
}

// Adds the system to the name of an event without a decoder, as far as the name shows it.
std::string with_system(std::string_view name) {
  std::string text = printable(name);
  if (name.find(':') != name.npos) return text;
  for (const std::string_view system :
       {"kvm", "sched", "task", "irq", "timer", "block", "workqueue"}) {
    if (name.starts_with(system) && name.substr(system.size()).starts_with('_'))
      return fmt::format("{}:{}", system, text);
  }
  return text;
}

}  // namespace

TextEvents::TextEvents() {
  for (const KernelEvent& known : events::all()) {
    if (known.decoded.decoder == Decoder::kNone) continue;
    types_.emplace(known.name, add(known.full_name));
    known_.push_back(&known);
  }
  const auto of = [this](const KernelEvent& event) { return types_.find(event.full_name)->second; };
  marker_ = of(events::print);
  ioctl_ = of(events::sys_enter_ioctl);
  futex_ = of(events::sys_enter_futex);
  futex_end_ = of(events::sys_exit_futex);
  // In tracefs a marker's event has the name of the function that writes it.
  types_.emplace("tracing_mark_write", marker_);
  types_.emplace("write_marker_to_buffer", marker_);
  types_.emplace("tracing_mark_raw_write", marker_);
  function_ = add("function");
}

std::uint16_t TextEvents::add(std::string_view name) {
  if (names_.size() >= kMostNames) return function_;
  const auto type = static_cast<std::uint16_t>(names_.size());
  names_.push_back(with_system(name));
  witnesses_.push_back(kernel_events::Witness::of(names_.back()));
  types_.emplace(name, type);
  return type;
}

std::uint16_t TextEvents::type_of(const TextLine& line) {
  if (line.name.empty()) {
    if (line.text.starts_with("sys_ioctl(")) return ioctl_;
    if (line.text.starts_with("sys_futex(")) return futex_;
    if (line.text.starts_with("sys_futex -> ")) return futex_end_;
    return function_;
  }
  const auto found = types_.find(line.name);
  if (found != types_.end()) return found->second;
  if (line.name.starts_with("0x")) return marker_;
  return add(line.name);
}

EventClass TextEvents::class_of(std::uint16_t type) const {
  return type < known_.size() ? known_[type]->decoded.read_for : EventClass::kOthers;
}

ThreadId TextEvents::thread_of(const TextLine& line, const Payload& payload) {
  std::int32_t vcpu = kNoVcpu;
  if (const auto* exit = std::get_if<KvmExit>(&payload)) vcpu = exit->vcpu;
  if (const auto* entry = std::get_if<KvmEntry>(&payload)) vcpu = entry->vcpu;
  if (vcpu == kNoVcpu || vcpu == std::numeric_limits<std::int32_t>::max()) {
    const auto found = on_cpu_.find(line.cpu);
    if (line.has_cpu && found != on_cpu_.end()) return found->second;
    return several_ ? ThreadId{-1} : only_.value_or(ThreadId{1});
  }
  const ThreadId thread{vcpu + 1};
  several_ = several_ || (only_ && *only_ != thread);
  only_ = thread;
  if (line.has_cpu) on_cpu_[line.cpu] = thread;
  return thread;
}

TextEvents::Fit TextEvents::decode(const TextLine& line, std::uint16_t type, Event& event) {
  event.type = type;
  event.cpu = line.cpu;
  event.thread = ThreadId{line.thread};
  event.raw = std::as_bytes(std::span(line.text));
  event.payload.emplace<Other>();
  if (type >= known_.size()) return line.text.empty() ? Fit::kPart : Fit::kWhole;
  if (type == marker_) {
    const bool named = line.name == events::print.name || line.name == events::print.full_name;
    event.payload = Marker{named ? marker_text(line.text) : line.text};
    return line.text.empty() ? Fit::kPart : Fit::kWhole;
  }
  const std::string_view system = known_[type]->system;
  if ((!line.has_cpu || !line.has_thread) && system != "kvm" && system != "syscalls")
    return Fit::kWhole;
  // In a text without times only kvm_exit is decoded: with entries, exits would get durations.
  if (!line.has_time && known_[type] != &events::kvm_exit) return Fit::kWhole;
  TextValues values(*known_[type]);
  values.thread = line.thread;
  values.comm = line.comm;
  values.is_cut = line.is_cut;
  if (line.level != 0) values.set("common_flags", common_flags(line.level));
  // trace-cmd prints "wf>c<" for the format "wf%c"; then it is not known whether the guest waits or
  // spins.
  if (!fields_.read(line.text, values))
    return line.text.find("wf>c<") != line.text.npos ? Fit::kWhole : Fit::kNone;
  values.decode(event.payload);
  if (!line.has_thread) event.thread = thread_of(line, event.payload);
  if (event.thread == ThreadId{-1}) event.payload.emplace<Other>();
  return values.is_part || line.text.empty() ? Fit::kPart : Fit::kWhole;
}

}  // namespace trapline::trace_text
