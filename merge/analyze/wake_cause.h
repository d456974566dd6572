// Who or what a wake-up came from, as far as the events on the waker's CPU prove it.
//
// A wake-up in a thread's own context is that thread's; one in an interrupt's is a timer's, a
// device's or a disk's where an event that says so is open on the CPU, else unknown: the thread
// that the interrupt hit has nothing to do with it. It is a lock's where the thread that sleeps
// waits for a futex and the waker last woke those who wait for the same one (sys_enter_futex).
#pragma once

#include <cstdint>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/model/thread_table.h"

namespace trapline {

class Pipeline;

class WakeCause {
 public:
  void on(const Event& event, const HostEvent& host);
  void on_disk(std::uint32_t cpu);  // block_rq_complete
  void on_switch(const Event& event);
  void on_vmm_event(ThreadId thread, Timestamp at, NameId name);
  // The cause of that wake-up; the sleep began at `since`.
  [[nodiscard]] Culprit of(const Event& event, const SchedWakeup& wakeup, Timestamp since,
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
  void on_futex(const Event& event, const HostEvent& call);
  [[nodiscard]] bool lets_go_of_lock(ThreadId waiting, ThreadId waking, Timestamp since) const;

  std::vector<Cpu> cpus_;
  ThreadTable<Futex> futexes_;
  ThreadTable<LastVmmEvent> last_vmm_events_;
};

}  // namespace trapline
