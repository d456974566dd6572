#include "merge/render/timeline_view.h"

#include <fmt/format.h>

#include <cstdlib>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/guest_sync.h"
#include "backend_ftrace/sync.h"
#include "merge/report/common_columns.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

constexpr std::size_t kWhoWidth = 16;
constexpr std::uint32_t kMostIndent = 20;
constexpr std::size_t kMostNamed = 1024;  // vCPUs: each that is met may tell another VM

std::string_view without_system(std::string_view name) {
  const auto colon = name.find(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

// A series of sync records is a line: the first one's, shortened; the others are empty.
std::string without_readings(std::string_view text) {
  if (const auto sync = parse_sync(text))
    return sync->index != 0 ? "" : fmt::format("trapline: sync records, series {}", sync->series);
  if (const auto sync = parse_guest_sync(text)) {
    return sync->index != 0 ? ""
                            : fmt::format("trapline: guest sync records, series {}", sync->series);
  }
  return printable(trimmed(text));
}

}  // namespace

std::string TimelineView::duration(std::uint64_t ns) const { return duration_text(ns, cycles_); }

// The file is read once: from where a second VM is met, each vCPU's line says whose it is.
void TimelineView::meet(ThreadId thread, std::int32_t vcpu, const Processes& processes) {
  const auto found = met_.find(thread);
  if (found != met_.end() ? found->second == vcpu : met_.size() >= kMostNamed) return;
  met_[thread] = vcpu;
  std::vector<VcpuThread> threads;
  for (const auto& [id, number] : met_) threads.push_back({id, number});
  names_ = VcpuNames(threads, find_vms(threads, processes));
}

TimelineView::Place TimelineView::place_of(ThreadId thread, const Pipeline& pipeline) {
  Place place;
  place.shown = only_ == nullptr;
  const auto state = pipeline.vcpu(thread);
  if (!state) {
    const auto found = vcpus_of_calls_.find(thread);
    if (found == vcpus_of_calls_.end()) return place;
    place.vcpu = found->second;
  }
  place.is_vcpu = true;
  if (!state) return place;
  place.vcpu = state->vcpu;
  meet(thread, state->vcpu, pipeline.processes());
  const bool in_exit =
      state->where == VcpuState::Where::kKernel || state->where == VcpuState::Where::kUser;
  if (!in_exit) return place;
  place.depth = state->where == VcpuState::Where::kUser ? 2 : 1;
  place.shown = only_ == nullptr || only_->contains(thread, state->begin);
  return place;
}

std::string TimelineView::who(const Event& event, const Place& place) const {
  if (std::holds_alternative<Lost>(event.payload)) return fmt::format("cpu {}", event.cpu);
  if (place.is_vcpu && place.vcpu != kNoVcpu) {
    const std::string vm = processes_ != nullptr && processes_->has_several_names()
                               ? processes_->name_of(processes_->of(event.thread, event.thread))
                               : std::string();
    if (!vm.empty()) return fmt::format("{} vCPU {}", vm, place.vcpu);
    return met_.contains(event.thread) ? names_.vcpu(event.thread, true)
                                       : fmt::format("vCPU {}", place.vcpu);
  }
  const ThreadId task = is_guest(event.machine) ? event.task : event.thread;
  const std::string comm = timeline_.source_of(event).comm(task);
  return printable(fmt::format("{}-{}", comm, static_cast<std::int32_t>(task)));
}

void TimelineView::print(const Event& event, const Place& place, unsigned depth,
                         std::string_view look, const std::string& text) {
  if (!place.shown) return;
  ++lines_;
  const std::string name = who(event, place);
  const std::size_t width = text_width(name);
  std::string line = time_text(event.at.ns(), cycles_) + "  " + name;
  line.append(width < kWhoWidth ? kWhoWidth - width : 2, ' ');
  line.append(std::size_t{2} * depth, ' ');
  out_ << line << looking(look, text, style_) << '\n';
}

// "kvm_pio pio_write at 0x71 size 1 count 1 val 0x4"
std::string TimelineView::plain(const Event& event) const {
  const Source& source = timeline_.source_of(event);
  if (const auto* marker = std::get_if<Marker>(&event.payload))
    return without_readings(event_part(marker->text));
  return fmt::format("{} {}", without_system(source.event_name(event)), source.event_text(event));
}

namespace {

std::string function_of(const Pipeline& pipeline, const Event& event, const ExitReason& reason,
                        std::uint64_t rip) {
  if (pipeline.hides_rip(event.thread, reason, rip)) return std::string(kHiddenFunction);
  const SymbolTable* symbols = pipeline.symbols();
  const Symbol* symbol =
      symbols == nullptr || (rip == 0 && may_hide_rip(reason)) ? nullptr : symbols->find(rip);
  if (symbol == nullptr) return fmt::format("at {:#x}", rip);
  return fmt::format("in {}+{:#x}", printable(symbol->name), rip - symbol->address);
}

// "after 203 µs: kernel 60.4 µs, user 143 µs; port 0x71 read, rtc"
std::string exit_summary(const ExitSpan& exit, const Pipeline& pipeline, bool cycles) {
  const auto titles = part_titles(pipeline.exits().model().known_states());
  std::string text = "after " + duration_text(exit.total(), cycles) + ':';
  for (std::size_t i = 0; i < kParts; ++i) {
    if (exit.parts[i] != 0)
      text += fmt::format(" {} {},", titles[i], duration_text(exit.parts[i], cycles));
  }
  text.pop_back();
  const std::string detail = detail_text(exit.detail);
  if (detail != "-") text += "; " + detail;
  if (exit.device != kNoName) text += ", " + printable(pipeline.names()[exit.device]);
  if (exit.nested != NestedLevel::kGuest) text += fmt::format(" ({})", nested_text(exit.nested));
  return text;
}

}  // namespace

void TimelineView::on_exit(const Event& event, const KvmExit& exit, const Place& place,
                           const Pipeline& pipeline) {
  const ExitReason why{exit.reason, exit.isa, exit.exception_class};
  const std::string reason = reason_text(timeline_.source_of(event), why);
  print(event, place, 0, kBold,
        fmt::format("exit {}, {}", printable(reason), function_of(pipeline, event, why, exit.rip)));
}

void TimelineView::on_entry(const Event& event, Place place, const Pipeline& pipeline) {
  std::string text = "entry";
  if (const ExitSpan* exit = pipeline.ended()) {
    text += " " + exit_summary(*exit, pipeline, cycles_);
    place.shown = only_ == nullptr || only_->contains(exit->thread, exit->start);
  }
  print(event, place, 0, kBold, text);
}

void TimelineView::on_switch(const Event& event, const ThreadChange& leaves,
                             const ThreadChange& runs, const Pipeline& pipeline) {
  const Place prev = place_of(leaves.thread, pipeline);
  const Place next = place_of(runs.thread, pipeline);
  if (prev.is_vcpu && pipeline.counts(leaves.thread)) {
    print(event, prev, prev.depth, {},
          fmt::format("{}: {}-{} runs", leaves.sleeps() ? "sleeps" : "preempted",
                      printable(runs.name), static_cast<std::int32_t>(runs.thread)));
  }
  if (next.is_vcpu && pipeline.counts(runs.thread)) {
    Event of_next = event;
    of_next.thread = runs.thread;
    const auto state = pipeline.vcpu(runs.thread);
    print(of_next, next, next.depth, {},
          !state || !state->off_cpu
              ? "runs again"
              : "runs again after " + duration(elapsed(*state->off_cpu, event.at)));
  }
  if (!prev.is_vcpu && !next.is_vcpu && pipeline.counts_all() && only_ == nullptr)
    print(event, {}, 0, kDim, plain(event));
}

void TimelineView::show(const Event& event, const Place& place, const Pipeline& pipeline) {
  if (const auto* lost = std::get_if<Lost>(&event.payload)) {
    return print(event, {}, 0, kAlarm,
                 lost->count == 0 ? "events lost (count unknown)"
                                  : fmt::format("{} events lost", grouped(lost->count)));
  }
  if (is_guest(event.machine)) return on_guest_event(event, place);
  if (const auto* exit = std::get_if<KvmExit>(&event.payload))
    return on_exit(event, *exit, place, pipeline);
  if (std::holds_alternative<KvmEntry>(event.payload)) return on_entry(event, place, pipeline);
  if (!place.shown) return;
  if (const auto* exit = std::get_if<KvmUserspaceExit>(&event.payload)) {
    const std::string reason = timeline_.source_of(event).userspace_reason(exit->reason);
    return print(event, place, 1, {}, "to user space: " + printable(reason));
  }
  if (const auto begin = pipeline.exits().user_ended())
    return print(event, place, 1, {}, "back in KVM after " + duration(elapsed(*begin, event.at)));
  const bool marker = std::holds_alternative<Marker>(event.payload);
  const std::string text = plain(event);
  if (!text.empty()) print(event, place, place.depth, marker ? kVmmLook : kDim, text);
}

// What the guest's own kernel recorded: who did what inside it.
void TimelineView::on_guest_event(const Event& event, const Place& place) {
  if (!place.shown) return;
  const std::string text = plain(event);
  if (!text.empty()) print(event, place, 0, kGuestLook, text);
}

// The guest's own lines stand at the left, where the guest is; its calls are indented by depth.
void TimelineView::on_guest_call(const Event& event, const GuestCall& call, Place place) {
  if (!place.is_vcpu && vcpus_of_calls_.size() < ExitTracker::kMostThreads)
    vcpus_of_calls_.try_emplace(event.thread, call.vcpu);
  place.is_vcpu = true;
  if (place.vcpu == kNoVcpu) place.vcpu = call.vcpu;
  place.shown = only_ == nullptr || (place.depth != 0 && place.shown);
  const std::string name =
      call.name.empty() ? fmt::format("{:#x}", call.function) : printable(call.name);
  // What a source knows of arguments and return values follows the name.
  const std::string text = timeline_.source_of(event).event_text(event);
  const std::string values = text.starts_with(name) ? text.substr(name.size()) : "";
  print(event, place, 0, kGuestLook,
        fmt::format("{:{}}{} {}{}{}", "", 2 * std::min(call.depth, kMostIndent),
                    call.entry ? "call" : "return from", name,
                    call.entry && !values.empty() ? "" : "()", values));
}

void TimelineView::event(const Event& event, const Pipeline& pipeline) {
  processes_ = &pipeline.processes();
  // What came before the interval tells of its VMs as well.
  if (std::holds_alternative<KvmEntry>(event.payload)) {
    if (const auto state = pipeline.vcpu(event.thread))
      meet(event.thread, state->vcpu, pipeline.processes());
  }
  // A loss may come before the first event.
  if (event.at < from_.resolve(pipeline.first().value_or(event.at))) return;
  has_events_ = true;
  const ThreadChanges changes = pipeline.changes();
  const bool is_switch = !changes.empty() && changes.front().leaves();
  if (is_switch && !is_guest(event.machine))
    return on_switch(event, changes.front(), changes.back(), pipeline);
  const bool counts = pipeline.counts(event.thread) || std::holds_alternative<Lost>(event.payload);
  if (!counts) return;
  const Place place = place_of(event.thread, pipeline);
  if (const auto* call = std::get_if<GuestCall>(&event.payload))
    return on_guest_call(event, *call, place);
  show(event, place, pipeline);
}

}  // namespace trapline
