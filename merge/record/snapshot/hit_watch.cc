#include "merge/record/snapshot/hit_watch.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"

namespace trapline::record {
namespace {

constexpr std::string_view kExit = "kvm:kvm_exit", kUserspaceExit = "kvm:kvm_userspace_exit",
                           kRunIoctl = "syscalls:sys_enter_ioctl",
                           kTimerMap = "kvm:kvm_get_timer_map", kFpu = "kvm:kvm_fpu";
// Pairing, the vCPU's number on arm64, and where threads run, for holes; details change no
// duration.
constexpr std::string_view kWanted[] = {
    kExit, "kvm:kvm_entry",      kUserspaceExit, kRunIoctl, kTimerMap,
    kFpu,  "sched:sched_switch", "ftrace:print"};

using Phase = ExitTracker::Thread::Phase;

bool is_known(const trace_dat::ReasonNames& names, const std::string& reason) {
  if (reason.starts_with("0x") || reason.starts_with("class ") || reason.starts_with("ret ") ||
      reason.starts_with("KVM_EXIT 0x")) {
    return true;  // how a report prints a reason without a name
  }
  for (const auto* table :
       {&names.vmx, &names.svm, &names.arm64_ret, &names.arm64_class, &names.userspace}) {
    for (const auto& [number, name] : *table) {
      if (name == reason) return true;
    }
  }
  return false;
}

std::string nearest_reason(const trace_dat::ReasonNames& names, const std::string& reason) {
  std::vector<std::string_view> all;
  for (const auto* table :
       {&names.vmx, &names.svm, &names.arm64_ret, &names.arm64_class, &names.userspace}) {
    for (const auto& [number, name] : *table) all.emplace_back(name);
  }
  return std::string(nearest(reason, all));
}

}  // namespace

// What is begun anew at the first kvm_exit.
struct HitWatch::Tracking {
  explicit Tracking(const ExitModel& model) : reader(names), tracker(model, reader) {}
  Names names;
  QemuEventReader reader;
  ExitTracker tracker;
  bool kvm_exit = false;
};

HitWatch::HitWatch(Trigger trigger, trace_dat::Formats formats)
    : trigger_(std::move(trigger)), formats_(std::move(formats)) {
  look_up_types();
  start_tracking(false);
}
HitWatch::HitWatch(HitWatch&&) noexcept = default;
HitWatch::~HitWatch() = default;

Result<HitWatch> HitWatch::open(Trigger trigger, trace_dat::Formats formats) {
  if (formats.type(kExit) < 0 && formats.type(kUserspaceExit) < 0) {
    return fail(ErrorKind::kUsage,
                "--snapshot-on '{}': no event that tells an exit is recorded; leave out --no-kvm, "
                "or add --events kvm:kvm_exit,kvm:kvm_entry",
                printable(trigger.text));
  }
  if (!trigger.reason.empty() && !is_known(formats.reasons(), trigger.reason)) {
    const std::string near = nearest_reason(formats.reasons(), trigger.reason);
    return trigger_error(trigger.text, trigger.reason_column,
                         near.empty() ? "this kernel has no such reason"
                                      : fmt::format("this kernel has no such reason; did you mean "
                                                    "{}?",
                                                    near));
  }
  return HitWatch(std::move(trigger), std::move(formats));
}

void HitWatch::look_up_types() {
  for (const std::string_view name : kWanted) {
    const int type = formats_.type(name);
    if (type < 0) continue;
    if (wanted_.size() <= static_cast<std::size_t>(type)) {
      wanted_.resize(static_cast<std::size_t>(type) + 1);
    }
    wanted_[static_cast<std::size_t>(type)] = 1;
  }
}

void HitWatch::start_tracking(bool kvm_exit) {
  Traits traits;
  traits.kvm_exit = kvm_exit;
  traits.kvm_userspace_exit = true;
  traits.run_ioctl = formats_.type(kRunIoctl) >= 0;
  traits.reload = formats_.type(kTimerMap) >= 0 || formats_.type(kFpu) >= 0;
  tracking_ = std::make_unique<Tracking>(choose_exit_model(traits));
  tracking_->kvm_exit = kvm_exit;
  if (!kvm_exit) return;
  // With them every return from user space would be decoded, and no duration would change.
  for (const std::string_view name : {kUserspaceExit, kRunIoctl, kFpu}) {
    if (const int type = formats_.type(name); type >= 0) {
      wanted_[static_cast<std::size_t>(type)] = 0;
    }
  }
}

std::string HitWatch::reason_of(const ExitReason& reason) const {
  const trace_dat::ReasonNames& names = formats_.reasons();
  return reason.isa == ExitReason::kIsaUserspace
             ? names.of_userspace(reason.reason)
             : names.of_exit(reason.isa, reason.reason, reason.exception_class);
}

bool HitWatch::may_hit(const ExitReason& reason) const {
  return trigger_.reason.empty() ? !is_halt(reason) : reason_of(reason) == trigger_.reason;
}

void HitWatch::check(const ExitSpan* span) {
  if (span == nullptr || span->total() <= trigger_.longer_than_ns || !may_hit(span->reason)) return;
  hits_.push_back(
      {span->start.ns(), span->end.ns(), span->thread, span->vcpu, reason_of(span->reason), false});
}

void HitWatch::on(const trace_dat::RecordedEvent& recorded, std::uint32_t cpu) {
  Event event;
  event.at = Timestamp(recorded.time);
  event.cpu = cpu;
  if (!formats_.decode(recorded, event)) return;
  if (const auto* marker = std::get_if<Marker>(&event.payload)) {
    if (!marker->text.starts_with(kSyncPrefix)) return;
    if (const auto sync = parse_sync(marker->text)) {
      stamps_.push_back({sync->series, sync->index, recorded.time});
    }
    return;
  }
  if (!tracking_->kvm_exit && std::holds_alternative<KvmExit>(event.payload)) start_tracking(true);
  check(tracking_->tracker.on(event));
}

void HitWatch::on_lost(std::uint32_t cpu, std::uint64_t from, std::uint64_t to) {
  Event event;
  event.at = Timestamp(from);
  event.cpu = cpu;
  event.thread = ThreadId{-1};
  event.payload = Lost{Timestamp(from), Timestamp(to), 0};
  check(tracking_->tracker.on(event));
}

void HitWatch::finish(std::uint64_t now, const std::function<bool(ThreadId)>& alive) {
  for (const auto& [thread, state] : tracking_->tracker.threads()) {
    if (state.phase != Phase::kExit || !may_hit(state.span.reason) || !alive(thread)) continue;
    const std::uint64_t start = state.span.start.ns();
    if (now <= start || now - start <= trigger_.longer_than_ns) continue;
    hits_.push_back({start, now, thread, state.totals.vcpu, reason_of(state.span.reason), true});
  }
  while (const ExitSpan* span = tracking_->tracker.finish()) check(span);
}

std::optional<std::uint64_t> HitWatch::earliest_open() const {
  std::optional<std::uint64_t> earliest;
  for (const auto& [thread, state] : tracking_->tracker.threads()) {
    const bool ended = state.phase == Phase::kEnded;  // the fallback gives it at the next event
    if (state.phase != Phase::kExit && !ended) continue;
    if (ended && elapsed(state.span.start, state.mark) <= trigger_.longer_than_ns) continue;
    if (!may_hit(state.span.reason)) continue;
    earliest = std::min(earliest.value_or(~std::uint64_t{0}), state.span.start.ns());
  }
  return earliest;
}

}  // namespace trapline::record
