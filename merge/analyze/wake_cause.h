// Who or what a wake-up came from, as far as the events on the waker's CPU prove it.
//
// A wake-up in a thread's own context is that thread's; one in an interrupt's is a timer's, a
// device's or a disk's where an event that says so is open on the CPU, else unknown: the thread
// that the interrupt hit has nothing to do with it. It is a lock's where the thread that sleeps
// waits for a futex and the waker last woke those who wait for the same one (sys_enter_futex).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/model/thread_table.h"

namespace trapline {

class Pipeline;

// The name of an event, "sched:sched_waking".
using EventNamer = std::function<std::string(const Event&)>;

// The scheduler's and the interrupts' events that waits need beyond the payloads.
enum class WaitEvent : std::uint8_t {
  kNotAsked,  // the type's name was not looked at yet
  kOther,
  kWaking,
  kWakeup,
  kMigrate,
  kTimerBegin,
  kTimerEnd,
  kIrqBegin,
  kIrqEnd,
  kDisk,
  kIpi,
  kSoftirqBegin,
  kSoftirqEnd,
  kFutex,
};

// Finds the WaitEvent of an event's type: once by its name, then by its number.
class WaitEvents {
 public:
  explicit WaitEvents(EventNamer namer) : namer_(std::move(namer)) {}
  [[nodiscard]] WaitEvent of(const Event& event);

 private:
  EventNamer namer_;
  std::vector<std::vector<WaitEvent>> kinds_;  // by source and type
};

// Fields at the positions that every kernel has had them at: struct trace_entry, and the
// scheduler's events since 2.6.32. kNoCpu for a record that is too short.
inline constexpr std::int32_t kNoCpu = -1;
[[nodiscard]] std::int32_t woken_cpu(const Event& event);    // sched_waking, sched_wakeup
[[nodiscard]] ThreadId migrated(const Event& event);         // sched_migrate_task; -1: too short
[[nodiscard]] std::int32_t migrated_to(const Event& event);  // sched_migrate_task
// Whether the event came in its thread's own context: neither in an interrupt's nor on the idle
// thread, which takes over wake-ups of other CPUs.
[[nodiscard]] bool is_of_its_thread(const Event& event);
[[nodiscard]] std::uint32_t interrupt_number(const Event& event);  // irq_handler_*, softirq_*

class WakeCause {
 public:
  void on(const Event& event, WaitEvent kind);
  void on_switch(const Event& event);
  void on_vmm_event(ThreadId thread, Timestamp at, NameId name);
  // The cause of that wake-up; the sleep began at `since`. `kind` is kWaking or kWakeup.
  [[nodiscard]] Culprit of(const Event& event, WaitEvent kind, Timestamp since,
                           const Pipeline& pipeline) const;

 private:
  static constexpr std::size_t kMostThreads = 1u << 12;
  struct Cpu {
    bool in_timer = false, in_irq = false, disk = false;
    std::uint32_t irq = 0;
    Timestamp ipi_at;
    ThreadId ipi_from{-1};
  };
  struct LastVmmEvent {
    Timestamp at;
    NameId name = kNoName;
  };
  // A thread's last call of futex().
  struct Futex {
    enum class Call : std::uint8_t { kOther, kLock, kUnlock };
    Timestamp at;
    std::uint64_t address = 0;
    Call call = Call::kOther;
  };
  [[nodiscard]] Cpu* cpu_of(std::uint32_t cpu);
  void on_futex(const Event& event);
  [[nodiscard]] bool lets_go_of_lock(const Event& event, Timestamp since) const;

  std::vector<Cpu> cpus_;
  ThreadTable<Futex> futexes_;
  ThreadTable<LastVmmEvent> last_vmm_events_;
};

}  // namespace trapline
