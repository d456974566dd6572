// Finds the times in which a vCPU made no progress: one long exit, or several with next to no guest
// time between, and those in which no vCPU of a VM did.
//
//   guest │ exit ─────────────── │ │ exit ──────────── │ guest …
//         └ begin                 ^ between             └ end
//
// Two exits belong to one stall where the time between them is at most kMostBetween, and a
// hundredth of either side at most; or where the same page fault comes again at the same
// instruction within kMostBetween: then the guest has not got past it. Nor has it where an
// interrupt left it at that instruction in between. The exits of such faults but the first and the
// last, if the vCPU did not sleep in them, were in vain because memory was unmapped, where
// MemoryUnmaps has that. PageFaults finds the causes of faults.
//
// A vCPU that is halted is idle, and its time before the sleep belongs to no stall: a stall begins
// at its wake-up. Only where KVM halts it for a page that is not there (asynchronous page faults)
// it is stopped. Nothing of a vCPU that is offline, or not seen, is a stall, nor the last exit of a
// thread that ends, but for the time in which a signal had stopped it: it may be killed then.
//
//   VM    vCPU 0  ────guest────┤ stopped                   ├──guest──
//         vCPU 1  ──guest──┤ stopped ──────────────────────────┤
//                              └─── no vCPU in the guest ──┘
//
// A VM's is such a time in which at least two vCPUs were stopped for nine tenths of it. The causes
// of a stall sum to it; what nothing proves is unknown and says which event would tell.
//
// Memory: a chain, the shares and pieces of one exit, for each vCPU, of all together kMostOfAll
// pieces; for each VM kMostGaps.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/analyze/exit_tracker.h"
#include "merge/analyze/memory_waits.h"
#include "merge/analyze/page_faults.h"
#include "merge/analyze/wait_tracker.h"

namespace trapline {

// A time in which a vCPU, or all vCPUs of a VM, made no progress. StallTracker finds them.
enum class StallCause : std::uint8_t {
  kGuest,      // the guest ran, between two exits of the stall
  kKernel,     // the host's kernel worked for the vCPU, on its CPU
  kUser,       // QEMU did
  kPreempted,  // it was ready to run
  kBlocked,    // it slept
  kPage,       // it slept until a thread of user space served a page (userfaultfd)
  kSignal,     // a signal or a tracer had stopped its process
  kVmm,        // QEMU had stopped it
  kHalted,     // of a whole VM: the guest had halted it
};

struct StallShare {
  StallCause cause = StallCause::kKernel;
  Culprit culprit;  // of kPreempted, kBlocked, kPage; of kSignal and kVmm who let it go on
  std::uint64_t ns = 0;
  // That the culprit waited for itself, where it was one thread in all pieces (WaitShare::root).
  ThreadId root = {};
  MemoryWork work = MemoryWork::kNone;  // in which it was
};

struct Stall {
  ThreadId thread{};  // of a whole VM: that of the vCPU which was stopped longest
  Timestamp begin, end;
  bool open = false;             // the recording ends in it
  std::uint32_t vcpus = 0;       // of a whole VM: how many it has; 0: a vCPU's stall
  std::uint32_t not_halted = 0;  // of those, how many were stopped for nine tenths of it
  std::uint64_t exits = 0;
  // The longest exit; nothing where none ended as one: the vCPU was paused in it, or it is open.
  std::optional<ExitSpan> longest;
  PageFault::Why fault;  // the cause of that, where it is a page fault
  // The page fault that came again and again, at the same instruction; 0 times: none did.
  std::uint64_t fault_address = 0, faults = 0;
  std::vector<StallShare> shares;  // the largest first; they sum to the stall

  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
};

// One of a vCPU that was not handed out yet.
struct OpenStall {
  ThreadId thread{};
  std::int32_t vcpu = kNoVcpu;
  Timestamp begin, end;
  bool lasts = true;  // up to now, which is its end
  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
};

// Sums by cause, culprit and work; beyond kMost of them the time of further ones is unknown.
class StallShares {
 public:
  static constexpr std::size_t kMost = 64;
  void add(const StallShare& share);
  void add(const StallShares& others);
  // Of those that have none.
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
                               kMostOfAll = 1u << 20,  // pieces
      kMostVcpus = 4096,                               // of a VM, KVM's own limit
      kMostOfVm = 10'000;                              // stalls, the longest

  // Stalls that last at least so long; `of_all`: also those that are no exits, and whole VMs'.
  // `faults` are borrowed.
  StallTracker(std::uint64_t at_least_ns, bool of_all, const PageFaults& faults)
      : at_least_ns_(at_least_ns), of_all_(of_all), faults_(faults) {}

  // Every event of the host, after the pipeline took it and its waits; the states and the exit that
  // it ends follow.
  void on(const Event& event, const Pipeline& pipeline);
  void on(std::span<const StateRun> runs, const Pipeline& pipeline);
  // `wanted`: its stall may be handed out. It needs its intervals.
  void on(const ExitSpan& exit, bool wanted);
  // The vCPUs' stalls of at least that length that were not handed out at `now`, which is no
  // earlier than the last event: they last, or their vCPU has not left the guest, or a halt, since.
  [[nodiscard]] std::vector<OpenStall> open(const Pipeline& pipeline, Timestamp now,
                                            std::uint64_t at_least_ns) const;
  // After the states up to the end.
  void finish(Timestamp end, const Pipeline& pipeline);

  // The exits in which KVM logged dirty pages, in stalls and elsewhere: the guest ran between them.
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
  // One exit, or the part of it after a halt; or several that became one.
  struct Chain {
    bool any = false, wanted = true;
    bool open = false;  // the last one did not end as an exit
    Timestamp begin, end;
    std::uint64_t exits = 0;
    StallShares shares;
    // Of the last exit, not among those above: its begin and shares, whether it is a page fault,
    // and whether the vCPU slept nowhere in it, nor was in user space.
    Timestamp last_begin;
    StallShares last;
    bool last_fault = false, awake = true;
    std::optional<ExitSpan> longest;
    PageFault::Why why;          // of that, where it is a page fault
    std::uint64_t rip = 0;       // of the last exit, if for a fault or an interrupt; 0: not known
    std::optional<Fault> fault;  // at that instruction
    std::uint64_t same = 0;      // how often it came in a row
    Fault most;                  // that came most often
    std::uint64_t most_times = 0;
    [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
    // As new, but for the room of its sums: each exit has some.
    void clear() {
      StallShares kept = std::move(shares), kept_of_last = std::move(last);
      *this = {};
      kept.clear();
      kept_of_last.clear();
      shares = std::move(kept);
      last = std::move(kept_of_last);
    }
  };
  struct Piece {
    State state = State::kNotSeen;
    Timestamp begin, end;
  };
  struct Thread {
    ThreadId id{};
    std::vector<Piece> pieces;            // since the last settle()
    std::vector<WaitShare> shares;        // of the waits that ended after what it settled
    std::vector<Timestamp> stops;         // by a signal
    MemoryWork work = MemoryWork::kNone;  // in which the exit is that settle() looks at
    Timestamp until;                      // up to where all is known
    Chain chain;
    StallShares between;  // after the chain
    std::uint64_t between_exits = 0;
    bool halts = false;  // its last kvm_exit, which no kvm_entry followed, was by a halt
    bool in_guest = false;
    bool known = false;  // whether it is in the guest: it entered or left it, since the last loss
  };
  // A time in which no vCPU of the VM was in the guest.
  struct Gap {
    Timestamp begin, end;
    bool open = false;
    struct Vcpu {
      std::uint64_t stopped_ns = 0, halted_ns = 0;
      StallShares shares;
    };
    std::map<ThreadId, Vcpu> vcpus;
  };
  struct Vm {
    std::vector<ThreadId> vcpus;
    std::size_t in_guest = 0, unknown = 0;
    bool counts = true;  // the user asked for all of its vCPUs
    Timestamp left;      // the last one left the guest
    std::deque<Gap> gaps;
    std::vector<Stall> stalls;  // until the end: a vCPU not seen before may prove them wrong
  };

  void on_guest(const GuestRun& run);
  void on_wait(ThreadId thread, std::span<const WaitShare> shares);
  void on_lost();
  void on(const ThreadChange& change);
  Thread* thread_of(ThreadId id);
  void add_piece(Thread& thread, const Piece& piece);
  [[nodiscard]] static bool is_stopped_by_signal(const Thread& thread, const Piece& piece);
  void leave_out_end(Thread& thread);
  static void leave_out_halt(Thread& thread);
  void settle(Thread& thread, const ExitSpan* exit = nullptr, bool wanted = true);
  void forget_settled(Thread& thread, Timestamp until);
  std::vector<Piece> take_later(Thread& thread, Timestamp end);
  void divide(const Thread& thread, const Piece& piece, bool page, StallShares& into) const;
  void divide(const Thread& thread, const Piece& piece, bool page, MemoryWork work,
              StallShares& into) const;
  [[nodiscard]] static bool goes_on(const Chain& chain, Timestamp at, std::uint64_t length);
  [[nodiscard]] static bool is_at_the_fault(const Chain& chain, const Chain& unit);
  void join(Thread& thread, Chain& unit);
  void close(Thread& thread);
  void hand_out(ThreadId id, const Chain& chain);

  // A VM's times.
  void on_entry(ThreadId id, Timestamp at, const Pipeline& pipeline);
  void on_exit(ThreadId id, Timestamp at, const Pipeline& pipeline);
  Vm* vm_of(ThreadId id, const Pipeline& pipeline);
  void know(Vm& vm, Thread& thread, Timestamp at);
  void add_gap(Vm& vm, Timestamp end, bool open);
  void tell_gaps(const Thread& thread, const Piece& piece, bool page);
  void end_gaps(Vm& vm, bool all);
  static void end_gap(Vm& vm, const Gap& gap);

  std::uint64_t at_least_ns_;
  bool of_all_;
  const PageFaults& faults_;
  DirtyLog dirty_log_;
  LossTable<Thread> threads_;
  Chain unit_;                     // settle()'s, as new between its calls
  std::size_t pieces_ = 0;         // of all threads
  std::map<ThreadId, Vm> vms_;     // by process
  std::map<ThreadId, Vm*> vm_of_;  // of vCPUs whose process is known
  std::vector<Stall> ended_;
  Timestamp end_;
};

}  // namespace trapline
