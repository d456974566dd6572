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
//   └── unknown: at the start, and after a hole that could hide one of the thread's events
//
//   Off the CPU, wherever in a span: runnable -> preempted; asleep -> blocked until it is woken.
//
// Guarantees: the parts of a span sum to its total; no span bridges a hole that could hide one of
// its events; what does not fit is counted. Every kvm_exit is a span, an exit_without_entry or a
// closed_by_loss; every kvm_entry ends a span or is an entry_without_exit.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "merge/analyze/exit_model.h"
#include "merge/analyze/qemu_events.h"
#include "merge/model/thread_table.h"

namespace trapline {

struct ExitCounters {
  std::uint64_t exits = 0;
  std::uint64_t exit_without_entry = 0;  // another kvm_exit or the recording's end came first
  std::uint64_t entry_without_exit = 0;
  std::uint64_t closed_by_loss = 0;    // open spans that a hole could have hidden the end of
  std::uint64_t user_without_end = 0;  // user intervals that only kvm_entry ended
  std::uint64_t clock_went_back = 0;   // events of a thread stamped before its last one
  std::uint64_t qemu_events = 0;
  std::uint64_t qemu_events_in_exits = 0;
  std::uint64_t threads_left_out = 0;  // kvm events of threads beyond the most that are followed
};

// What is known of a thread that runs a vCPU.
struct VcpuTotals {
  std::int32_t vcpu = kNoVcpu;
  std::uint16_t source = 0;
  std::uint64_t exits = 0;
  std::uint64_t guest_ns = 0;
  Parts parts{};
  std::uint64_t halt_ns = 0;  // of the parts, those of exits that are halts
};

// How often a QEMU event came, and how often inside an exit.
struct QemuEventCount {
  std::uint64_t count = 0;
  std::uint64_t in_exits = 0;
};

class ExitTracker {
 public:
  static constexpr std::size_t kMostThreads = 1u << 16;

  // `reader` is borrowed; `model` stays as it is.
  ExitTracker(const ExitModel& model, QemuEventReader& reader) : model_(model), reader_(&reader) {}

  // The span that the event completes, or nullptr; valid until the next call.
  [[nodiscard]] const ExitSpan* on(const Event& event);
  // After the last event, until it returns nullptr: spans that were complete but for a look ahead.
  // What is still open is then counted.
  [[nodiscard]] const ExitSpan* finish();

  [[nodiscard]] const ExitCounters& counters() const { return counters_; }
  struct Thread;
  // The threads that run vCPUs, in order of first sight.
  [[nodiscard]] const std::deque<ThreadTable<Thread>::Entry>& threads() const {
    return threads_.entries();
  }
  // Indexed by NameId.
  [[nodiscard]] const std::vector<QemuEventCount>& qemu_events() const { return event_counts_; }
  // The QEMU event of the last Marker given to on(), or nullptr when that was none.
  [[nodiscard]] const QemuEvent* last_qemu_event() const {
    return is_qemu_event_ ? &qemu_ : nullptr;
  }

  // A memory region access inside a span, with the device's own events around it.
  struct Access {
    QemuEvent region;
    NameId before = kNoName, after = kNoName;
  };
  struct Thread {
    enum class Phase : std::uint8_t { kUnknown, kGuest, kExit, kEnded };  // kEnded: fallback only
    VcpuTotals totals;
    Phase phase = Phase::kUnknown;
    bool in_user = false, off_cpu = false, asleep = false;
    bool sealed = false;  // fallback: a hole came, so no later event is the span's detail
    std::uint8_t accesses = 0;
    std::uint32_t cpu = 0;
    Timestamp mark;  // up to where the open interval is accounted
    Timestamp last;  // of the thread's last event
    ExitSpan span;
    KvmDetail waiting = kNoDetail;  // fallback: what the next exit is about
    NameId device_event = kNoName, accelerator_event = kNoName;
    NameId before_access = kNoName;
    std::array<Access, 8> access{};
  };

 private:
  struct Dispatch;
  void account(Thread& thread, Timestamp at);
  void seen(Thread& thread, const Event& event);
  void runs(Thread& thread, Timestamp at);
  void close_for_loss(Thread& thread);
  void begin(Thread& thread, const Event& event, const ExitReason& reason, std::uint64_t rip);
  const ExitSpan* emit(Thread& thread);
  static void name_device(Thread& thread);
  static void set_vcpu(Thread& thread, std::int32_t vcpu);
  Thread* vcpu_thread(const Event& event);

  void on_exit(const Event& event, const KvmExit& exit);
  const ExitSpan* on_entry(const Event& event, const KvmEntry& entry);
  const ExitSpan* on_userspace_exit(const Event& event, const KvmUserspaceExit& exit);
  void on_user_end(const Event& event, UserEnd by);
  const ExitSpan* on_detail(const Event& event, const KvmDetail& detail);
  const ExitSpan* on_fallback_detail(const Event& event, const KvmDetail& detail);
  void on_switch(const Event& event, const SchedSwitch& sched);
  void on_wakeup(const Event& event, ThreadId thread);
  void on_marker(const Event& event, const Marker& marker);
  void note_qemu_event(Thread& thread) const;
  void on_lost(const Event& event, const Lost& lost);

  ExitModel model_;
  QemuEventReader* reader_;
  ThreadTable<Thread> threads_;
  ExitCounters counters_;
  std::vector<QemuEventCount> event_counts_;
  std::vector<Timestamp> hole_end_;  // by CPU
  Timestamp latest_hole_end_;
  QemuEvent qemu_;
  bool is_qemu_event_ = false;
  ExitSpan done_;
  std::size_t finished_ = 0;  // threads that finish() has looked at
};

}  // namespace trapline
