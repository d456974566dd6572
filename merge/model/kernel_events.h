// The one table of the kernel events that Trapline knows. A new event needs a row here and, if its
// fields are read, a decoder in merge/source/kernel_events/decoders.cc.
//
// The row of kvm:kvm_msr, for example, says that `record --kvm` enables the event, that only x86
// has it, and that without it exits of this kind have no detail. Its decoder turns the fields
// write, ecx and data into an MSR access, which the kernel prints as "msr_write 4b564d01 =
// 0xe8381".
//
// The decoders, the reader of printed traces, the recorder, the doctor, the trigger and the notes
// of reports read the table. No other code spells an event's name (tests/system/event_names.py).
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "merge/model/event.h"

namespace trapline {

// The functions that make a payload from an event's fields. A comment on a function gives the type
// of its DecodedBy::kind.
enum class Decoder : std::uint8_t {
  kNone,
  kExit,
  kEntry,
  kUserspaceExit,
  kFpuLoad,
  kTimerReload,
  kAccess,  // DetailKind
  kMmio,
  kFastMmio,
  kSysAccess,
  kDetail,  // DetailKind
  kTscOffset,
  kVcpuWakeup,
  kWfx,
  kHaltPoll,
  kIrqLine,  // IrqStep; also for the following ones up to kIrqPending
  kIrqMsi,
  kIrqRoute,
  kIrqApic,
  kIrqInject,
  kIrqPic,
  kIrqPicEnd,
  kIrqPending,
  kNested,  // NestedStep
  kSwitch,
  kWakeup,  // bool: sched_waking
  kMigration,
  kTimer,   // HostStep
  kWork,    // HostStep
  kHost,    // HostStep, as kHostAt
  kHostAt,  // HostStep
  kMapChange,
  kIpiTo,
  kFutexCall,
  kFastFault,
  kBlock,  // BlockStep
  kNewTask,
  kIoctl,
  kMarker
};

// Says how `trapline record` gets an event, and what its absence costs.
struct RecordedBy {
  // Options of `trapline record`, as bits.
  enum Option : std::uint16_t {
    kKvm = 1,
    kSched = 2,
    kIrq = 4,
    kDisk = 8,  // --block
    kStalls = 16,
    kSyscalls = 32,
    kAlways = 64,
    kPages = 128,    // --faults
    kHostCpu = 256,  // --host-cpu
  };
  // Architectures that have the event, as bits.
  enum Arch : std::uint8_t { kX86 = 1, kSvmOnly = 2, kArm = 4, kEveryArch = 7 };

  std::uint16_t options = 0;
  std::uint8_t arch = kEveryArch;
  std::string_view without{};  // what a recording without the event cannot show
};

// Says which payload an event becomes, and what it is read for.
struct DecodedBy {
  Decoder decoder = Decoder::kNone;
  std::uint8_t kind = 0;
  EventClass read_for = EventClass::kExits;

  constexpr DecodedBy() = default;
  template <typename Kind = std::uint8_t>
  constexpr DecodedBy(Decoder by, Kind of = {}, EventClass classes = EventClass::kExits)
      : decoder(by), kind(static_cast<std::uint8_t>(of)), read_for(classes) {}
};

struct KernelEvent {
  static constexpr std::size_t kMostFields = 11;

  // "kvm:kvm_exit", "kvm", "kvm_exit"; with *, all events that match.
  std::string_view full_name, system, name;
  RecordedBy recorded;
  DecodedBy decoded;
  // The fields that the decoder reads; unused ones are empty.
  std::array<std::string_view, kMostFields> fields{};
  // A pattern for PrintFormat (trace_text/text_fields.cc); empty: NAME=VALUE for each field.
  std::string_view printed;

  constexpr KernelEvent(std::string_view full, RecordedBy record, DecodedBy decode = {},
                        std::initializer_list<std::string_view> read = {},
                        std::string_view text = {})
      : full_name(full),
        system(full.substr(0, full.find(':'))),
        name(full.substr(full.find(':') + 1)),
        recorded(record),
        decoded(decode),
        printed(text) {
    std::size_t i = 0;
    for (const std::string_view field : read) fields[i++] = field;
  }
};

namespace events {

namespace table {

using enum BlockStep;
using enum Decoder;
using enum EventClass;
using enum HostStep;
using enum RecordedBy::Arch;
using enum RecordedBy::Option;
using Row = KernelEvent;

constexpr std::string_view
    kNoExits = "no VM exit is recorded: trapline report has nothing to divide",
    kNoUser = "the time in QEMU cannot be told from the kernel's",
    kNoDetail = "exits of this kind have no detail and no device (--by detail, --by device)",
    kNoIrq = "interrupts are not followed into the guest over this path",
    kNoHalt = "halts are not divided into polling and sleeping (--halt)",
    kNoTsc = "a guest's clock cannot be aligned by its TSC (trapline sync)",
    kNoClockLines = "the timeline does not show when a guest's clock was set anew",
    kNoReload = "without sys_enter_ioctl, the time in QEMU ends at kvm_entry",
    kNoNested = "exits of a guest's own guests are not marked",
    kNoWhy = "the timeline has no line that explains such an exit",
    kNoIoctl = "the time in QEMU ends at a later event, and holds some of the kernel's",
    kNoCause = "trapline stalls calls more causes unknown",
    kNoInterrupts = "the time of interrupts is not known (--host-cpu)",
    kNoWork = "what kernel workers did for a VM is not known (--host-cpu)",
    kNoFault = "the causes of more page faults are not known (--faults)";

constexpr RecordedBy kScheduler{kSched | kStalls | kPages | kHostCpu, kEveryArch, kNoCause},
    kForWakers{kStalls | kPages | kHostCpu, kEveryArch, kNoCause},
    kForMemory{kStalls | kPages, kEveryArch, kNoCause}, kForFaults{kPages, kEveryArch, kNoFault},
    kForFaultsX86{kPages, kX86, kNoFault}, kForVectors{kHostCpu, kX86, kNoInterrupts},
    kForWork{kHostCpu, kEveryArch, kNoWork};

// Decoded events come first. --kvm does not enable kvm_emulate_insn, kvm_fpu, or the events of the
// MMU notifier and of Hyper-V's timers: they are frequent and would say nothing new about exits.
inline constexpr KernelEvent kRows[] = {
    Row("kvm:kvm_exit", {kKvm, kEveryArch, kNoExits}, kExit,
        {"exit_reason", "guest_rip", "isa", "vcpu_id", "ret", "esr_ec", "vcpu_pc", "sepc", "scause",
         "stval", "htval"}),
    Row("kvm:kvm_entry", {kKvm, kEveryArch, kNoExits}, kEntry, {"vcpu_id"}, "[{=vcpu} {vcpu_id}]"),
    Row("kvm:kvm_userspace_exit", {kKvm, kEveryArch, kNoUser}, kUserspaceExit, {"reason", "errno"}),
    Row("kvm:kvm_fpu", {}, kFpuLoad, {"load"}, "{load=unload|load}"),
    Row("kvm:kvm_get_timer_map", {kKvm, kArm, kNoWhy}, kTimerReload, {"vcpu_id"},
        "VCPU: {vcpu_id}"),
    Row("kvm:kvm_timer_restore_state", {kKvm, kArm, kNoReload}, kTimerReload),
    Row("kvm:kvm_pio", {kKvm, kX86, kNoDetail}, {kAccess, DetailKind::kPort}, {"rw", "port", "val"},
        "{rw=pio_read|pio_write} at {port:x}[ val {val:x}]"),
    Row("kvm:kvm_mmio", {kKvm, kEveryArch, kNoDetail}, kMmio, {"type", "gpa", "val"},
        "{=mmio} {type=unsatisfied-read|read|write} gpa {gpa:x} val {val:x}"),
    Row("kvm:kvm_fast_mmio", {kKvm, kX86, kNoDetail}, kFastMmio, {"gpa"}, "gpa {gpa:x}"),
    Row("kvm:kvm_msr", {kKvm, kX86, kNoDetail}, {kAccess, DetailKind::kMsr},
        {"write", "ecx", "data"}, "{=msr_}{write=read|write} {ecx:x} = {data:x}"),
    Row("kvm:kvm_sys_access", {kKvm, kArm, kNoDetail}, kSysAccess,
        {"is_write", "Op0", "Op1", "CRn", "CRm", "Op2"},
        "({Op0},{Op1},{CRn},{CRm},{Op2}) {is_write=read|write}"),
    Row("kvm:kvm_cr", {kKvm, kX86, kNoDetail}, {kAccess, DetailKind::kControlRegister},
        {"rw", "cr", "val"}, "{=cr_}{rw=read|write} {cr:x} = {val:x}"),
    Row("kvm:kvm_cpuid", {kKvm, kX86, kNoDetail}, {kDetail, DetailKind::kCpuid},
        {"function", "index"}, "func {function:x}[ idx {index:x}]"),
    Row("kvm:kvm_hypercall", {kKvm, kX86, kNoDetail}, {kDetail, DetailKind::kHypercall}, {"nr"},
        "nr {nr:x}"),
    Row("kvm:kvm_xen_hypercall", {kKvm, kX86, kNoDetail}, {kDetail, DetailKind::kHypercall}, {"nr"},
        "nr {nr:x}"),
    Row("kvm:kvm_hv_hypercall", {kKvm, kX86, kNoDetail}, {kDetail, DetailKind::kHypercall},
        {"code"}, "code {code:x}"),
    Row("kvm:kvm_hvc_arm64", {kKvm, kArm, kNoDetail}, {kDetail, DetailKind::kHypercall}, {"r0"},
        "r0: {r0:x}"),
    Row("kvm:kvm_page_fault", {kKvm, kX86, kNoDetail}, {kDetail, DetailKind::kPageFault},
        {"fault_address", "error_code"}, "address {fault_address:x}[ error_code {error_code:x}]"),
    Row("kvm:kvm_guest_fault", {kKvm, kArm, kNoDetail}, {kDetail, DetailKind::kPageFault},
        {"ipa", "hsr"}, "ipa {ipa:x}[, hsr {hsr:x}]"),
    Row("kvm:kvm_write_tsc_offset", {kKvm, kX86, kNoTsc}, kTscOffset,
        {"vcpu_id", "previous_tsc_offset", "next_tsc_offset"},
        "vcpu={vcpu_id} prev={previous_tsc_offset} next={next_tsc_offset}"),
    Row("kvm:kvm_vcpu_wakeup", {kKvm, kEveryArch, kNoHalt}, kVcpuWakeup, {"ns", "waited", "valid"},
        "{waited=poll|wait} time {ns}[ ns]{valid=, polling invalid|, polling valid|}"),
    Row("kvm:kvm_wfx_arm64", {kKvm, kArm, kNoDetail}, kWfx, {"is_wfe"},
        "executed {is_wfe=wfi|wfe}"),
    Row("kvm:kvm_halt_poll_ns", {kKvm, kEveryArch, kNoHalt}, {kHaltPoll, 0, kHalts},
        {"new", "old", "vcpu_id"}, "vcpu {vcpu_id} halt_poll_ns {new} ({=grow|shrink} {old})"),
    Row("kvm:kvm_set_irq", {kKvm, kX86 | kArm, kNoIrq},
        {kIrqLine, IrqStep::kLine, kInterrupts | kHostRuns}, {"gsi", "level"},
        "gsi {gsi} level {level}"),
    Row("kvm:kvm_irq_line", {kKvm, kArm, kNoIrq},
        {kIrqLine, IrqStep::kLine, kInterrupts | kHostRuns}, {"irq_num", "level"},
        "num: {irq_num} level: {level}"),
    Row("kvm:kvm_msi_set_irq", {kKvm, kX86, kNoIrq}, {kIrqMsi, IrqStep::kMsi, kInterrupts | kHalts},
        {"address", "data"}, "dst {address:p} vec {data}"),
    Row("kvm:kvm_ioapic_set_irq", {kKvm, kX86, kNoIrq}, {kIrqRoute, IrqStep::kRoute, kInterrupts},
        {"e", "pin"}, "pin {pin} vec {e}"),
    Row("kvm:kvm_apic_accept_irq", {kKvm, kX86, kNoIrq}, {kIrqApic, IrqStep::kAccept, kInterrupts},
        {"apicid", "vec"}, "apicid {apicid:x} vec {vec}"),
    Row("kvm:kvm_inj_virq", {kKvm, kX86, kNoIrq}, {kIrqInject, IrqStep::kInject},
        {"vector", "reinjected", "irq"},
        "{=irq} {irq}||{=IRQ|Soft/INTn} {vector:x}{reinjected=|[reinjected]}"),
    // A posted interrupt: the hardware injects it, without kvm_inj_virq.
    Row("kvm:kvm_apicv_accept_irq", {kKvm, kX86, kNoIrq}, {kIrqApic, IrqStep::kInject, kInterrupts},
        {"apicid", "vec"}, "apicid {apicid:x} vec {vec}"),
    Row("kvm:kvm_nested_vmenter", {}, {kNested, NestedStep::kEnter}),
    // The name of kvm_nested_vmenter in Linux 5.10.
    Row("kvm:kvm_nested_vmrun", {}, {kNested, NestedStep::kEnter}),
    Row("kvm:kvm_nested_vmexit", {}, {kNested, NestedStep::kExit}),
    Row("kvm:kvm_nested_vmexit_inject", {}, {kNested, NestedStep::kPassOn}),
    Row("kvm:kvm_nested_intr_vmexit", {}, {kNested, NestedStep::kPassOn}),
    Row("kvm:kvm_pic_set_irq", {kKvm, kX86, kNoIrq}, {kIrqPic, IrqStep::kPic, kInterrupts},
        {"chip", "pin", "imr"}),
    Row("kvm:kvm_ack_irq", {kKvm, kX86, kNoIrq}, {kIrqPicEnd, IrqStep::kPicEnd, kInterrupts},
        {"irqchip", "pin"}, "irqchip {irqchip=PIC master|PIC slave|IOAPIC} pin {pin}"),
    Row("kvm:kvm_eoi", {kKvm, kX86, kNoIrq}, {kIrqApic, IrqStep::kEoi, kInterrupts},
        {"apicid", "vector"}, "apicid {apicid:x} vector {vector}"),
    Row("kvm:vgic_update_irq_pending", {kKvm, kArm, kNoIrq},
        {kIrqPending, IrqStep::kPending, kInterrupts}, {"vcpu_id", "irq", "level"},
        "VCPU: {vcpu_id} IRQ {irq} level: {level}"),
    Row("sched:sched_switch", kScheduler, kSwitch,
        {"prev_pid", "prev_state", "next_pid", "next_comm", "prev_prio"}),
    Row("sched:sched_wakeup", kScheduler, {kWakeup, false}, {"pid", "target_cpu", "common_flags"}),
    Row("sched:sched_waking", kScheduler, {kWakeup, true}, {"pid", "target_cpu", "common_flags"}),
    Row("sched:sched_migrate_task", kScheduler, kMigration, {"pid", "dest_cpu"}),
    // The following events show who woke a vCPU: timers, devices, the disk.
    Row("timer:hrtimer_expire_entry", kForWakers, {kTimer, kTimerBegin, kHalts}, {"common_flags"}),
    Row("timer:hrtimer_expire_exit", kForWakers, {kTimer, kTimerEnd, kHalts}, {"common_flags"}),
    Row("timer:timer_expire_entry", {}, {kTimer, kTimerBegin, kHalts}, {"common_flags"}),
    Row("timer:timer_expire_exit", {}, {kTimer, kTimerEnd, kHalts}, {"common_flags"}),
    Row("irq:irq_handler_entry", kForWakers, {kHost, kIrqBegin, kHalts | kHostRuns}, {"irq"}),
    Row("irq:irq_handler_exit", kForWakers, {kHost, kIrqEnd, kHalts | kHostRuns}, {"irq"}),
    Row("irq:softirq_entry", {kHostCpu}, {kHost, kSoftirqBegin, kHalts | kHostRuns}, {"vec"}),
    Row("irq:softirq_exit", {kHostCpu}, {kHost, kSoftirqEnd, kHalts | kHostRuns}, {"vec"}),
    // Interrupts that an x86 CPU gets from itself and other CPUs; on arm64, such interrupts have a
    // line.
    Row("irq_vectors:local_timer_entry", kForVectors, {kHost, kVectorBegin, kHostRuns}),
    Row("irq_vectors:local_timer_exit", kForVectors, {kHost, kVectorEnd, kHostRuns}),
    Row("irq_vectors:reschedule_entry", kForVectors, {kHost, kVectorBegin, kHostRuns}),
    Row("irq_vectors:reschedule_exit", kForVectors, {kHost, kVectorEnd, kHostRuns}),
    Row("irq_vectors:call_function_entry", kForVectors, {kHost, kVectorBegin, kHostRuns}),
    Row("irq_vectors:call_function_exit", kForVectors, {kHost, kVectorEnd, kHostRuns}),
    Row("irq_vectors:call_function_single_entry", kForVectors, {kHost, kVectorBegin, kHostRuns}),
    Row("irq_vectors:call_function_single_exit", kForVectors, {kHost, kVectorEnd, kHostRuns}),
    Row("irq_vectors:irq_work_entry", kForVectors, {kHost, kVectorBegin, kHostRuns}),
    Row("irq_vectors:irq_work_exit", kForVectors, {kHost, kVectorEnd, kHostRuns}),
    Row("workqueue:workqueue_queue_work", kForWork, {kWork, kWorkQueued, kHostRuns},
        {"work", "common_flags"}, "work struct={work:x}"),
    Row("workqueue:workqueue_execute_start", kForWork, {kWork, kWorkBegin, kHostRuns},
        {"work", "common_flags"}, "work struct {work:x}"),
    Row("workqueue:workqueue_execute_end", kForWork, {kWork, kWorkEnd, kHostRuns},
        {"work", "common_flags"}, "work struct {work:x}"),
    Row("syscalls:sys_enter_futex", {}, {kFutexCall, 0, kHalts}, {"uaddr", "op", "val"}),
    Row("syscalls:sys_exit_futex", {}, {kHost, kFutexEnd, kHalts}),
    Row("kvm:kvm_apic_ipi", {kKvm, kX86, kNoIrq}, {kIpiTo, 0, kHalts},
        {"dest_id", "icr_low", "dest_mode", "shorthand"},
        "dst {dest_id:x}|{dest_mode=physical|logical}|{=assert|de-assert}|{=edge|level}|"
        "{shorthand=dst|self|all|all-but-self}"),
    // The following events show how a page fault was served: memory was reclaimed, unmapped or
    // collapsed for it, or writes to the page were logged.
    Row("vmscan:mm_vmscan_direct_reclaim_begin", kForMemory, {kHost, kReclaimBegin, kHalts}),
    Row("vmscan:mm_vmscan_direct_reclaim_end", kForMemory, {kHost, kReclaimEnd, kHalts}),
    Row("vmscan:mm_vmscan_memcg_reclaim_begin", kForMemory, {kHost, kReclaimBegin, kHalts}),
    Row("vmscan:mm_vmscan_memcg_reclaim_end", kForMemory, {kHost, kReclaimEnd, kHalts}),
    Row("vmscan:mm_vmscan_memcg_softlimit_reclaim_begin", {}, {kHost, kReclaimBegin, kHalts}),
    Row("vmscan:mm_vmscan_memcg_softlimit_reclaim_end", {}, {kHost, kReclaimEnd, kHalts}),
    Row("vmscan:mm_vmscan_node_reclaim_begin", {}, {kHost, kReclaimBegin, kHalts}),
    Row("vmscan:mm_vmscan_node_reclaim_end", {}, {kHost, kReclaimEnd, kHalts}),
    Row("compaction:mm_compaction_begin", kForMemory, {kHost, kCompactionBegin, kHalts}),
    Row("compaction:mm_compaction_end", kForMemory, {kHost, kCompactionEnd, kHalts}),
    Row("kvmmmu:fast_page_fault", {kStalls | kPages, kX86, kNoCause}, {kFastFault, 0, kHalts},
        {"old_spte", "new_spte", "error_code"}),
    Row("kvm:kvm_dirty_ring_exit", kForMemory, {kHost, kDirtyRingFull, kHalts}),
    Row("kvm:kvm_unmap_hva_range", kForMemory, {kHost, kUnmap, kHalts}),
    Row("huge_memory:mm_collapse_huge_page_isolate", kForMemory, {kHost, kCollapse, kHalts}),
    Row("huge_memory:mm_collapse_huge_page", kForMemory, {kHost, kCollapseEnd, kHalts}),
    // The following events show why a page was not mapped, and what unmapped it.
    Row("kmem:mm_page_alloc", kForFaults, {kHostAt, kPageAlloc, EventClass::kFaults},
        {"gfp_flags", "order"}),
    Row("filemap:mm_filemap_add_to_page_cache", kForFaults,
        {kHost, kFilePage, EventClass::kFaults}),
    Row("kvmmmu:kvm_tdp_mmu_spte_changed", kForFaultsX86,
        {kMapChange, kMapping, EventClass::kFaults}, {"gfn", "level", "old_spte", "new_spte"},
        "gfn {gfn:x} level {level} old_spte {old_spte:x} new_spte {new_spte:x}"),
    Row("kvm:kvm_try_async_get_page", kForFaultsX86, {kHostAt, kAsyncFault, EventClass::kFaults},
        {"gva"}, "gva = {gva:x}"),
    Row("kvm:kvm_async_pf_completed", kForFaultsX86, {kHostAt, kAsyncDone, EventClass::kFaults},
        {"gva"}, "gva {gva:x}"),
    Row("kvm:kvm_dirty_ring_push", kForFaults, {kHost, kDirtyPushed, EventClass::kFaults}),
    Row("syscalls:sys_enter_madvise", kForFaults, {kHost, kMadvise, EventClass::kFaults},
        {"behavior"}),
    Row("syscalls:sys_exit_madvise", kForFaults, {kHost, kMadviseEnd, EventClass::kFaults}),
    // The following events show a read or write on its way from its bio to the disk and back.
    Row("block:block_bio_queue", {kDisk | kPages, kEveryArch, kNoFault},
        {kBlock, kQueued, kRequests | EventClass::kFaults}, {"dev", "sector", "nr_sector", "rwbs"}),
    Row("block:block_rq_issue", {kDisk}, {kBlock, kIssued, kRequests},
        {"dev", "sector", "nr_sector", "rwbs"}),
    Row("block:block_rq_complete", {kDisk | kStalls | kPages, kEveryArch, kNoCause},
        {kBlock, kCompleted, kHalts | kRequests},
        {"dev", "sector", "nr_sector", "rwbs", "common_flags"}),
    Row("sched:sched_process_exit", {kAlways}, {kHost, kThreadEnds}),
    Row("task:task_newtask", {kAlways}, kNewTask, {"pid", "clone_flags"}),
    Row("syscalls:sys_enter_ioctl", {kAlways, kEveryArch, kNoIoctl}, kIoctl, {"cmd"}),
    Row("ftrace:funcgraph_entry", {}, {kHostAt, kFunctionBegin, kOthers}, {"func", "depth"}),
    Row("ftrace:funcgraph_exit", {}, {kHostAt, kFunctionEnd, kOthers}, {"func", "depth"}),
    Row("ftrace:print", {}, kMarker, {"buf"}),
    // The following events are recorded but not decoded.
    Row("kvm:kvm_inj_exception", {kKvm, kX86, kNoWhy}),
    Row("kvm:kvm_pv_eoi", {kKvm, kX86, kNoIrq}),
    Row("kvm:kvm_async_pf_*", {kKvm, kX86, kNoWhy}),
    Row("kvm:kvm_track_tsc", {kKvm, kX86, kNoClockLines}),
    Row("kvm:kvm_update_master_clock", {kKvm, kX86, kNoClockLines}),
    Row("kvm:kvm_pvclock_update", {kKvm, kX86, kNoClockLines}),
    Row("kvm:kvm_nested_vm*", {kKvm, kX86, kNoNested}),
    Row("kvm:kvm_smm_transition", {kKvm, kX86, kNoWhy}),
    Row("kvm:kvm_ple_window_update", {kKvm, kX86, kNoWhy}),
    Row("kvm:kvm_avic_*", {kKvm, kSvmOnly, kNoIrq}),
    Row("kvm:kvm_vmgexit_*", {kKvm, kSvmOnly, kNoWhy}),
    Row("kvm:kvm_access_fault", {kKvm, kArm, kNoWhy}),
    Row("kvm:kvm_timer_update_irq", {kKvm, kArm, kNoIrq}),
    Row("sched:sched_wakeup_new", kScheduler),
    Row("task:task_rename", {kAlways}),
    Row("irq:*", {kIrq}),
    Row("irq_vectors:*", {kIrq}),
    Row("raw_syscalls:*", {kSyscalls}),
};

}  // namespace table

[[nodiscard]] constexpr std::span<const KernelEvent> all() { return table::kRows; }
// Returns the row of an event such as "kvm:kvm_exit"; null if there is none.
[[nodiscard]] constexpr const KernelEvent* find(std::string_view full_name) {
  for (const KernelEvent& event : table::kRows)
    if (event.full_name == full_name) return &event;
  return nullptr;
}
// Returns the step of an interrupt that the event reports; nullopt for other events.
[[nodiscard]] constexpr std::optional<IrqStep> irq_step(const KernelEvent& event) {
  const Decoder by = event.decoded.decoder;
  if (by < Decoder::kIrqLine || by > Decoder::kIrqPending) return std::nullopt;
  return static_cast<IrqStep>(event.decoded.kind);
}
// Returns the first event that reports a step; each step has one.
[[nodiscard]] constexpr const KernelEvent& of(IrqStep step) {
  const KernelEvent* event = table::kRows;
  while (irq_step(*event) != step) ++event;
  return *event;
}
static_assert([] {
  for (int step = 0; step <= static_cast<int>(IrqStep::kPicEnd); ++step)
    (void)of(static_cast<IrqStep>(step));
  return true;
}());

// The events that code or messages name. A name without a row does not compile.
consteval const KernelEvent& row(std::string_view full_name) { return *find(full_name); }
inline constexpr const KernelEvent &
    funcgraph_entry = row("ftrace:funcgraph_entry"),
   &funcgraph_exit = row("ftrace:funcgraph_exit"),
   &hrtimer_expire_entry = row("timer:hrtimer_expire_entry"),
   &hrtimer_expire_exit = row("timer:hrtimer_expire_exit"),
   &irq_handler_entry = row("irq:irq_handler_entry"),
   &irq_handler_exit = row("irq:irq_handler_exit"),
   &kvm_apicv_accept_irq = row("kvm:kvm_apicv_accept_irq"), &kvm_entry = row("kvm:kvm_entry"),
   &kvm_exit = row("kvm:kvm_exit"), &kvm_fpu = row("kvm:kvm_fpu"),
   &kvm_get_timer_map = row("kvm:kvm_get_timer_map"), &kvm_guest_fault = row("kvm:kvm_guest_fault"),
   &kvm_mmio = row("kvm:kvm_mmio"), &kvm_msr = row("kvm:kvm_msr"),
   &kvm_nested_vmexit = row("kvm:kvm_nested_vmexit"), &kvm_page_fault = row("kvm:kvm_page_fault"),
   &kvm_pio = row("kvm:kvm_pio"), &kvm_set_irq = row("kvm:kvm_set_irq"),
   &kvm_tdp_mmu_spte_changed = row("kvmmmu:kvm_tdp_mmu_spte_changed"),
   &kvm_userspace_exit = row("kvm:kvm_userspace_exit"),
   &kvm_vcpu_wakeup = row("kvm:kvm_vcpu_wakeup"),
   &kvm_write_tsc_offset = row("kvm:kvm_write_tsc_offset"),
   &mm_filemap_add_to_page_cache = row("filemap:mm_filemap_add_to_page_cache"),
   &mm_page_alloc = row("kmem:mm_page_alloc"), &print = row("ftrace:print"),
   &sched_migrate_task = row("sched:sched_migrate_task"), &sched_switch = row("sched:sched_switch"),
   &sched_wakeup = row("sched:sched_wakeup"), &sched_waking = row("sched:sched_waking"),
   &softirq_entry = row("irq:softirq_entry"), &softirq_exit = row("irq:softirq_exit"),
   &sys_enter_futex = row("syscalls:sys_enter_futex"),
   &sys_enter_ioctl = row("syscalls:sys_enter_ioctl"),
   &sys_exit_futex = row("syscalls:sys_exit_futex"), &task_newtask = row("task:task_newtask");

// The begin and end events of one kind of work in the kernel, such as irq_vectors:NAME_entry and
// _exit. The work is shown as `title`, followed by NAME if it has one.
struct Work {
  std::string_view prefix, begin, end, title;
  bool is_named = false;
};
inline constexpr Work kWorks[] = {
    {"irq_vectors:", "_entry", "_exit", "vector ", true},
    {"irq:tasklet", "_entry", "_exit", "tasklet"},
    {"ipi:ipi", "_entry", "_exit", "IPI"},
    {"timer:hrtimer_expire", "_entry", "_exit", "timer"},
    {"timer:timer_expire", "_entry", "_exit", "timer"},
    {"vmscan:mm_vmscan_direct_reclaim", "_begin", "_end", "direct reclaim"},
    {"vmscan:mm_vmscan_memcg_reclaim", "_begin", "_end", "reclaim of a cgroup"},
    {"compaction:mm_compaction", "_begin", "_end", "compaction"},
    {"vmscan:mm_vmscan_memcg_softlimit_reclaim", "_begin", "_end", "reclaim of a cgroup"},
};

}  // namespace events

}  // namespace trapline
