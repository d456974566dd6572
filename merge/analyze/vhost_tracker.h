// The kernel's threads that serve a device's queues in place of the VMM: "vhost-PID".
//
//   vCPU:    kvm_exit ── write, no exit to user space ── sched_waking
//                                                             │
//   vhost-PID:                            asleep ─────────────┴─> woken ──> runs ──> asleep
//                                                                            │ kvm_msi_set_irq,
//   vCPU:                                              kvm_inj_virq <────────┘ kvm_apic_accept_irq
//
// A turn lasts from a wake-up to the next sleep. It is a notify's where a vCPU woke the worker in
// an exit in which the guest wrote to a port or to memory, before any exit to user space. Turns
// whose begin was not recorded, and those that a loss may have changed, are left out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/irq_tracker.h"
#include "merge/model/event.h"
#include "merge/model/histogram.h"
#include "merge/model/processes.h"
#include "merge/model/span.h"

namespace trapline {

// Kernel threads that work for a VMM's process and carry its number in their names: "kvm-pit/110"
// raises the PIT's interrupts, "vhost-110" serves a device's queues.

// The thread that the name tells, of the process that made it; ThreadId{} for other names.
[[nodiscard]] inline ThreadId maker_of_kernel_thread(std::string_view comm) {
  for (const std::string_view prefix : {"kvm-pit/", "vhost-"}) {
    if (!comm.starts_with(prefix)) continue;
    comm.remove_prefix(prefix.size());
    std::int32_t number = 0;
    const bool whole = take_number(comm, number) && comm.empty() && number > 0;
    return whole ? ThreadId{number} : ThreadId{};
  }
  return {};
}

// The process whose work a thread does; kernel threads are learned as they are switched to.
class WorkedFor {
 public:
  // Whether it may know more than before.
  bool on(ThreadChanges changes) {
    if (changes.empty() || !changes.back().runs()) return false;
    const ThreadId maker = maker_of_kernel_thread(changes.back().name);
    const bool learns = maker != ThreadId{} && makers_.size() < kMost;
    if (learns) makers_[changes.back().thread] = maker;
    return learns;
  }
  [[nodiscard]] ThreadId process(ThreadId thread, const Processes& processes) const {
    if (makers_.empty()) return processes.of(thread, {});
    // A kernel thread is a process of its own, so its maker comes first.
    const auto made = makers_.find(thread);
    return processes.of(made == makers_.end() ? thread : made->second, {});
  }

 private:
  static constexpr std::size_t kMost = 4096;
  std::map<ThreadId, ThreadId> makers_;
};

// A worker's turn that ended. Views are valid until the tracker's next event.
struct VhostTurn {
  // Without a gap, from the wake-up to the turn's end.
  struct Piece {
    TurnPart part = TurnPart::kWaits;
    Timestamp begin, end;
  };
  ThreadId worker{}, process{};
  std::string_view name;
  Timestamp woken, ran_at, end;
  std::optional<Timestamp> notify;  // the exit with the guest's notify, where one woke it
  std::optional<Timestamp> raised;  // its first interrupt
  std::uint64_t ran_ns = 0, preempted_ns = 0;
  std::span<const Piece> pieces;  // none: there were more than are kept
};

class VhostTracker {
 public:
  static constexpr std::size_t kMostPieces = 256;  // of a turn
  struct Worker {
    std::string name;
    ThreadId process{};  // that it works for; ThreadId{}: not known
    std::uint64_t turns = 0, notified = 0, interrupts = 0, preempted_ns = 0;
    Histogram to_run, ran, notify_to_interrupt, to_injection;
  };

  // Before the first worker: what tells of it, and what vCPUs are in then.
  [[nodiscard]] bool looks_at(const Payload& payload) const {
    return is_any_of<Lost, KvmExit, KvmEntry, KvmUserspaceExit, KvmDetail>(payload) ||
           (!threads_.entries().empty() && is_any_of<KvmStateLoad, KvmIrq>(payload));
  }
  // Events of the host's kernel that it looks at, or that changed a thread; `process` is that of
  // the event's thread.
  void on(const Event& event, ThreadChanges changes, ThreadId process, const Processes& processes);

  // The turn that the last event ended, or nullptr.
  [[nodiscard]] const VhostTurn* ended() const { return ended_ ? &*ended_ : nullptr; }

  // By thread, in order of first sight.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& entry : threads_.entries()) visit(entry.thread, entry.state.worker);
  }

 private:
  static constexpr std::size_t kMostWorkers = 1u << 10, kMostThreads = 1u << 16;

  struct Turn {
    Timestamp woken, since;  // since: of its running or of its waiting for a CPU
    bool running = false;
    std::uint64_t ran = 0, preempted = 0;
    std::optional<Timestamp> ran_at, raised;  // for the first time
    ThreadId notifier{};                      // the vCPU's thread that woke it
    Timestamp notify;                         // its exit
    bool is_notify = false;
    std::vector<VhostTurn::Piece> pieces;
    bool all_pieces = true;
  };
  struct Thread {
    Worker worker;
    std::optional<Turn> turn;
  };
  // What a vCPU does.
  struct Exit {
    bool in_kernel = false, wrote = false;
    Timestamp begin;
  };

  void on_leave(const ThreadChange& change);
  void on_run(const ThreadChange& change, const Processes& processes);
  void on_wakeup(const ThreadChange& change);
  void on_write(ThreadId vcpu);
  void on_raise(const Event& event, Thread& worker, const KvmIrq& irq);
  static void add_piece(Turn& turn, TurnPart part, Timestamp end);
  void end(ThreadId thread, Thread& worker, Timestamp at);
  void on_hole();

  ThreadTable<Thread> threads_;
  ThreadTable<Exit> exits_;
  IrqDeliveries deliveries_;
  std::optional<VhostTurn> ended_;
  std::vector<VhostTurn::Piece> ended_pieces_;
};

}  // namespace trapline
