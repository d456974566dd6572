// A time in which a vCPU, or all vCPUs of a VM, made no progress. StallTracker finds them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/analyze/memory_work.h"

namespace trapline {

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

}  // namespace trapline
