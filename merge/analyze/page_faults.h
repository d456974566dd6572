// Finds why each page fault in a guest's memory happened, from the events inside it, and which
// thread had unmapped the page before.
//
//   kvm_exit ── kvm_page_fault ── mm_page_alloc, kvm_tdp_mmu_spte_changed, … ── kvm_entry: a cause
//
//   a page    not seen ── mapped by a fault ── mapped ── mapped no more, by a thread ── fault
//
// A worker that brings in the page (asynchronous page faults) counts as part of the fault: what it
// did since kvm_try_async_get_page, the fault did. A cause is given only if events prove it. A
// missing event proves something only if its kind is recorded: it occurred before, or the session
// says so. Otherwise the cause is not known, and the fault says which kind of event would show it.
//
// Memory: a little for each thread, for each 2 MiB with faults, and for each page that was
// unmapped; beyond the limits, causes are not known.
#pragma once

#include <bitset>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/analyze/memory_waits.h"
#include "merge/analyze/threads.h"
#include "merge/model/event.h"
#include "merge/model/exit_span.h"
#include "merge/model/thread_table.h"
#include "merge/model/timestamp.h"

namespace trapline {

class Pipeline;

enum class FaultCause : std::uint8_t {
  kNotKnown,
  kFirstTouch,  // the host allocated a new page
  kWasThere,    // the host had the page, and the guest faulted on it for the first time
  kCopy,        // a write to a page that others share
  kFile,        // a page is read into a file's cache
  kSwap,        // read from a swap device
  kDisk,        // read from a disk: a file or swap
  kUserSpace,   // `by` served the page (userfaultfd)
  kRemoved,     // `by` had removed the page from KVM's page tables
  kLogged,      // the page was write-protected, to log writes
  kAgain,       // the fault changed nothing in KVM's page tables
  kAged,        // arm64: the access flag was cleared
  kNoExecute,   // the page may not be executed
};
// How the mapping was removed; for kLogged, how writes are logged.
enum class FaultHow : std::uint8_t {
  kNotKnown,
  kMadvise,  // madvise(); number: the advice
  kCollapse,
  kReclaim,
  kCompaction,
  kCopy,
  kSlots,  // the VM's memory slots changed
  kDirtyRing,
  kDirtyBitmap,
};
// The kind of event that would show a cause that is not known.
enum class FaultLack : std::uint8_t {
  kNone,
  kAddress,
  kAllocations,
  kFilePages,
  kMappings,
  kLost,
  kServer,
  kSlept,  // the vCPU slept in the fault for something that no event shows
};
enum class FaultAccess : std::uint8_t { kNotKnown, kRead, kWrite, kExecute };

struct PageFault {
  // Faults with the same Why form one row of a report.
  struct Why {
    FaultCause cause = FaultCause::kNotKnown;
    FaultHow how = FaultHow::kNotKnown;
    std::int32_t number = 0;  // for kMadvise: the advice
    ThreadId by{};
    FaultLack lack = FaultLack::kNone;
    friend auto operator<=>(const Why&, const Why&) = default;
  };
  Why why;
  FaultAccess access = FaultAccess::kNotKnown;
  std::optional<std::uint64_t> address;
  // True for the first fault on a page of 4 KiB. A page that a first fault mapped as part of a
  // larger one has had its first fault. Nullopt: not known, because a vCPU's process is not known
  // and another vCPU that faulted may be of the same VM.
  std::optional<bool> first;
  std::uint64_t page_bytes = 0;  // size of the mapping that the fault made; 0: not known
  bool logged = false;           // the guest wrote to a page whose writes are logged
  // server_ns, disk_ns: waits in the fault for Why::by, and for a disk. reclaim_ns: reclaim and
  // compaction in the fault, whatever its cause.
  std::uint64_t server_ns = 0, disk_ns = 0, reclaim_ns = 0;
};

// The number of page faults, and their time.
struct FaultTotal {
  std::uint64_t count = 0, ns = 0;
  void add(const FaultTotal& other) {
    count += other.count;
    ns += other.ns;
  }
};

// Returns whether the exit is a page fault in the guest's memory as the host maps it: according to
// KVM's event or, if no event shows what the exit was about, to its reason.
[[nodiscard]] bool is_page_fault(const ExitSpan& exit);

class PageFaults {
 public:
  static constexpr std::size_t kMostThreads = 1u << 16, kMostRanges = 1u << 15,
                               kMostRemoved = 1u << 16, kMostHanded = 1024;

  // KVM_GET_DIRTY_LOG, KVM_CLEAR_DIRTY_LOG (linux/kvm.h).
  static constexpr std::uint32_t kGetDirtyLog = 0x4010ae42, kClearDirtyLog = 0xc018aec0;

  // `knows_files`: the session says that pages of files are recorded. `swaps`: swap devices.
  // `follows_unmaps`: the caller needs unmaps().
  PageFaults(bool knows_files, std::set<std::uint32_t> swaps, bool follows_unmaps)
      : swaps_(std::move(swaps)), follows_unmaps_(follows_unmaps), knows_files_(knows_files) {}

  // Takes an event of the host, after the other trackers. Needs only KvmExit, KvmEntry,
  // KvmUserspaceExit, KvmDetail, HostEvent, BlockIo, IoctlEnter, Lost; for unmaps() also those that
  // changed a thread.
  void on(const Event& event, const Pipeline& pipeline);
  // Takes an exit that the pipeline returns, after its waits: last() is its fault. Valid until the
  // next exit.
  void on_exit(const ExitSpan& exit, const Pipeline& pipeline);
  [[nodiscard]] const PageFault& last() const { return last_; }
  // Returns when the vCPU's thread did memory work, such as reclaim, from the end of its last exit
  // but one until now.
  [[nodiscard]] std::span<const MemoryWorks::Run> memory_of(ThreadId thread) const {
    const Thread* known = threads_.find(thread);
    return known == nullptr ? std::span<const MemoryWorks::Run>() : known->memory.ended();
  }
  [[nodiscard]] const MemoryUnmaps& unmaps() const { return unmaps_; }

 private:
  // The things that a thread did since its exit began, or a worker since it last brought in a page.
  struct Deeds {
    Timestamp begin;
    bool allocates = false, zeroes = false, file = false, reads = false, swap = false;
    bool unmaps = false, maps = false, makes_writable = false, changes = false;
    bool logged = false, ring = false, mapped_so = false;
    bool slept = false;  // slept after allocating: for a page server, or to be charged for the page
    std::uint64_t page_bytes = 0, allocated_bytes = 0;
    std::uint64_t page = kNoPage;  // the page of the fault; mappings and changes are of this page
    std::optional<PageFault::Why> removed;  // who removed the page that the thread maps again
  };
  struct Thread {
    bool vcpu = false;
    Deeds deeds;
    MemoryWorks memory;
    Timestamp memory_until;              // the end of the previous exit
    std::optional<std::int32_t> advice;  // the advice of the madvise() that the thread is in
    bool in_reclaim = false, in_compaction = false;
    std::uint64_t took = kNoPage;  // the page that it removed last
    bool sets_slots = false;       // in an ioctl that changes the VM's memory slots
    // The last fault's page and instruction, if nothing came in between.
    std::uint64_t page = kNoPage, rip = 0;
    // The cause of the last fault, if the page that it brought is not mapped yet.
    FaultCause brought = FaultCause::kNotKnown;
  };
  static constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
  // A page that a worker shall bring in for a vCPU's thread.
  struct Handed {
    std::uint64_t page = 0;
    ThreadId thread{};
    Timestamp since;
  };
  // The state of 2 MiB of a VM's memory.
  struct Range {
    std::bitset<512> faulted, mapped;  // faulted: ever; mapped: since the slots last changed
    std::uint32_t slots = 0;           // number of the slots' last change
    std::uint32_t losses = 0;
  };
  struct Slots {
    std::uint32_t changes = 0;
    ThreadId by{};
  };
  struct Page {
    ThreadId vm{};
    std::uint64_t address = 0;
    friend bool operator==(const Page&, const Page&) = default;
  };
  struct PageHash {
    std::size_t operator()(const Page& page) const {
      return (page.address >> 12 ^ static_cast<std::uint64_t>(page.vm) << 40) *
             std::uint64_t{0x9e3779b97f4a7c15};
    }
  };

  void on_host(const Event& event, const HostEvent& host, const Pipeline& pipeline);
  void on_mapping(const Event& event, const HostEvent& host, const Pipeline& pipeline);
  void on_brought(Thread& worker, std::uint64_t page);
  void on_collapse(ThreadId by, std::uint64_t last, const Pipeline& pipeline);
  [[nodiscard]] ThreadId vm_of(ThreadId thread, const Pipeline& pipeline) const;
  [[nodiscard]] static PageFault::Why removed_by(ThreadId thread, const Thread* known);
  [[nodiscard]] const PageFault::Why* removed(ThreadId vm, std::uint64_t address) const;
  void divide_waits(const ExitSpan& exit, const Pipeline& pipeline);
  [[nodiscard]] Range* range_of(std::uint64_t page, ThreadId vm);
  // Marks that the page was faulted on. Returns true if only a change of slots can have unmapped it
  // since.
  [[nodiscard]] bool note_page(std::uint64_t page, ThreadId vm);
  [[nodiscard]] PageFault::Why why(const ExitSpan& exit, Thread& thread, std::uint64_t page,
                                   std::optional<bool> present, bool by_slots);
  [[nodiscard]] PageFault::Why why_not_mapped(const ExitSpan& exit, const Thread& thread,
                                              std::uint64_t page, std::optional<bool> present,
                                              bool by_slots) const;

  LossTable<Thread> threads_;
  std::set<std::uint32_t> swaps_;
  std::unordered_map<Page, Range, PageHash> ranges_;
  std::unordered_map<Page, PageFault::Why, PageHash> removed_;
  std::unordered_map<ThreadId, Slots> slots_;  // by process
  std::vector<Handed> handed_;
  std::set<ThreadId> vms_, with_bitmap_;
  MemoryUnmaps unmaps_;
  bool follows_unmaps_;
  PageFault last_;
  ThreadId last_vm_{};
  // Kinds of events that are recorded, as far as they have occurred.
  bool knows_files_, knows_pages_ = false, knows_mappings_ = false, knows_unmaps_ = false,
                     knows_devices_ = false, knows_ioctls_ = false;
  bool removed_is_full_ = false;
  // has_unknown_vm_: a vCPU without a known process faulted. unsure_: another vCPU faulted as well,
  // so that it is not known which faults are of one VM.
  bool has_unknown_vm_ = false, unsure_ = false;
  std::uint32_t losses_ = 0;
};

}  // namespace trapline
