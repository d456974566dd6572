#include "merge/render/timeline_view.h"

#include <fmt/format.h>

#include <cstdlib>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/guest_sync.h"
#include "backend_ftrace/sync.h"
#include "merge/render/units.h"
#include "merge/report/exit_text.h"

namespace trapline {
namespace {

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kQemu = "\x1b[36m";
constexpr std::string_view kGuest = "\x1b[32m";
constexpr std::string_view kWarning = "\x1b[31m";
constexpr std::string_view kNormal = "\x1b[0m";
constexpr std::size_t kWhoWidth = 16;
constexpr std::uint32_t kMostIndent = 20;

std::string_view without_system(std::string_view name) {
  const auto colon = name.find(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

// A series of sync records is a line: the first one's, shortened; the others are empty.
std::string without_readings(std::string_view text) {
  if (const auto sync = parse_sync(text)) {
    return sync->index != 0 ? "" : fmt::format("trapline: sync records, series {}", sync->series);
  }
  if (const auto sync = parse_guest_sync(text)) {
    return sync->index != 0 ? ""
                            : fmt::format("trapline: guest sync records, series {}", sync->series);
  }
  return printable(trimmed(text));
}

}  // namespace

TimelineView::TimelineView(const Timeline& timeline, const Input& input,
                           const TimelineOptions& options, std::ostream& out)
    : timeline_(timeline),
      input_(input),
      options_(options),
      out_(out),
      reader_(names_, input.declared),
      model_(choose_exit_model(input.traits)),
      tracker_(model_, reader_),
      cycles_(timeline.source(0).info().cycles) {}

std::string TimelineView::duration(std::uint64_t ns) const { return duration_text(ns, cycles_); }

std::string TimelineView::who(const Event& event, const Place* place) const {
  if (std::holds_alternative<Lost>(event.payload)) return fmt::format("cpu {}", event.cpu);
  if (place != nullptr && place->vcpu != kNoVcpu) return fmt::format("vcpu {}", place->vcpu);
  const std::string comm = timeline_.source_of(event).comm(event.thread);
  // Tasks of a guest have negative numbers (merge/session/guest_kernel_source.h).
  return printable(
      fmt::format("{}-{}", comm.substr(0, 10), std::abs(static_cast<std::int32_t>(event.thread))));
}

void TimelineView::print(const Event& event, const Place* place, unsigned depth,
                         std::string_view colour, const std::string& text) {
  if (place != nullptr && !place->shown) return;
  ++lines_;
  const std::string name = who(event, place);
  const std::size_t width = text_width(name);
  std::string line = time_text(event.at.ns(), cycles_) + "  " + name;
  line.append(width < kWhoWidth ? kWhoWidth - width : 1, ' ');
  line.append(std::size_t{2} * depth, ' ');
  if (options_.style.colours && !colour.empty()) {
    out_ << line << colour << text << kNormal << '\n';
  } else {
    out_ << line << text << '\n';
  }
}

// "kvm_pio pio_write at 0x71 size 1 count 1 val 0x4"
std::string TimelineView::plain(const Event& event) const {
  const Source& source = timeline_.source_of(event);
  if (const auto* marker = std::get_if<Marker>(&event.payload)) {
    return without_readings(event_part(marker->text));
  }
  return fmt::format("{} {}", without_system(source.event_name(event)), source.event_text(event));
}

std::string TimelineView::function_of(std::uint64_t rip) const {
  const Symbol* symbol = input_.symbols.find(rip);
  if (symbol == nullptr) return fmt::format("at {:#x}", rip);
  return fmt::format("in {}+{:#x}", printable(symbol->name), rip - symbol->address);
}

void TimelineView::on_exit(const Event& event, const KvmExit& exit) {
  Place* place = places_.get(event.thread, ExitTracker::kMostThreads);
  if (place == nullptr) return;
  if (exit.vcpu != kNoVcpu) place->vcpu = exit.vcpu;
  const std::string reason =
      reason_text(timeline_.source_of(event), {exit.reason, exit.isa, exit.exception_class});
  place->shown = options_.reason.empty() || matches(options_.reason, reason);
  place->depth = 1;
  if (event.at < options_.from) return;
  print(event, place, 0, kBold,
        fmt::format("exit {}, {}", printable(reason), function_of(exit.rip)));
}

void TimelineView::on_entry(const Event& event, const ExitSpan* span) {
  Place* place = places_.get(event.thread, ExitTracker::kMostThreads);
  if (place == nullptr) return;
  place->depth = 0;
  if (event.at >= options_.from) {
    std::string text = "entry";
    if (span != nullptr) {
      text += " after " + duration(span->total()) + ':';
      for (std::size_t i = 0; i < kParts; ++i) {
        if (span->parts[i] != 0) {
          text += fmt::format(" {} {},", kPartNames[i], duration(span->parts[i]));
        }
      }
      text.pop_back();
      const std::string detail = detail_text(span->detail);
      if (detail != "-") text += "; " + detail;
      if (span->device != kNoName) text += ", " + printable(names_[span->device]);
    }
    print(event, place, 0, kBold, text);
  }
  place->shown = options_.reason.empty();
}

void TimelineView::on_userspace_exit(const Event& event, const KvmUserspaceExit& exit) {
  Place* place = places_.get(event.thread, ExitTracker::kMostThreads);
  if (place == nullptr) return;
  place->depth = 2;
  place->user_start = event.at;
  if (event.at < options_.from) return;
  print(event, place, 1, {},
        "to user space: " + printable(timeline_.source_of(event).userspace_reason(exit.reason)));
}

bool TimelineView::on_user_end(const Event& event) {
  Place* place = places_.find(event.thread);
  if (place == nullptr || place->depth != 2) return false;
  place->depth = model_.from_userspace_exit ? 0 : 1;
  if (event.at >= options_.from) {
    print(event, place, 1, {},
          "back in KVM after " + duration(elapsed(place->user_start, event.at)));
  }
  return true;
}

void TimelineView::on_switch(const Event& event, const SchedSwitch& sched) {
  Place* prev = places_.find(sched.prev);
  Place* next = places_.find(sched.next);
  const auto counted = [&](ThreadId thread) {
    return !options_.threads || options_.threads->contains(thread);
  };
  if (prev != nullptr) {
    prev->off_start = event.at;
    if (event.at >= options_.from && counted(sched.prev)) {
      print(event, prev, prev->depth, {},
            fmt::format("{}: {}-{} runs", sched.runnable ? "preempted" : "sleeps",
                        printable(sched.next_comm), static_cast<std::int32_t>(sched.next)));
    }
  }
  if (next != nullptr && event.at >= options_.from && counted(sched.next)) {
    Event of_next = event;
    of_next.thread = sched.next;
    print(of_next, next, next->depth, {},
          next->off_start == Timestamp()
              ? "runs again"
              : "runs again after " + duration(elapsed(next->off_start, event.at)));
  }
  if (prev == nullptr && next == nullptr && event.at >= options_.from && !options_.threads &&
      options_.reason.empty()) {
    print(event, nullptr, 0, kDim, plain(event));
  }
}

void TimelineView::show(const Event& event, const ExitSpan* span) {
  if (const auto* exit = std::get_if<KvmExit>(&event.payload)) return on_exit(event, *exit);
  if (std::holds_alternative<KvmEntry>(event.payload)) return on_entry(event, span);
  if (const auto* exit = std::get_if<KvmUserspaceExit>(&event.payload)) {
    return on_userspace_exit(event, *exit);
  }
  if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) return on_switch(event, *sched);
  const auto* ioctl = std::get_if<IoctlEnter>(&event.payload);
  if (ioctl != nullptr && ioctl->command == kKvmRun && model_.user_end == UserEnd::kIoctl &&
      on_user_end(event)) {
    return;
  }
  if (const auto* reload = std::get_if<KvmReload>(&event.payload)) {
    if (Place* place = places_.find(event.thread); place != nullptr && reload->vcpu != kNoVcpu) {
      place->vcpu = reload->vcpu;
    }
    if (model_.user_end == UserEnd::kReload && on_user_end(event)) return;
  }
  if (event.at < options_.from) return;
  if (const auto* lost = std::get_if<Lost>(&event.payload)) {
    print(event, nullptr, 0, kWarning,
          lost->count == 0 ? "events lost, nobody knows how many"
                           : fmt::format("{} events lost", grouped(lost->count)));
    return;
  }
  const Place* place = places_.find(event.thread);
  if (place == nullptr && !options_.reason.empty()) return;
  const bool marker = std::holds_alternative<Marker>(event.payload);
  const std::string text = plain(event);
  if (text.empty()) return;
  print(event, place, place == nullptr ? 0 : place->depth, marker ? kQemu : kDim, text);
}

// The guest's own lines stand at the left, where the guest is; its calls are indented by depth.
void TimelineView::on_guest_call(const Event& event, const GuestCall& call) {
  if (event.at < options_.from || (options_.threads && !options_.threads->contains(event.thread)))
    return;
  Place* place = places_.get(event.thread, ExitTracker::kMostThreads);
  if (place == nullptr) return;
  if (place->vcpu == kNoVcpu) place->vcpu = call.vcpu;
  const std::string name =
      call.name.empty() ? fmt::format("{:#x}", call.function) : printable(call.name);
  // What a source knows of arguments and return values stands behind the name.
  const std::string text = timeline_.source_of(event).event_text(event);
  const std::string values = text.starts_with(name) ? text.substr(name.size()) : "";
  print(event, place, 0, kGuest,
        fmt::format("{:{}}{} {}{}{}", "", 2 * std::min(call.depth, kMostIndent),
                    call.entry ? "call" : "return from", name,
                    call.entry && !values.empty() ? "" : "()", values));
}

bool TimelineView::on(const Event& event) {
  if (event.at > options_.to) return false;
  if (const auto* call = std::get_if<GuestCall>(&event.payload)) {
    on_guest_call(event, *call);
    return true;
  }
  const ExitSpan* span = tracker_.on(event);
  const bool counted = !options_.threads || options_.threads->contains(event.thread) ||
                       std::holds_alternative<Lost>(event.payload) ||
                       std::holds_alternative<SchedSwitch>(event.payload);
  if (counted) show(event, span);
  return true;
}

}  // namespace trapline
