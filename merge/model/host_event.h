// Events of the host's own work: its scheduler, interrupts, timers, system calls and disks, as far
// as they show what a vCPU or a request waited for.
#pragma once

#include <cstdint>

namespace trapline {

// The kind of interrupt in which an event happened.
enum class InterruptLevel : std::uint8_t { kNone, kSoft, kHard };

enum class HostStep : std::uint8_t {
  kMigrate,     // a thread moves to the CPU `number`
  kThreadEnds,  // the thread's program is over; its last sched_switch follows
  kTimerBegin,
  kTimerEnd,
  kIrqBegin,  // number: the interrupt line
  kIrqEnd,
  kSoftirqBegin,  // number: the softirq vector
  kSoftirqEnd,
  kVectorBegin,  // an interrupt from the CPU's local timer or from another CPU
  kVectorEnd,
  kIpi,            // a vCPU sends an interrupt to the APIC id `number`, or to kAllOthers
  kFutex,          // address, call and number (val) are the arguments of futex()
  kFutexEnd,       // futex() returns
  kFunctionBegin,  // a kernel function is called: address, number (its depth)
  kFunctionEnd,
  kReclaimBegin,  // a thread that needs memory reclaims some
  kReclaimEnd,
  kCompactionBegin,
  kCompactionEnd,
  kLoggedWrite,    // a vCPU wrote to a page that KVM had write-protected to log writes
  kDirtyRingFull,  // a vCPU waits until user space has read its log of writes
  kUnmap,          // memory starts to be unmapped from processes, and so from KVM's page tables
  kCollapse,       // a thread is about to copy small pages into a huge page
  kCollapseEnd,
  kPageAlloc,    // a page is allocated: address (the gfp flags), number (its order)
  kFilePage,     // a page is added to a file's page cache
  kMapping,      // an entry of KVM's page tables: address, number (its level), call (Mapping)
  kMappedSo,     // a page fault finds that KVM's page tables already allow the access
  kAsyncFault,   // a worker starts to bring in the page of a vCPU's page fault: address
  kAsyncDone,    // a worker has brought in the page of a page fault: address
  kMadvise,      // madvise() is called: number (the advice)
  kMadviseEnd,   // madvise() returns
  kDirtyPushed,  // a vCPU's write goes to its ring of dirty pages
  kWorkQueued,   // a thread, or an interrupt (level), gives kernel workers a work item: address
  kWorkBegin,    // a kernel worker begins the work item
  kWorkEnd,
};
// The gfp flags of a kPageAlloc that show what a page is for: linux/gfp_types.h.
enum GfpFlag : std::uint64_t { kGfpMovable = 0x8, kGfpZero = 0x100, kGfpThisNode = 0x200000 };
// Bits: whether an entry of KVM's page tables is present and writable, before and after a change.
enum Mapping : std::uint8_t { kWasThere = 1, kWasWritable = 2, kIsThere = 4, kIsWritable = 8 };
struct HostEvent {
  static constexpr std::int32_t kAllOthers = -2, kNotKnown = -1;  // destinations of kIpi
  HostStep step;
  std::int32_t number, thread;
  std::uint64_t address, call;
  InterruptLevel level = InterruptLevel::kNone;  // for kTimerBegin, kTimerEnd, kWorkQueued
};

// A step of a read or write of a block device of the host. A bio is queued, perhaps for a device
// that passes it on to another; the device's driver gets the bio in a request, which may contain
// several.
enum class BlockStep : std::uint8_t {
  kQueued,     // block_bio_queue
  kIssued,     // block_rq_issue
  kCompleted,  // block_rq_complete
};
struct BlockIo {
  BlockStep step;
  bool read, write;      // neither: a flush or a discard
  std::uint32_t device;  // dev_t of the kernel: major << 20 | minor
  std::uint32_t sectors;
  std::uint64_t sector;
  InterruptLevel level = InterruptLevel::kNone;
};

}  // namespace trapline
