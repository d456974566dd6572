// Cuts the events of vCPU threads into exit spans: docs/formats/report.md, "Exit model".
//
// State is per thread: a span goes on across CPU migration, and vCPU 0 of two QEMUs stay apart.
//
//                  kvm_exit                        kvm_entry / emit span
//   ┌─> in guest ────────────> in exit (kernel) ──────────────────────────> in guest
//   │                              │      ^
//   │          kvm_userspace_exit  │      │  ioctl KVM_RUN | reload | kvm_entry
//   │                              v      │
//   │                            in exit (user)
//   └── unknown: at the start, and after a loss that could hide one of the thread's events
//
//   Off the CPU, wherever in a span: runnable -> preempted; asleep -> blocked until it is woken.
//
// Guarantees: the parts of a span sum to its total; no span bridges a loss that could hide one of
// its events; what does not fit is counted. Every kvm_exit is a span, an exit_without_entry or a
// closed_by_loss; every kvm_entry ends a span or is an entry_without_exit.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "merge/analyze/exit_model.h"
#include "merge/analyze/vcpu_state.h"
#include "merge/analyze/vmm/event_reader.h"
#include "merge/model/thread_table.h"

namespace trapline {

class ExitTracker {
 public:
  static constexpr std::size_t kMostThreads = 1u << 16;
  // Intervals, and handlers, of one exit. What comes after is summed up, and counted.
  static constexpr std::size_t kMostIntervals = 1u << 15;

  // `reader` is borrowed; `model` stays as it is.
  ExitTracker(const ExitModel& model, VmmEventReader& reader, Detail detail = Detail::kSums)
      : model_(model), reader_(&reader), detail_(detail) {}

  // The span that the event completes, or nullptr; valid until the next call.
  [[nodiscard]] const ExitSpan* on(const Event& event);
  // After the last event, until it returns nullptr: spans that were complete but for a look ahead.
  // What is still open is then counted.
  [[nodiscard]] const ExitSpan* finish();

  // Another event came that concerns no exit: what the last one told is past.
  void pass() {
    is_vmm_event_ = has_run_ = false;
    user_ended_.reset();
  }

  [[nodiscard]] const ExitModel& model() const { return model_; }
  [[nodiscard]] const ExitCounters& counters() const { return counters_; }
  // The threads that run vCPUs, in order of first sight; with the guest's runs and the exits that
  // are open at `now`, which is no earlier than the last event.
  [[nodiscard]] std::vector<VcpuTotalsOf> vcpus() const;
  [[nodiscard]] std::vector<VcpuTotalsOf> vcpus_at(Timestamp now) const;
  // Nothing for a thread without an event of KVM.
  [[nodiscard]] std::optional<VcpuState> state(ThreadId thread) const;
  [[nodiscard]] std::vector<OpenExit> open() const;
  [[nodiscard]] std::optional<OpenExit> open(ThreadId thread) const;
  // The guest's run that the last event ended, or nullptr.
  [[nodiscard]] const GuestRun* guest_run() const { return has_run_ ? &run_ : nullptr; }
  // When the time in user space began that the last event ended, where its end is an event of its
  // own (UserEnd::kIoctl, kReload).
  [[nodiscard]] std::optional<Timestamp> user_ended() const { return user_ended_; }
  // Indexed by NameId.
  [[nodiscard]] const std::vector<VmmEventCount>& vmm_events() const { return event_counts_; }
  // The QEMU event of the last Marker given to on(), or nullptr when that was none.
  [[nodiscard]] const VmmEvent* last_vmm_event() const {
    return is_vmm_event_ ? &vmm_event_ : nullptr;
  }

 private:
  // A memory region access inside a span, with the device's own events around it.
  struct Access {
    VmmEvent region;
    NameId before = kNoName, after = kNoName;
  };
  struct Thread {
    enum class Phase : std::uint8_t { kUnknown, kGuest, kExit, kEnded };  // kEnded: fallback only
    VcpuTotals totals;
    Phase phase = Phase::kUnknown;
    bool in_user = false, off_cpu = false, asleep = false;
    bool sealed = false;  // fallback: events were lost, so no later one is the span's detail
    std::uint8_t accesses = 0;
    std::uint32_t cpu = 0;
    Timestamp mark;  // up to where the open interval is accounted
    Timestamp last;  // of the thread's last event
    ExitSpan span;
    KvmDetail waiting = kNoDetail;  // fallback: what the next exit is about
    NameId device_event = kNoName, accelerator_event = kNoName, before_access = kNoName;
    std::array<Access, 8> access{};
    Timestamp user_begin;
    std::optional<Timestamp> off_since;
    std::vector<PartInterval> intervals;  // Detail::kIntervals
    std::vector<HandlerEvent> handlers;
  };
  struct Dispatch;
  // Adds the time since the thread's last mark to the part that it was in.
  void account(Thread& thread, Timestamp at) {
    if (thread.phase == Thread::Phase::kExit && at > thread.mark) add(thread, at);
  }
  void add(Thread& thread, Timestamp at);
  [[nodiscard]] static Part part_of(const Thread& thread);
  void keep(Thread& thread, Part part, Timestamp at);
  void seen(Thread& thread, const Event& event);
  void runs(Thread& thread, Timestamp at);
  void close_for_loss(Thread& thread);
  void begin(Thread& thread, const Event& event, const ExitReason& reason, std::uint64_t rip);
  const ExitSpan* emit(Thread& thread);
  static void name_device(Thread& thread);
  static void name_mmio(ExitSpan& span);
  static void set_vcpu(Thread& thread, std::int32_t vcpu);
  static OpenExit open_exit(ThreadId thread, const Thread& state);
  Thread* vcpu_thread(const Event& event);
  void on_exit(const Event& event, const KvmExit& exit);
  void on_nested(const Event& event, NestedStep step);
  const ExitSpan* on_entry(const Event& event, const KvmEntry& entry);
  const ExitSpan* on_userspace_exit(const Event& event, const KvmUserspaceExit& exit);
  void on_user_end(const Event& event, UserEnd by);
  const ExitSpan* on_detail(const Event& event, const KvmDetail& detail);
  const ExitSpan* on_fallback_detail(const Event& event, const KvmDetail& detail);
  void on_switch(const Event& event, const SchedSwitch& sched);
  void on_wakeup(const Event& event, ThreadId thread);
  void on_marker(const Event& event, const Marker& marker);
  void note_vmm_event(Thread& thread) const;
  void on_lost(const Event& event, const Lost& lost);

  ExitModel model_;
  VmmEventReader* reader_;
  Detail detail_;
  ThreadTable<Thread> threads_;
  ExitCounters counters_;
  std::vector<VmmEventCount> event_counts_;
  std::vector<Timestamp> hole_end_;  // by CPU
  Timestamp latest_hole_end_;
  VmmEvent vmm_event_;
  bool is_vmm_event_ = false, has_run_ = false;
  GuestRun run_;
  std::optional<Timestamp> user_ended_;
  ExitSpan done_;
  std::vector<PartInterval> done_intervals_;
  std::vector<HandlerEvent> done_handlers_;
  std::size_t finished_ = 0;  // threads that finish() has looked at
};

}  // namespace trapline
