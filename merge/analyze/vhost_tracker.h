// Follows the kernel threads that serve a device's queues instead of the VMM: "vhost-PID".
//
//   vCPU:    kvm_exit ── write, no exit to user space ── sched_waking
//                                                             │
//   vhost-PID:                            asleep ─────────────┴─> woken ──> runs ──> asleep
//                                                                            │ kvm_msi_set_irq,
//   vCPU:                                              kvm_inj_virq <────────┘ kvm_apic_accept_irq
//
// A turn lasts from a wake-up to the next sleep. A notify caused it if a vCPU woke the worker in an
// exit in which the guest wrote to a port or to memory, before any exit to user space. Turns
// without a recorded beginning, and those that a loss may have changed, are left out.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "merge/analyze/irq_tracker.h"
#include "merge/model/event.h"
#include "merge/model/histogram.h"
#include "merge/model/kernel_threads.h"
#include "merge/model/processes.h"

namespace trapline {

// Finds the process that a thread works for. Kernel threads become known when they are switched to.
class WorkedFor {
 public:
  // Takes changes of threads. Returns whether process() may know more than before.
  bool on(ThreadChanges changes) {
    if (changes.empty() || !changes.back().runs()) return false;
    const ThreadId maker = process_in_name(changes.back().name);
    const bool learns = maker != ThreadId{} && makers_.size() < kMost;
    if (learns) makers_[changes.back().thread] = maker;
    return learns;
  }
  [[nodiscard]] ThreadId process(ThreadId thread, const Processes& processes) const {
    if (makers_.empty()) return processes.of(thread, {});
    // A kernel thread is a process of its own, so the process that made it comes first.
    const auto made = makers_.find(thread);
    return processes.of(made == makers_.end() ? thread : processes.now(made->second), {});
  }

 private:
  static constexpr std::size_t kMost = 4096;
  std::map<ThreadId, ThreadId> makers_;
};

// The parts of a worker's turn: it waits for a CPU, or runs.
enum class TurnPart : std::uint8_t { kWaits, kRuns };
inline constexpr std::array<std::string_view, 2> kTurnPartNames = {"waits for a CPU", "runs"};

// A vhost worker's turn that has ended. Views are valid until the tracker's next event.
struct VhostTurn {
  // A piece of a turn. The pieces follow one another from the wake-up to the turn's end.
  struct Piece {
    TurnPart part = TurnPart::kWaits;
    Timestamp begin, end;
  };
  ThreadId worker{}, process{};
  std::string_view name;
  Timestamp woken, ran_at, end;     // ran_at: 0 in a turn that has not ended, until the worker runs
  ThreadId notifier{};              // the vCPU's thread that woke the worker in an exit
  std::optional<Timestamp> notify;  // when the notify's exit began, if a notify woke the worker
  std::optional<Timestamp> raised;  // when the worker first raised an interrupt
  std::uint64_t ran_ns = 0, preempted_ns = 0;
  std::span<const Piece> pieces;  // empty: there were more than are kept
};

class VhostTracker {
 public:
  static constexpr std::size_t kMostPieces = 256;  // per turn
  struct Worker {
    std::string name;
    ThreadId process{};  // the process that the worker works for; ThreadId{}: not known
    std::uint64_t turns = 0, notified = 0, interrupts = 0, preempted_ns = 0;
    Histogram to_run, ran, notify_to_interrupt, to_injection;
  };

  static constexpr std::uint32_t kTakes =
      kPayloads<KvmExit, KvmEntry, KvmUserspaceExit, KvmDetail, KvmIrq>;
  // Takes events of the host's kernel with a payload in kTakes, or that changed a thread, before
  // `interrupts` does.
  void on(const Event& event, ThreadChanges changes, const Processes& processes,
          IrqTracker& interrupts);
  // Takes a delivered request. Returns whether it is an interrupt that a worker raised.
  bool on_delivered(const Delivered& delivered);

  // Returns the turn that the last event ended, or nullptr.
  [[nodiscard]] const VhostTurn* ended() const { return ended_ ? &*ended_ : nullptr; }

  // Calls visit(thread, worker) for each worker, in the order in which they were first seen.
  void for_each(auto visit) const {
    for (const auto& entry : threads_.entries()) visit(entry.thread, entry.state.worker);
  }

 private:
  static constexpr std::size_t kMostWorkers = 1u << 10, kMostThreads = 1u << 16;

  // A turn before its end, which sets `worker`, `process`, `name`, `end` and `pieces`.
  struct Turn : VhostTurn {
    bool running = false;
    Timestamp since;  // when the worker began to run, or to wait for a CPU
    Timestamp exit;   // when the exit of `notifier` began
    std::vector<Piece> kept;
    bool all_pieces = true;
  };
  struct Thread {
    Worker worker;
    std::optional<Turn> turn;
  };
  // The exit that a vCPU is in.
  struct Exit {
    bool in_kernel = false, wrote = false;
    Timestamp begin;
  };

  void on_leave(const ThreadChange& change);
  void on_run(const ThreadChange& change, const Processes& processes);
  void on_wakeup(const ThreadChange& change);
  void on_write(ThreadId vcpu);
  void on_raise(const Event& event, const KvmIrq& irq, IrqTracker& interrupts);
  static void add_piece(Turn& turn, TurnPart part, Timestamp end);
  void end(ThreadId thread, Thread& worker, Timestamp at);

  ThreadTable<Thread> threads_;
  ThreadTable<Exit> exits_;
  std::optional<VhostTurn> ended_;
  std::vector<VhostTurn::Piece> ended_pieces_;
};

// on() is inlined, because many events pass through it and few are of interest.
inline void VhostTracker::on(const Event& event, ThreadChanges changes, const Processes& processes,
                             IrqTracker& interrupts) {
  ended_.reset();
  if (are_loss(changes)) {
    for (auto& entry : threads_.entries()) entry.state.turn.reset();
    exits_.clear();
    return;
  }
  for (const ThreadChange& change : changes) {
    if (change.leaves()) on_leave(change);
    if (change.runs()) on_run(change, processes);
    if (change.wakes()) on_wakeup(change);
  }
  if (std::holds_alternative<KvmExit>(event.payload)) {
    if (Exit* exit = exits_.get(event.thread, kMostThreads)) *exit = {true, false, event.at};
  } else if (is_any_of<KvmEntry, KvmUserspaceExit>(event.payload)) {
    if (Exit* exit = exits_.find(event.thread)) exit->in_kernel = false;
  } else if (const auto* detail = std::get_if<KvmDetail>(&event.payload)) {
    if (detail->is_device_write()) on_write(event.thread);
  } else if (const auto* irq = std::get_if<KvmIrq>(&event.payload)) {
    on_raise(event, *irq, interrupts);
  }
}

}  // namespace trapline
