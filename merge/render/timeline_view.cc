#include "merge/render/timeline_view.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <iterator>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/guest_sync.h"
#include "backend_ftrace/sync.h"
#include "merge/report/common_columns.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

constexpr std::size_t kWhoWidth = 16;
constexpr std::uint32_t kMostIndent = 20;
constexpr std::size_t kMostNamed = 1024;  // vCPUs whose names are kept

template <typename Format, typename... Values>
void append(std::string& out, const Format& format, const Values&... values) {
  fmt::format_to(std::back_inserter(out), format, values...);
}

// Appends a marker's text. For a series of sync records, only the first record appends a text: one
// that names the series.
void append_without_readings(std::string& out, std::string_view text) {
  const auto add = [&out](std::string_view what, const auto& sync) {
    if (sync.index == 0) out += fmt::format("trapline: {} records, series {}", what, sync.series);
  };
  if (const auto sync = parse_sync(text)) return add("sync", *sync);
  if (const auto sync = parse_guest_sync(text)) return add("guest sync", *sync);
  out += printable(trimmed(text));
}

}  // namespace

// Notes a vCPU. The recording is read once, so lines name the VM only after a vCPU of a second VM
// was met.
void TimelineView::meet(ThreadId thread, std::int32_t vcpu) {
  const auto found = met_.find(thread);
  if (found != met_.end() ? found->second == vcpu : met_.size() >= kMostNamed) return;
  met_[thread] = vcpu;
  named_ = 0;
}

TimelineView::Place TimelineView::place_of(ThreadId thread, const Pipeline& pipeline) {
  Place place;
  place.shown = only_ == nullptr;
  const auto state = pipeline.vcpu(thread);
  if (!state) {
    const auto found = told_vcpus_.find(thread);
    if (found == told_vcpus_.end()) return place;
    place.vcpu = found->second;
  }
  place.is_vcpu = true;
  if (!state) return place;
  place.vcpu = state->vcpu;
  meet(thread, state->vcpu);
  const bool in_exit =
      state->where == VcpuState::Where::kKernel || state->where == VcpuState::Where::kUser;
  if (!in_exit) return place;
  place.depth = state->where == VcpuState::Where::kUser ? 2 : 1;
  place.shown = only_ == nullptr || only_->contains(thread, state->begin);
  return place;
}

std::string TimelineView::name_of(const Event& event, const Place& place) const {
  if (std::holds_alternative<Lost>(event.payload)) return fmt::format("cpu {}", event.cpu);
  if (place.is_vcpu && place.vcpu != kNoVcpu) {
    const std::string vm = processes_ != nullptr && processes_->has_several_names()
                               ? names_.vm_name(event.thread)
                               : std::string();
    if (!vm.empty()) return fmt::format("{} vCPU {}", vm, place.vcpu);
    return met_.contains(event.thread) ? names_.vcpu(event.thread, true)
                                       : fmt::format("vCPU {}", place.vcpu);
  }
  const ThreadId task = is_guest(event.machine) ? event.task : event.thread;
  const std::string comm = timeline_.source_of(event).comm(task);
  return printable(fmt::format(FMT_COMPILE("{}-{}"), comm, tid_of(task)));
}

// Returns the name, padded with blanks. A vCPU's name is kept until a new vCPU, or new facts about
// processes, may change it.
const std::string& TimelineView::who(const Event& event, const Place& place) {
  const bool is_kept = place.is_vcpu && place.vcpu != kNoVcpu;
  if (is_kept && named_ != processes_->changes() + 1) {
    std::vector<VcpuThread> threads;
    for (const auto& [id, number] : met_) threads.push_back({id, number});
    names_ = VcpuNames(threads, find_vms(threads, *processes_));
    named_ = processes_->changes() + 1;
    whos_.clear();
  }
  std::string* who = is_kept ? whos_.get(event.thread, kMostNamed) : nullptr;
  if (who != nullptr && !who->empty()) return *who;
  if (who == nullptr) who = &other_;
  *who = name_of(event, place);
  const std::size_t width = text_width(*who);
  who->append(width < kWhoWidth ? kWhoWidth - width : 2, ' ');
  return *who;
}

template <typename Text>
void TimelineView::print(const Event& event, const Place& place, unsigned depth,
                         std::string_view look, Text&& append_text) {
  if (!place.shown) return;
  const std::size_t begin = buffer_.size();
  buffer_ += time_text(event.at.ns(), cycles_);
  buffer_ += "  ";
  buffer_ += who(event, place);
  buffer_ += std::string_view("    ").substr(0, std::size_t{2} * depth);
  const bool looks = style_.colours && !look.empty();
  if (looks) buffer_ += look;
  const std::size_t text = buffer_.size();
  append_text(buffer_);
  if (buffer_.size() == text) return buffer_.resize(begin);
  if (looks) buffer_ += kNormal;
  buffer_ += '\n';
  ++lines_;
  constexpr std::size_t kPiece = 64u << 10;
  if (buffer_.size() >= kPiece) write_out();
}

void TimelineView::write_out() {
  out_ << buffer_;
  buffer_.clear();
}

// Appends "kvm_pio pio_write at 0x71 size 1 …"; for a series of sync records, only the first.
void TimelineView::append_plain(std::string& out, const Event& event) const {
  const Source& source = timeline_.source_of(event);
  if (const auto* marker = std::get_if<Marker>(&event.payload))
    return append_without_readings(out, event_part(marker->text));
  const std::string name = source.event_name(event);
  out.append(name, name.find(':') + 1);  // without its system
  out += ' ';
  out += source.event_text(event);
}

namespace {

void append_function(std::string& out, const Pipeline& pipeline, const Event& event,
                     const ExitReason& reason, std::uint64_t rip) {
  if (pipeline.hides_rip(event.thread, reason, rip)) return void(out += kHiddenFunction);
  const SymbolTable* symbols = pipeline.symbols();
  const Symbol* symbol =
      symbols == nullptr || (rip == 0 && may_hide_rip(reason)) ? nullptr : symbols->find(rip);
  if (symbol == nullptr) return append(out, FMT_COMPILE("at {:#x}"), rip);
  out += "in ";
  out += printable(symbol->name);
  append(out, FMT_COMPILE("+{:#x}"), rip - symbol->address);
}

// Appends " after 203 µs: kernel 60.4 µs, user 143 µs; port 0x71 read, rtc".
void append_summary(std::string& out, const ExitSpan& exit, const Pipeline& pipeline, bool cycles) {
  const auto titles = part_titles(pipeline.exits().model().known_states());
  out += " after ";
  out += duration_text(exit.total(), cycles);
  char before = ':';
  for (std::size_t i = 0; i < kParts; ++i) {
    if (exit.parts[i] == 0) continue;
    append(out, FMT_COMPILE("{} {} {}"), before, titles[i], duration_text(exit.parts[i], cycles));
    before = ',';
  }
  if (exit.detail.kind != DetailKind::kNone) out.append("; ").append(detail_text(exit.detail));
  if (exit.device != kNoName) out.append(", ").append(printable(pipeline.names()[exit.device]));
  if (exit.nested != NestedLevel::kGuest)
    append(out, FMT_COMPILE(" ({})"), nested_text(exit.nested));
}

}  // namespace

void TimelineView::on_exit(const Event& event, const KvmExit& exit, const Place& place,
                           const Pipeline& pipeline) {
  const ExitReason why{exit.reason, exit.isa, exit.exception_class};
  print(event, place, 0, kBold, [&](std::string& out) {
    out.append("exit ").append(printable(timeline_.source_of(event).reason_name(why)));
    append_function(out += ", ", pipeline, event, why, exit.rip);
  });
}

void TimelineView::on_entry(const Event& event, Place place, const Pipeline& pipeline) {
  const ExitSpan* exit = pipeline.ended();
  if (exit != nullptr) place.shown = only_ == nullptr || only_->contains(exit->thread, exit->start);
  print(event, place, 0, kBold, [&](std::string& out) {
    out += "entry";
    if (exit != nullptr) append_summary(out, *exit, pipeline, cycles_);
  });
}

void TimelineView::on_switch(const Event& event, const ThreadChange& leaves,
                             const ThreadChange& runs, const Pipeline& pipeline) {
  const Place prev = place_of(leaves.thread, pipeline);
  const Place next = place_of(runs.thread, pipeline);
  if (prev.is_vcpu && pipeline.counts(leaves.thread)) {
    print(event, prev, prev.depth, {}, [&](std::string& out) {
      append(out, FMT_COMPILE("{}: {}-{} runs"), leaves.sleeps() ? "sleeps" : "preempted",
             printable(runs.name), tid_of(runs.thread));
    });
  }
  if (next.is_vcpu && pipeline.counts(runs.thread)) {
    Event of_next = event;
    of_next.thread = runs.thread;
    const auto state = pipeline.vcpu(runs.thread);
    print(of_next, next, next.depth, {}, [&](std::string& out) {
      out += "runs again";
      if (state && state->off_cpu)
        out.append(" after ").append(duration_text(elapsed(*state->off_cpu, event.at), cycles_));
    });
  }
  if (!prev.is_vcpu && !next.is_vcpu && pipeline.counts_all() && only_ == nullptr)
    print_plain(event, {}, 0, kDim);
}

void TimelineView::print_plain(const Event& event, const Place& place, unsigned depth,
                               std::string_view look) {
  print(event, place, depth, look, [&](std::string& out) { append_plain(out, event); });
}

void TimelineView::show(const Event& event, const Place& place, const Pipeline& pipeline) {
  if (const auto* lost = std::get_if<Lost>(&event.payload)) {
    return print(event, {}, 0, kAlarm, [lost](std::string& out) {
      out +=
          lost->count == 0 ? "events lost (count unknown)" : grouped(lost->count) + " events lost";
    });
  }
  // The guest's own kernel recorded this event; its line names the guest's task.
  if (is_guest(event.machine)) return print_plain(event, place, 0, kGuestLook);
  if (const auto* exit = std::get_if<KvmExit>(&event.payload))
    return on_exit(event, *exit, place, pipeline);
  if (std::holds_alternative<KvmEntry>(event.payload)) return on_entry(event, place, pipeline);
  if (!place.shown) return;
  if (const auto* exit = std::get_if<KvmUserspaceExit>(&event.payload)) {
    return print(event, place, 1, {}, [&](std::string& out) {
      out += "to user space: ";
      out += printable(
          timeline_.source_of(event).reason_name({exit->reason, ExitReason::kIsaUserspace}));
    });
  }
  if (const auto begin = pipeline.exits().user_ended()) {
    return print(event, place, 1, {}, [&](std::string& out) {
      out.append("back in KVM after ").append(duration_text(elapsed(*begin, event.at), cycles_));
    });
  }
  const bool marker = std::holds_alternative<Marker>(event.payload);
  print_plain(event, place, place.depth, marker ? kVmmLook : kDim);
}

// Prints a call of a guest's function at the left, where the guest's lines are, indented by the
// call's depth.
void TimelineView::on_guest_call(const Event& event, const GuestCall& call, Place place) {
  if (!place.is_vcpu && told_vcpus_.size() < ExitTracker::kMostThreads)
    told_vcpus_.try_emplace(event.thread, call.vcpu);
  place.is_vcpu = true;
  if (place.vcpu == kNoVcpu) place.vcpu = call.vcpu;
  place.shown = only_ == nullptr || (place.depth != 0 && place.shown);
  print(event, place, 0, kGuestLook, [&](std::string& out) {
    const std::string name =
        call.name.empty() ? fmt::format(FMT_COMPILE("{:#x}"), call.function) : printable(call.name);
    // If a source knows arguments or a return value, they follow the name in its text.
    const std::string text = timeline_.source_of(event).event_text(event);
    const auto values =
        std::string_view(text).substr(text.starts_with(name) ? name.size() : text.size());
    append(out, FMT_COMPILE("{:{}}{} {}{}{}"), "", 2 * std::min(call.depth, kMostIndent),
           call.entry ? "call" : "return from", name, call.entry && !values.empty() ? "" : "()",
           values);
  });
}

void TimelineView::event(const Event& event, const Pipeline& pipeline) {
  processes_ = &pipeline.processes();
  // Events before the interval also tell which VMs there are.
  if (std::holds_alternative<KvmEntry>(event.payload)) {
    if (const auto state = pipeline.vcpu(event.thread)) meet(event.thread, state->vcpu);
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
