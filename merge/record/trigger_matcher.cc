#include "merge/record/trigger_matcher.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/stall_tracker.h"
#include "merge/model/kernel_events.h"

namespace trapline::record {
namespace {

// Events that begin or end an exit, give the vCPU's number on arm64, or, because of losses, show
// where threads run. Events that only add details are left out.
constexpr const KernelEvent* kWanted[] = {&events::kvm_exit,           &events::kvm_entry,
                                          &events::kvm_userspace_exit, &events::sys_enter_ioctl,
                                          &events::kvm_get_timer_map,  &events::kvm_fpu,
                                          &events::sched_switch};
// For stalls: events that end a halt, or that show that a page fault is the same one again.
constexpr const KernelEvent* kWantedOfStalls[] = {&events::sched_waking, &events::sched_wakeup,
                                                  &events::kvm_vcpu_wakeup,
                                                  &events::kvm_page_fault};

using Table = const kernel_events::SymbolNames*;

// kLongOpen: an exit that is open for longer is no longer waited for. kAWhile: whether its thread
// is alive is checked only for exits that are open for longer.
constexpr std::uint64_t kLongOpen = 1'000'000'000, kAWhile = 50'000'000;

// Returns whether the reason is printed as a number, because it has no name.
bool is_number(std::string_view reason) {
  return reason.starts_with("0x") || reason.starts_with("class ") || reason.starts_with("ret ") ||
         reason.starts_with("KVM_EXIT 0x");
}

std::vector<std::string_view> names_in(std::initializer_list<Table> tables) {
  std::vector<std::string_view> names;
  for (const Table table : tables)
    for (const auto& [number, name] : *table) names.emplace_back(name);
  return names;
}

}  // namespace

// The pipeline of the reports, and its results. Both start afresh at the first kvm_exit.
struct TriggerMatcher::Tracking : SpanSink {
  Tracking(const ExitModel& model, const Trigger& trigger)
      : selected(trigger.stall ? SpanClass::kStalls : SpanClass::kExits),
        pipeline(options(model, trigger), {this}) {}
  [[nodiscard]] static PipelineOptions options(const ExitModel& model, const Trigger& trigger) {
    PipelineOptions how;
    how.model = model;
    how.stalls_ns = trigger.longer_than_ns + 1;
    return how;
  }
  [[nodiscard]] SpanClass selects() const override { return selected; }
  void exit(const ExitSpan& exit, const Pipeline&) override { ended.push_back(exit); }
  void stall(const Stall& stall, const Pipeline&) override { stalls.push_back(stall); }

  SpanClass selected;
  std::vector<ExitSpan> ended;
  std::vector<Stall> stalls;
  Pipeline pipeline;
  bool kvm_exit = false;
};

TriggerMatcher::TriggerMatcher(Trigger trigger, kernel_events::Formats formats)
    : trigger_(std::move(trigger)), formats_(std::move(formats)) {
  for (const KernelEvent* event : kWanted) want(*event, true);
  if (trigger_.stall)
    for (const KernelEvent* event : kWantedOfStalls) want(*event, true);
  start_tracking(false);
}
TriggerMatcher::TriggerMatcher(TriggerMatcher&&) noexcept = default;
TriggerMatcher::~TriggerMatcher() = default;

Result<TriggerMatcher> TriggerMatcher::open(Trigger trigger, kernel_events::Formats formats) {
  if (formats.type(events::kvm_exit) < 0 && formats.type(events::kvm_userspace_exit) < 0) {
    return fail(ErrorKind::kUsage,
                "--snapshot-on '{}': no event that tells an exit is recorded; leave out --no-kvm, "
                "or add --events {},{}",
                printable(trigger.text), events::kvm_exit.full_name, events::kvm_entry.full_name);
  }
  const kernel_events::ReasonNames& names = formats.reasons();
  const auto all =
      names_in({&names.vmx, &names.svm, &names.arm64_ret, &names.arm64_class, &names.userspace});
  if (!trigger.reason.empty() && !is_number(trigger.reason) &&
      std::ranges::find(all, trigger.reason) == all.end()) {
    const std::string_view near = nearest(trigger.reason, all);
    return trigger_error(trigger.text, trigger.reason_column,
                         near.empty() ? "this kernel has no such reason"
                                      : fmt::format("this kernel has no such reason; did you mean "
                                                    "{}?",
                                                    near));
  }
  return TriggerMatcher(std::move(trigger), std::move(formats));
}

void TriggerMatcher::want(const KernelEvent& event, bool wanted) {
  if (const int type = formats_.type(event); type >= 0)
    wanted_[static_cast<std::size_t>(type)] = wanted;
}

void TriggerMatcher::start_tracking(bool kvm_exit) {
  Capabilities capabilities;
  capabilities.kvm_exit = kvm_exit;
  capabilities.kvm_userspace_exit = true;
  capabilities.run_ioctl = formats_.type(events::sys_enter_ioctl) >= 0;
  capabilities.reload =
      formats_.type(events::kvm_get_timer_map) >= 0 || formats_.type(events::kvm_fpu) >= 0;
  tracking_ = std::make_unique<Tracking>(choose_exit_model(capabilities), trigger_);
  tracking_->kvm_exit = kvm_exit;
  if (!kvm_exit || trigger_.stall) return;
  // These events come at every return from user space. Where kvm_exit is recorded they change no
  // exit's duration, so they are not decoded.
  for (const KernelEvent* event :
       {&events::kvm_userspace_exit, &events::sys_enter_ioctl, &events::kvm_fpu})
    want(*event, false);
}

bool TriggerMatcher::may_hit(const ExitReason& reason) const {
  return trigger_.reason.empty() ? !is_halt(reason)
                                 : formats_.reasons().of(reason) == trigger_.reason;
}

void TriggerMatcher::add_hit(std::uint64_t start, std::uint64_t end, ThreadId thread,
                             std::int32_t vcpu, std::string reason, bool open, bool near_loss) {
  hits_.push_back({start, end - start, std::move(reason), tid_of(thread), {}, open, near_loss});
  if (vcpu != kNoVcpu) hits_.back().vcpu = vcpu;
}

void TriggerMatcher::check_ended() {
  for (const ExitSpan& exit : tracking_->ended) {
    const bool hits = trigger_.reason.empty() ? !exit.halt : may_hit(exit.reason);
    if (exit.total() <= trigger_.longer_than_ns || !hits) continue;
    add_hit(exit.start.ns(), exit.end.ns(), exit.thread, exit.vcpu,
            formats_.reasons().of(exit.reason));
  }
  tracking_->ended.clear();
  for (const Stall& stall : tracking_->stalls) {
    if (is_in(forgotten_, stall.thread, stall.begin.ns())) continue;
    const std::int32_t vcpu = stall.longest ? stall.longest->vcpu : kNoVcpu;
    add_hit(stall.begin.ns(), stall.end.ns(), stall.thread, vcpu, "stall", stall.open);
  }
  tracking_->stalls.clear();
}

void TriggerMatcher::on(const kernel_events::RecordedEvent& recorded, std::uint32_t cpu) {
  Event event;
  event.at = Timestamp(recorded.time);
  event.cpu = cpu;
  if (!formats_.decode(recorded, event)) return;
  if (std::holds_alternative<KvmExit>(event.payload) && !tracking_->kvm_exit) start_tracking(true);
  (void)tracking_->pipeline.push(event);
  check_ended();
  if (!doubtful_.empty() || recorded.time < loss_end_)
    look_near_loss(event, tracking_->pipeline.ended());
}

void TriggerMatcher::doubt(const VcpuState& exit) {
  if (exit.end || !may_hit(exit.reason)) return;
  doubtful_[exit.thread] = {exit.begin.ns(), exit.vcpu, exit.reason};
}

// Makes a hit of a long exit near a loss, although the exit tracker closed it because of the loss.
// In a report, which learns of the loss earlier, the exit may be complete.
void TriggerMatcher::look_near_loss(const Event& event, const ExitSpan* span) {
  const ThreadId thread = tracking_->pipeline.now(tid_of(event.thread));
  const bool begins = tracking_->kvm_exit ? std::holds_alternative<KvmExit>(event.payload)
                                          : std::holds_alternative<KvmUserspaceExit>(event.payload);
  if (begins) {
    doubtful_.erase(thread);
    if (event.at.ns() >= loss_end_) return;
    const auto exit = tracking_->pipeline.vcpu(thread);
    if (exit && exit->where > VcpuState::Where::kGuest) doubt(*exit);
    return;
  }
  const bool ends = std::holds_alternative<KvmEntry>(event.payload) ||
                    (!tracking_->kvm_exit && (std::holds_alternative<IoctlEnter>(event.payload) ||
                                              std::holds_alternative<KvmStateLoad>(event.payload)));
  const auto found = ends ? doubtful_.find(thread) : doubtful_.end();
  if (found == doubtful_.end()) return;
  const Doubtful open = found->second;
  doubtful_.erase(found);
  if (span != nullptr && span->start.ns() == open.start) return;  // the span is the whole exit
  const auto ended = tracking_->pipeline.vcpu(thread);
  if (ended && ended->end && ended->begin.ns() == open.start) return;
  const std::uint64_t end = event.at.ns();
  if (end <= open.start || end - open.start <= trigger_.longer_than_ns) return;
  add_hit(open.start, end, thread, open.vcpu, formats_.reasons().of(open.reason), false, true);
}

void TriggerMatcher::on_lost(std::uint32_t cpu, std::uint64_t from, std::uint64_t to) {
  loss_end_ = std::max(loss_end_, to);
  for (const VcpuState& exit : tracking_->pipeline.open()) doubt(exit);
  Event event;
  event.at = Timestamp(from);
  event.cpu = cpu;
  event.thread = ThreadId{-1};
  event.payload = Lost{Timestamp(from), Timestamp(to), 0};
  (void)tracking_->pipeline.push(event);
  check_ended();
}

bool TriggerMatcher::is_in(const OpenExits& exits, ThreadId thread, std::uint64_t start) {
  const auto found = exits.find(thread);
  return found != exits.end() && found->second == start;
}

void TriggerMatcher::look_after_stalls(std::uint64_t now, const Alive& alive) {
  const Pipeline& pipeline = tracking_->pipeline;
  OpenExits certain;
  for (const StallTime& stall :
       pipeline.stalls()->open(pipeline, Timestamp(now), trigger_.longer_than_ns + 1)) {
    const std::uint64_t start = stall.begin.ns();
    if (is_in(forgotten_, stall.thread, start)) continue;
    if (stall.open) {
      (alive(stall.thread) == false ? forgotten_ : certain)[stall.thread] = start;
    } else {
      const std::int32_t vcpu = pipeline.vcpu(stall.thread)->vcpu;
      add_hit(start, stall.end.ns(), stall.thread, vcpu, "stall");
      forgotten_[stall.thread] = start;
    }
  }
  certain_ = std::move(certain);
}

void TriggerMatcher::look_after_open(std::uint64_t now, const Alive& alive) {
  now_ = now;
  if (trigger_.stall) return look_after_stalls(now, alive);
  OpenExits certain;
  for (const VcpuState& exit : tracking_->pipeline.open()) {
    if (exit.end || !may_hit(exit.reason)) continue;
    const ThreadId thread = exit.thread;
    const std::uint64_t start = exit.begin.ns();
    if (now <= start || now - start < kAWhile || is_in(forgotten_, thread, start)) continue;
    const bool was_certain = is_in(certain_, thread, start);
    if (alive(thread) == false) {
      forgotten_[thread] = start;
      if (!was_certain) continue;
      add_hit(start, now, thread, exit.vcpu, formats_.reasons().of(exit.reason), true);
    } else if (was_certain || now - start > std::max(trigger_.longer_than_ns, kLongOpen)) {
      certain[thread] = start;
    }
  }
  certain_ = std::move(certain);
}

void TriggerMatcher::finish(std::uint64_t now, const Alive& alive) {
  if (trigger_.stall) {
    look_after_stalls(now, alive);
    tracking_->pipeline.finish(Timestamp(now));
    return check_ended();
  }
  for (const VcpuState& exit : tracking_->pipeline.open()) {
    if (exit.end || !may_hit(exit.reason)) continue;
    const ThreadId thread = exit.thread;
    const std::uint64_t start = exit.begin.ns();
    if (now <= start || now - start <= trigger_.longer_than_ns) continue;
    if (is_in(forgotten_, thread, start) ||
        (!is_in(certain_, thread, start) && alive(thread) != true))
      continue;
    add_hit(start, now, thread, exit.vcpu, formats_.reasons().of(exit.reason), true);
  }
  tracking_->pipeline.finish();
  check_ended();
}

std::optional<std::uint64_t> TriggerMatcher::earliest_open() const {
  std::optional<std::uint64_t> earliest;
  const auto note = [&](std::uint64_t start) {
    earliest = std::min(earliest.value_or(start), start);
  };
  const Pipeline& pipeline = tracking_->pipeline;
  if (trigger_.stall) {
    for (const StallTime& stall : pipeline.stalls()->open(pipeline, Timestamp(now_), 1)) {
      const std::uint64_t start = stall.begin.ns();
      if (!is_in(forgotten_, stall.thread, start) && !is_in(certain_, stall.thread, start))
        note(start);
    }
  } else {
    for (const VcpuState& exit : pipeline.open()) {
      // An exit that has already ended is returned with its thread's next event.
      if (exit.end && elapsed(exit.begin, *exit.end) <= trigger_.longer_than_ns) continue;
      // isa 0: the thread was switched out in the guest, and its kvm_exit will give the reason.
      if (!may_hit(exit.reason) && exit.reason.isa != 0) continue;
      const std::uint64_t start = exit.begin.ns();
      const bool told =
          is_in(forgotten_, exit.thread, start) || is_in(certain_, exit.thread, start);
      if (!exit.end && told) continue;
      note(start);
    }
  }
  for (const auto& [thread, exit] : doubtful_) {  // not for ever: the end of the exit may be lost
    if (now_ > exit.start + std::max(trigger_.longer_than_ns, kLongOpen)) continue;
    note(exit.start);
  }
  return earliest;
}

}  // namespace trapline::record
