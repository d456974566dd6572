#include "merge/analyze/page_faults.h"

#include <algorithm>
#include <variant>

#include "merge/analyze/pipeline.h"

namespace trapline {
namespace {

constexpr std::uint64_t kPage = 4096, kLargePage = 512 * kPage;
constexpr std::uint32_t kVmxEptViolation = 48, kSvmNpf = 0x400;

// The access that faulted, according to the hardware's error code.
struct ErrorCode {
  FaultAccess access = FaultAccess::kNotKnown;
  std::optional<bool> present;
  bool aged = false;
};

// Returns whether the fault is one of EPT, NPT or stage 2, so that its address is guest-physical.
// With shadow paging a fault is one of the guest's own page tables: false.
bool is_of_memory(const ExitSpan& exit) {
  if (exit.reason.isa == kIsaVmx) return (exit.reason.reason & 0xffff) == kVmxEptViolation;
  return exit.reason.isa != kIsaSvm || exit.reason.reason == kSvmNpf;
}

// Decodes the error code. Sources: Intel SDM, exit qualification for EPT violations; AMD APM,
// page-fault error code; Arm ARM, ISS of instruction and data aborts.
ErrorCode error_code_of(const ExitSpan& exit) {
  const std::uint64_t code = exit.detail.data;
  const auto access = [](bool writes, bool executes) {
    return executes ? FaultAccess::kExecute : writes ? FaultAccess::kWrite : FaultAccess::kRead;
  };
  if (exit.detail.kind != DetailKind::kPageFault || code == 0 || !is_of_memory(exit)) return {};
  if (exit.reason.isa == kIsaVmx)
    return {access((code & 2) != 0, (code & 4) != 0), (code & 0x38) != 0};
  if (is_x86(exit.reason)) return {access((code & 2) != 0, (code & 16) != 0), (code & 1) != 0};
  if (exit.reason.isa != kIsaArm64) return {};
  constexpr std::uint64_t kInstructionAbort = 0x20, kTranslation = 1, kAccessFlag = 2;
  const std::uint64_t status = code >> 2 & 0xf;
  return {access((code >> 6 & 1) != 0, (code >> 26) == kInstructionAbort), status != kTranslation,
          status == kAccessFlag};
}

}  // namespace

bool is_page_fault(const ExitSpan& exit) {
  if (exit.detail.kind != DetailKind::kNone) return exit.detail.kind == DetailKind::kPageFault;
  const std::uint32_t reason = exit.reason.reason;
  switch (exit.reason.isa) {
    case kIsaVmx:
      return (reason & 0xffff) == kVmxEptViolation;
    case kIsaSvm:
      return reason == kSvmNpf;
    case kIsaRiscv:
      return reason == kRiscvFetchFault || reason == kRiscvLoadFault || reason == kRiscvStoreFault;
  }
  return false;  // an abort of arm64 may also be caused by a device
}

ThreadId PageFaults::vm_of(ThreadId thread, const Pipeline& pipeline) const {
  const ThreadId process = pipeline.processes().of(thread, ThreadId{});
  const Thread* known = process == ThreadId{} ? threads_.find(thread) : nullptr;
  return known != nullptr && known->vcpu ? thread : process;
}

PageFault::Why PageFaults::removed_by(ThreadId thread, const Thread* known) {
  PageFault::Why removed{.cause = FaultCause::kRemoved, .by = thread};
  if (known == nullptr) return removed;
  removed.how = known->in_reclaim                    ? FaultHow::kReclaim
                : known->in_compaction               ? FaultHow::kCompaction
                : known->advice                      ? FaultHow::kMadvise
                : known->sets_slots                  ? FaultHow::kSlots
                : known->vcpu && known->deeds.unmaps ? FaultHow::kCopy
                                                     : FaultHow::kNotKnown;
  removed.number = removed.how == FaultHow::kMadvise ? *known->advice : 0;
  return removed;
}

// Returns the removal of the page. A removal by a thread without a VM counts only while a single VM
// is known.
const PageFault::Why* PageFaults::removed(ThreadId vm, std::uint64_t address) const {
  for (const ThreadId of : {vm, ThreadId{}}) {
    if (of == ThreadId{} && vms_.size() > 1) break;
    for (const std::uint64_t size : {kPage, kLargePage}) {
      // The lowest bit of the address distinguishes the two sizes.
      const auto found = removed_.find({of, (address & ~(size - 1)) | (size == kPage ? 0 : 1)});
      if (found != removed_.end()) return &found->second;
    }
  }
  return nullptr;
}

void PageFaults::on_mapping(const Event& event, const HostEvent& host, const Pipeline& pipeline) {
  knows_mappings_ = true;
  Thread* thread = threads_.find(event.thread);
  const bool was = (host.call & kWasThere) != 0, is = (host.call & kIsThere) != 0;
  const bool large = host.number > 1;
  const Page page{vm_of(event.thread, pipeline), host.address | (large ? 1 : 0)};
  if (was && !is) {
    removed_is_full_ |= removed_.size() >= kMostRemoved;
    if (removed_.size() < kMostRemoved || removed_.contains(page))
      removed_.insert_or_assign(page, removed_by(event.thread, thread));
    if (thread != nullptr) thread->took = host.address;
  }
  Deeds* deeds = thread != nullptr && thread->vcpu ? &thread->deeds : nullptr;
  const std::uint64_t size = kPage << 9 * std::clamp(host.number - 1, 0, 3);
  // Only the exit's own page counts: a page that a worker brought in is mapped in a later exit.
  const bool is_its = deeds != nullptr && deeds->page - host.address < size;
  for (const ThreadId vm : {page.vm, ThreadId{}}) {
    const auto removed = is && !was ? removed_.find({vm, page.address}) : removed_.end();
    if (removed == removed_.end()) continue;
    if (is_its && (vm != ThreadId{} || vms_.size() <= 1)) deeds->removed = removed->second;
    removed_.erase(removed);
  }
  if (!is_its) return;
  deeds->changes = true;
  if (!is) return;
  deeds->maps |= !was;
  deeds->makes_writable |= was && (host.call & kWasWritable) == 0 && (host.call & kIsWritable) != 0;
  deeds->page_bytes = size;
}

// Adds the worker's deeds to the faults that wait for the page, unless some of the deeds are older
// than the fault's request to the worker.
void PageFaults::on_brought(Thread& worker, std::uint64_t page) {
  const Deeds done = std::exchange(worker.deeds, {});
  for (const Handed& handed : handed_) {
    Thread* thread = handed.page == page ? threads_.find(handed.thread) : nullptr;
    if (thread == nullptr || done.begin < handed.since) continue;
    Deeds& deeds = thread->deeds;
    deeds.allocates |= done.allocates;
    deeds.zeroes |= done.zeroes;
    deeds.file |= done.file;
    deeds.reads |= done.reads;
    deeds.swap |= done.swap;
    deeds.slept |= done.slept;
  }
  std::erase_if(handed_, [page](const Handed& handed) { return handed.page == page; });
}

// A collapse unmaps 2 MiB before its first event. `last`: a page in them.
void PageFaults::on_collapse(ThreadId by, std::uint64_t last, const Pipeline& pipeline) {
  if (last == kNoPage) return;
  const ThreadId vm = vm_of(by, pipeline);
  const std::uint64_t begin = last & ~(kLargePage - 1);
  for (std::uint64_t at = begin; at < begin + kLargePage; at += kPage) {
    const auto removed = removed_.find({vm, at});
    if (removed != removed_.end() && removed->second.by == by &&
        removed->second.how == FaultHow::kNotKnown)
      removed->second.how = FaultHow::kCollapse;
  }
}

void PageFaults::on_host(const Event& event, const HostEvent& host, const Pipeline& pipeline) {
  using enum HostStep;
  if (host.step == kMapping) return on_mapping(event, host, pipeline);
  const bool concerns =
      MemoryWorks::looks_at(host.step) || host.step == kLoggedWrite || host.step >= kUnmap;
  Thread* found = concerns ? threads_.get(event.thread, kMostThreads) : nullptr;
  if (found == nullptr) return;
  Thread& thread = *found;
  Deeds& deeds = thread.deeds;
  if (MemoryWorks::looks_at(host.step)) {
    thread.in_reclaim =
        host.step == kReclaimBegin || (thread.in_reclaim && host.step != kReclaimEnd);
    thread.in_compaction =
        host.step == kCompactionBegin || (thread.in_compaction && host.step != kCompactionEnd);
    if (thread.vcpu) thread.memory.on(host.step, event.at);
    return;
  }
  if (deeds.begin == Timestamp()) deeds.begin = event.at;
  if (host.step == kPageAlloc) {
    knows_pages_ = true;
    if ((host.address & kGfpMovable) == 0) return;  // a page for the kernel itself
    if ((host.address & kGfpThisNode) != 0 && host.number == 0)
      return;  // a page that moves to this NUMA node
    deeds.allocates = true;
    deeds.zeroes |= (host.address & kGfpZero) != 0;
    deeds.allocated_bytes = kPage << std::clamp(host.number, 0, 18);
  } else if (host.step == kFilePage) {
    knows_files_ = deeds.file = true;
  } else if (host.step == kUnmap) {
    knows_unmaps_ = true;
    const auto vcpu = thread.vcpu ? pipeline.vcpu(event.thread) : std::nullopt;
    deeds.unmaps |= vcpu && vcpu->in_fault && !thread.in_reclaim && !thread.in_compaction;
    thread.sets_slots = false;  // a change of slots unmaps nothing of the process
  } else if (host.step == kAsyncFault) {
    if (handed_.size() < kMostHanded)
      handed_.push_back({host.address & ~(kPage - 1), event.thread, event.at});
  } else if (host.step == kAsyncDone) {
    on_brought(thread, host.address & ~(kPage - 1));
  } else if (host.step == kCollapse) {
    on_collapse(event.thread, std::exchange(thread.took, kNoPage), pipeline);
  } else if (host.step == kMadvise) {
    thread.advice = host.number;
  } else if (host.step == kMadviseEnd) {
    thread.advice.reset();
  }
  deeds.logged |= host.step == kLoggedWrite;
  deeds.mapped_so |= host.step == kMappedSo;
  deeds.ring |= host.step == kDirtyPushed;
}

// Notes what the event shows about pages. After a loss, what was mapped and unmapped before is not
// known.
void PageFaults::on(const Event& event, const Pipeline& pipeline) {
  const Payload& payload = event.payload;
  for (const ThreadChange& change : pipeline.changes())
    if (Thread* thread =
            change.leaves() && is_asleep(change.now) ? threads_.find(change.thread) : nullptr) {
      const auto vcpu = thread->vcpu ? pipeline.vcpu(change.thread) : std::nullopt;
      const bool in_fault = !vcpu || vcpu->in_fault;
      thread->deeds.slept |= thread->deeds.allocates && !thread->deeds.maps && in_fault;
    }
  const auto* host = std::get_if<HostEvent>(&payload);
  if (follows_unmaps_) {
    // Leaves out what a vCPU unmaps: in its own fault it unmaps a page to replace it by a copy.
    const bool own = host != nullptr && host->step == HostStep::kUnmap;
    const Thread* unmapper = own ? threads_.find(event.thread) : nullptr;
    if (unmapper == nullptr || !unmapper->vcpu) unmaps_.on(event, pipeline.changes());
  }
  if (host != nullptr) return on_host(event, *host, pipeline);
  if (const auto* block = std::get_if<BlockIo>(&payload)) {
    Thread* thread = block->step == BlockStep::kQueued && block->read
                         ? threads_.get(event.thread, kMostThreads)
                         : nullptr;
    if (thread == nullptr) return;
    if (thread->deeds.begin == Timestamp()) thread->deeds.begin = event.at;
    (swaps_.contains(block->device) ? thread->deeds.swap : thread->deeds.reads) = true;
  } else if (const auto* detail = std::get_if<KvmDetail>(&payload)) {
    Thread* thread = detail->kind == DetailKind::kPageFault ? threads_.find(event.thread) : nullptr;
    if (thread != nullptr) thread->deeds.page = detail->value & ~(kPage - 1);
  } else if (is_any_of<KvmExit, KvmEntry, KvmUserspaceExit>(payload)) {
    Thread* thread = threads_.get(event.thread, kMostThreads);
    if (thread == nullptr) return;
    thread->vcpu = true;
    if (std::holds_alternative<KvmEntry>(payload)) thread->memory.on_entry(event.at);
    if (!std::holds_alternative<KvmExit>(payload)) return;
    thread->deeds = {};
    thread->deeds.begin = event.at;
  } else if (const auto* ioctl = std::get_if<IoctlEnter>(&payload)) {
    const auto& set = MemoryUnmaps::kSetMemory;
    const bool sets_slots = std::ranges::find(set, ioctl->command) != set.end();
    knows_ioctls_ |= ioctl->command != kKvmRun;
    const ThreadId process = vm_of(event.thread, pipeline);
    Thread* thread =
        sets_slots ? threads_.get(event.thread, kMostThreads) : threads_.find(event.thread);
    if (thread != nullptr) {
      thread->advice.reset();
      thread->sets_slots = sets_slots;
    }
    if (sets_slots) {
      Slots& slots = slots_[process];
      ++slots.changes;
      slots.by = event.thread;
    }
    if (ioctl->command == kGetDirtyLog || ioctl->command == kClearDirtyLog)
      with_bitmap_.insert(process);
  } else if (are_loss(pipeline.changes())) {
    ++losses_;
    handed_.clear();
    removed_.clear();
    threads_.lose([](Thread& thread) {
      thread.memory.forget_open();
      thread.in_reclaim = thread.in_compaction = thread.sets_slots = false;
      thread.deeds = {};
      thread.advice.reset();
      thread.took = thread.page = kNoPage;
    });
  }
}

// Divides the exit's waits by who caused them, also if KVM itself halted the vCPU for a page.
void PageFaults::divide_waits(const ExitSpan& exit, const Pipeline& pipeline) {
  const auto add = [this](const WaitShare& share) {
    const Culprit& by = share.culprit;
    if (by.kind == CulpritKind::kPage) {
      last_.server_ns += share.length();
      last_.why.by = by.thread;
    } else if (by.kind == CulpritKind::kDisk || by.root == CulpritKind::kDisk) {
      last_.disk_ns += share.length();
    }
  };
  for (const WaitShare& share : pipeline.waits()->shares())
    if (share.part == Part::kBlocked) add(share);
  if (exit.halt)
    for (const WaitShare& share : pipeline.waits()->halts()) add(share);
  for (const MemoryWorks::Run& run : memory_of(exit.thread)) {
    const Timestamp begin = std::max(run.begin, exit.start), end = std::min(run.end, exit.end);
    if (run.work != MemoryWork::kDirtyLog && end > begin) last_.reclaim_ns += elapsed(begin, end);
  }
}

// Returns what is known now of the 2 MiB that have the page; nullptr: there is no room.
PageFaults::Range* PageFaults::range_of(std::uint64_t page, ThreadId vm) {
  const Page key{vm, page & ~(kLargePage - 1)};
  auto range = ranges_.find(key);
  if (range == ranges_.end()) {
    if (ranges_.size() >= kMostRanges) return nullptr;
    range = ranges_.try_emplace(key).first;
  }
  Range& is = range->second;
  const auto changed = slots_.find(vm);
  const std::uint32_t changes = changed == slots_.end() ? 0 : changed->second.changes;
  if (is.losses != losses_) {
    is.mapped = is.faulted;
  } else if (is.slots != changes) {
    is.mapped.reset();
  }
  is.losses = losses_;
  is.slots = changes;
  return &is;
}

bool PageFaults::note_page(std::uint64_t page, ThreadId vm) {
  Range* is = range_of(page, vm);
  if (is == nullptr) return false;
  const std::size_t place = page / kPage % is->faulted.size();
  if (is->faulted[place] || !unsure_) last_.first = !is->faulted[place];
  const bool by_slots = is->faulted[place] && !is->mapped[place];
  is->faulted.set(place);
  is->mapped.set(place);
  return by_slots;
}

// Returns the cause if nothing in the fault shows how the page came to be there. `present`: whether
// the page was mapped, by the error code. `by_slots`: if it was not, a change of memory slots
// unmapped it.
PageFault::Why PageFaults::why_not_mapped(const ExitSpan& exit, const Thread& thread,
                                          std::uint64_t page, std::optional<bool> present,
                                          bool by_slots) const {
  using enum FaultCause;
  const Deeds& deeds = thread.deeds;
  const bool x86 = is_x86(exit.reason);
  if (by_slots && present == false && knows_mappings_ && !removed_is_full_)
    return {.cause = kRemoved, .how = FaultHow::kSlots, .by = slots_.find(last_vm_)->second.by};
  const bool waited = exit.parts[static_cast<std::size_t>(Part::kBlocked)] != 0 ||
                      exit.parts[static_cast<std::size_t>(Part::kHalted)] != 0;
  if (present == false && knows_pages_ && losses_ == 0 && last_.first == true && !waited &&
      !deeds.allocates && (x86 ? deeds.maps : knows_devices_))
    return {.cause = kWasThere};
  const bool repeats = page != kNoPage && page == thread.page && exit.rip == thread.rip;
  if (repeats && !deeds.allocates &&
      (x86 ? knows_mappings_ && !deeds.changes : knows_pages_ && knows_unmaps_ && knows_devices_))
    return {.cause = kAgain};
  const FaultLack lack = !knows_pages_             ? FaultLack::kAllocations
                         : x86 && !knows_mappings_ ? FaultLack::kMappings
                         : losses_ != 0            ? FaultLack::kLost
                                                   : FaultLack::kNone;
  return {.lack = lack};
}

PageFault::Why PageFaults::why(const ExitSpan& exit, Thread& thread, std::uint64_t page,
                               std::optional<bool> present, bool by_slots) {
  using enum FaultCause;
  const Deeds& deeds = thread.deeds;
  const bool writes = last_.access == FaultAccess::kWrite, x86 = is_x86(exit.reason);
  // KVM does not map a page if memory was unmapped while the fault brought the page, as a copy or
  // reclaim in the fault itself does. The next fault on the page maps it.
  const bool maps_it = page != kNoPage && page == thread.page && !deeds.allocates &&
                       (thread.brought == kCopy || deeds.maps);
  if (last_.access == FaultAccess::kExecute && present == true) return {.cause = kNoExecute};
  if (writes && deeds.unmaps && deeds.allocates && deeds.allocated_bytes == kPage)
    return {.cause = kCopy};
  if (maps_it && thread.brought != kNotKnown) return {.cause = thread.brought};
  if (deeds.file) return {.cause = kFile};
  if (deeds.swap) return {.cause = kSwap};
  if (deeds.reads) return {.cause = kDisk};
  const bool protects =
      deeds.logged || deeds.makes_writable ||
      (!x86 && present == true && writes && !deeds.unmaps && knows_unmaps_ && knows_pages_);
  if (protects && !deeds.allocates)
    return {.cause = kLogged,
            .how = deeds.ring                        ? FaultHow::kDirtyRing
                   : with_bitmap_.contains(last_vm_) ? FaultHow::kDirtyBitmap
                                                     : FaultHow::kNotKnown};
  if (deeds.mapped_so) return {.cause = kAgain};
  // A new page in the place of an unmapped one is no first touch.
  const PageFault::Why* by = deeds.removed ? &*deeds.removed : removed(last_vm_, page);
  if (by != nullptr && page != kNoPage && present == false) return *by;
  if (deeds.allocates && present == false) {
    // An allocation is no first touch if the page is neither zeroed nor large: it may become a copy
    // of a file's page, or be swapped in from memory (zswap). Nor is it one if the page may have
    // been unmapped without an event.
    const bool large = deeds.allocated_bytes >= kLargePage;
    const bool is_new = (x86 && losses_ == 0 && !unsure_) || last_.first == true;
    if (x86 && !knows_mappings_) return {.lack = FaultLack::kMappings};
    if (deeds.slept) return {.lack = knows_ioctls_ ? FaultLack::kSlept : FaultLack::kServer};
    if (is_new && (deeds.zeroes || (knows_files_ && large))) return {.cause = kFirstTouch};
    return {.lack = large && !knows_files_ ? FaultLack::kFilePages : FaultLack::kNone};
  }
  return why_not_mapped(exit, thread, page, present, by_slots);
}

void PageFaults::on_exit(const ExitSpan& exit, const Pipeline& pipeline) {
  last_ = {};
  Thread* thread = threads_.get(exit.thread, kMostThreads);
  if (thread == nullptr) return;
  thread->memory.forget_until(thread->memory_until);
  thread->memory_until = exit.end;
  // An exit may begin before its kvm_exit, if the thread was switched out in the guest.
  const bool knows_deeds = thread->deeds.begin >= exit.start && thread->deeds.begin < exit.end;
  last_.logged = knows_deeds && thread->deeds.logged;
  if (!is_page_fault(exit)) {
    knows_devices_ |= exit.detail.kind == DetailKind::kMmio;
    if (!is_interrupt(exit.reason)) thread->page = kNoPage;
    return;
  }
  divide_waits(exit, pipeline);
  const ErrorCode code = error_code_of(exit);
  last_.access = code.access;
  last_vm_ = vm_of(exit.thread, pipeline);
  vms_.insert(last_vm_);
  has_unknown_vm_ |= pipeline.processes().of(exit.thread, ThreadId{}) == ThreadId{};
  unsure_ = has_unknown_vm_ && vms_.size() > 1;
  std::uint64_t page = kNoPage;
  bool by_slots = false;
  if (exit.detail.kind == DetailKind::kPageFault && exit.nested == NestedLevel::kGuest &&
      is_of_memory(exit)) {
    last_.address = exit.detail.value;
    page = exit.detail.value & ~(kPage - 1);
    by_slots = note_page(page, last_vm_);
  }
  const Deeds& deeds = thread->deeds;
  if (knows_deeds)
    last_.page_bytes =
        deeds.page_bytes == 0 && !is_x86(exit.reason) ? deeds.allocated_bytes : deeds.page_bytes;
  const std::uint64_t mapped = knows_deeds && last_.first == true ? deeds.page_bytes : 0;
  const std::uint64_t begin = page & ~(mapped - 1);
  for (std::uint64_t at = begin; mapped >= kLargePage && at < begin + mapped; at += kLargePage) {
    Range* is = range_of(at, last_vm_);
    if (is == nullptr) break;
    is->faulted.set();
    is->mapped.set();
  }
  PageFault::Why& why = last_.why;
  if (why.by != ThreadId{}) {
    why.cause = FaultCause::kUserSpace;
  } else if (code.aged) {
    why.cause = FaultCause::kAged;
  } else if (!knows_deeds) {
    why.lack = FaultLack::kLost;
  } else {
    why = this->why(exit, *thread, page, code.present, by_slots);
    if (why.cause == FaultCause::kNotKnown && page == kNoPage)
      why.lack = exit.detail.kind == DetailKind::kNone ? FaultLack::kAddress : FaultLack::kNone;
  }
  using enum FaultCause;
  const bool read =
      why.cause == kFirstTouch || why.cause == kFile || why.cause == kSwap || why.cause == kDisk;
  const bool brought =
      knows_deeds && deeds.allocates &&
      (why.cause == kCopy || (read && is_x86(exit.reason) && knows_mappings_ && !deeds.maps));
  thread->brought = brought ? why.cause : kNotKnown;
  thread->rip = exit.rip;
  thread->page = page;
}

}  // namespace trapline
