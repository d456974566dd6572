// Finds the times in which a vCPU made no progress: one long exit, or several with next to no guest
// time between, and those in which no vCPU of a VM did.
//
//   guest │ exit ─────────────── │ │ exit ──────────── │ guest …
//         └ begin                 ^ between             └ end
//
// Two exits belong to one stall if the time between them is at most kMostBetween and at most a
// hundredth of either side. They also do if the same page fault comes again at the same instruction
// within kMostBetween, because then the guest has not got past the instruction; an interrupt at
// that instruction in between does not change this. Such a fault, unless it is the first or the
// last, is charged to unmapping if MemoryUnmaps shows that memory was unmapped meanwhile and the
// vCPU did not sleep. PageFaults finds the causes of faults.
//
// A halted vCPU is idle, and its time before the sleep belongs to no stall: a stall begins at its
// wake-up. But if KVM halts a vCPU for a page that is not present (asynchronous page faults), the
// vCPU is stopped. Time in which a vCPU is offline or not seen is no stall. Nor is the last exit of
// a thread that ends, except for the time in which a signal had stopped the thread, since a stopped
// thread may be killed.
//
//   VM    vCPU 0  ────guest────┤ stopped                   ├──guest──
//         vCPU 1  ──guest──┤ stopped ──────────────────────────┤
//                              └─── no vCPU in the guest ──┘
//
// A stall of a VM is a time without a vCPU in the guest, in which at least two vCPUs were stopped
// for nine tenths of the time. The causes of a stall sum to its length; a cause that nothing proves
// is unknown and says which event would show it.
//
// Memory: for each vCPU a chain and the shares and pieces of one exit, kMostOfAll pieces in total;
// for each VM kMostGaps gaps.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/analyze/exit_tracker.h"
#include "merge/analyze/memory_waits.h"
#include "merge/analyze/page_faults.h"
#include "merge/analyze/wait_tracker.h"

namespace trapline {

enum class StallCause : std::uint8_t {
  kNotKnown,
  kGuest,      // the guest ran, between two exits of the stall
  kKernel,     // the host's kernel worked for the vCPU, on its CPU
  kUser,       // QEMU worked for the vCPU
  kPreempted,  // the vCPU was ready to run
  kBlocked,    // the vCPU slept
  kPage,       // the vCPU slept until a user space thread served a page (userfaultfd)
  kSignal,     // a signal or a tracer had stopped the vCPU's process
  kVmm,        // QEMU had stopped the vCPU
  kHalted,     // for a whole VM: the guest had halted the vCPU
};

struct StallShare {
  StallCause cause = StallCause::kNotKnown;
  // For kPreempted, kBlocked and kPage: what kept the vCPU waiting; for kSignal and kVmm: who let
  // it go on.
  Culprit culprit;
  std::uint64_t ns = 0;
  // The thread that the culprit itself waited for, if it was the same in all pieces.
  ThreadId root = {};
  MemoryWork work = MemoryWork::kNone;  // the memory work in which the time was spent
};

// The time of a stall.
struct StallTime {
  ThreadId thread{};  // for a whole VM: the vCPU that was stopped longest
  Timestamp begin, end;
  bool open = false;  // the stall lasts until now, or until the recording's end
  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
};

struct Stall : StallTime {
  std::uint32_t vcpus = 0;       // for a whole VM: how many vCPUs it had then; 0: a vCPU's stall
  std::uint32_t not_halted = 0;  // how many of the vCPUs were stopped for nine tenths of the stall
  std::uint64_t exits = 0;
  // The longest exit. Nullopt if none ended as an exit: the vCPU was paused in it, or it is open.
  std::optional<ExitSpan> longest;
  PageFault::Why fault;  // the cause of `longest`, if it is a page fault
  // The page fault that came repeatedly at the same instruction; `faults` is 0 if none did.
  std::uint64_t fault_address = 0, faults = 0;
  std::vector<StallShare> shares;  // the largest first; they sum to the stall
};

// A stall's time, summed by cause, culprit and work. Beyond kMost sums, culprits are unknown.
class StallShares {
 public:
  static constexpr std::size_t kMost = 64;
  void add(const StallShare& share);
  void add(const StallShares& others);
  // Sets the work of the sums that have none.
  void set_work(MemoryWork work);
  [[nodiscard]] std::uint64_t total() const;
  [[nodiscard]] std::vector<StallShare> largest_first() const;
  void clear() { sums_.clear(); }

 private:
  std::vector<StallShare> sums_;
};

class Pipeline;

class StallTracker {
 public:
  static constexpr std::uint64_t kMostBetween = 100'000, kShareBetween = 100;
  static constexpr std::size_t kMostThreads = 1u << 16, kMostPieces = 1u << 15, kMostGaps = 64,
                               kMostOfAll = 1u << 20,  // pieces of all vCPUs together
      kMostVcpus = 4096,                               // per VM, KVM's own limit
      kMostOfVm = 10'000;                              // per VM, the longest ones

  // Reports stalls that last at least `at_least_ns`. `of_all`: also stalls that are not exits, and
  // those of whole VMs. Borrows `faults`.
  StallTracker(std::uint64_t at_least_ns, bool of_all, const PageFaults& faults)
      : at_least_ns_(at_least_ns), of_all_(of_all), faults_(faults) {}

  // Takes an event of the host: after ExitTracker, WaitTracker and on() for the states that the
  // event ends; before on() for the exit that it ends. Needs only events that changed a thread, and
  // KvmExit, KvmEntry and KvmUserspaceExit.
  void on(const Event& event, const Pipeline& pipeline);
  // Notes the time of an event that on() need not take.
  void pass(Timestamp at) { end_ = std::max(end_, at); }
  void on(std::span<const StateRun> runs, const Pipeline& pipeline);
  // Takes a wait, divided by culprits.
  void on_wait(ThreadId thread, std::span<const WaitShare> shares);
  // Takes an exit that ended, which must have its intervals. `wanted`: a stall with this exit may
  // be reported.
  void on(const ExitSpan& exit, bool wanted);
  // Returns the vCPUs' stalls of at least that length that were not reported by `now`, which must
  // not be before the last event: they last, or the vCPU's next exit may still continue them.
  [[nodiscard]] std::vector<StallTime> open(const Pipeline& pipeline, Timestamp now,
                                            std::uint64_t at_least_ns) const;
  // Ends all stalls at `end`; call it after on() has taken the vCPUs' states and exits up to then.
  void finish(Timestamp end, const Pipeline& pipeline);

  // The exits in which KVM logged dirty pages, in stalls or not: the guest runs between such exits,
  // so they may slow the guest down without a stall.
  struct DirtyLog {
    std::uint64_t exits = 0, kernel_ns = 0;
  };
  [[nodiscard]] const DirtyLog& dirty_log() const { return dirty_log_; }

  [[nodiscard]] bool has_ended() const { return !ended_.empty(); }
  [[nodiscard]] std::vector<Stall> take_ended() { return std::exchange(ended_, {}); }

 private:
  struct Fault {
    std::uint64_t address = 0, rip = 0;
    friend bool operator==(const Fault&, const Fault&) = default;
  };
  struct Last {
    Timestamp begin;
    StallShares shares;
    bool is_fault = false;
    bool awake = true;      // the vCPU neither slept in the exit nor was in user space
    std::uint64_t rip = 0;  // of a fault or an interrupt; 0: not known
  };
  // One exit, or its part after a halt; or several exits that were joined.
  struct Chain {
    bool any = false, wanted = true;
    Stall stall;  // without its thread and shares; open: the last exit did not end as an exit
    StallShares shares;
    Last last;                   // the last exit, which `shares` does not include
    std::optional<Fault> fault;  // the fault at the instruction `last.rip`
    std::uint64_t same = 0;      // how often the fault came in a row
    Fault most;                  // the most frequent fault
    std::uint64_t most_times = 0;
    // Resets everything, but keeps the memory allocated for the sums, which each exit needs.
    void clear() {
      if (!any) return;
      StallShares kept = std::move(shares), kept_of_last = std::move(last.shares);
      *this = {};
      kept.clear();
      kept_of_last.clear();
      shares = std::move(kept);
      last.shares = std::move(kept_of_last);
    }
  };
  // A time in which no vCPU of the VM was in the guest.
  struct Gap {
    Timestamp begin, end;
    bool open = false;
    struct Vcpu {
      Timestamp left{};  // when it left the guest
      std::uint64_t stopped_ns = 0;
      StallShares shares;
    };
    std::map<ThreadId, Vcpu> vcpus;
  };
  struct Vm {
    std::vector<ThreadId> vcpus;
    bool counts = true;  // the user selected all of its vCPUs
    std::deque<Gap> gaps;
    // Kept until the end: a vCPU that is first seen later was in the guest, which disproves them.
    std::vector<Stall> stalls;
  };
  struct Thread {
    ThreadId id{};
    std::vector<StateRun> pieces;         // since the last settle()
    std::vector<WaitShare> shares;        // shares of waits that ended after the last settle()
    std::vector<Timestamp> stops;         // when signals stopped the thread
    MemoryWork work = MemoryWork::kNone;  // the memory work of the exit that settle() handles
    Timestamp until;                      // the thread's time is known up to here
    std::unique_ptr<Chain> chain = std::make_unique<Chain>();
    StallShares between;  // the time since the chain, for the case that the next exit joins it
    std::uint64_t between_exits = 0;
    Vm* vm = nullptr;    // set once the process is known
    bool halts = false;  // the last kvm_exit was a halt, and no kvm_entry followed
    // When the vCPU left the guest; nullopt: it is in the guest, or no event has shown since the
    // last loss whether it is.
    std::optional<Timestamp> left;
  };

  void on_guest(const GuestRun& run);
  void on(const ThreadChange& change);
  Thread* thread_of(ThreadId id);
  void add_piece(Thread& thread, const StateRun& piece);
  [[nodiscard]] static bool is_stopped_by_signal(const Thread& thread, const StateRun& piece);
  void leave_out_end(Thread& thread);
  static void leave_out_halt(Thread& thread);
  void settle(Thread& thread, const ExitSpan* exit = nullptr, bool wanted = true);
  void forget_settled(Thread& thread, Timestamp until);
  std::vector<StateRun> take_later(Thread& thread, Timestamp end);
  void divide(const Thread& thread, const StateRun& piece, bool page, StallShares& into) const;
  void divide(const Thread& thread, const StateRun& piece, bool page, MemoryWork work,
              StallShares& into) const;
  [[nodiscard]] static bool goes_on(const Chain& chain, Timestamp at, std::uint64_t length);
  [[nodiscard]] static bool is_at_the_fault(const Chain& chain, const Chain& unit);
  void join(Thread& thread);
  void close(Thread& thread);
  void hand_out(ThreadId id, const Chain& chain);

  // The following find a VM's stalls.
  void on_entry(ThreadId id, Timestamp at, const Pipeline& pipeline);
  void on_exit(ThreadId id, Timestamp at, const Pipeline& pipeline);
  Vm* vm_of(Thread& thread, const Pipeline& pipeline);
  void add_gap(Vm& vm, Timestamp end, bool open);
  void tell_gaps(const Thread& thread, const StateRun& piece, bool page);
  void end_gaps(Vm& vm, bool all);
  static void end_gap(Vm& vm, const Gap& gap);

  std::uint64_t at_least_ns_;
  bool of_all_;
  const PageFaults& faults_;
  DirtyLog dirty_log_;
  LossTable<Thread> threads_;
  std::unique_ptr<Chain> unit_ = std::make_unique<Chain>();  // the unit of settle(), else empty
  std::size_t pieces_ = 0;                                   // number of pieces, of all threads
  std::map<ThreadId, Vm> vms_;                               // by process
  std::vector<Stall> ended_;
  Timestamp end_;
};

}  // namespace trapline
