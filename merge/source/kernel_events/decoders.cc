#include "merge/source/kernel_events/decoders.h"

#include <cstring>

namespace trapline::kernel_events {
namespace {

using enum BlockStep;
using enum EventClass;
using enum HostStep;

std::uint32_t u32(const Schema& schema, const RecordedEvent& event, std::size_t field,
                  std::uint32_t fallback = 0) {
  return static_cast<std::uint32_t>(schema.get(event, field, fallback));
}
std::int32_t i32(const Schema& schema, const RecordedEvent& event, std::size_t field,
                 std::int32_t fallback = 0) {
  return static_cast<std::int32_t>(u32(schema, event, field, static_cast<std::uint32_t>(fallback)));
}
Access access(bool write) { return write ? Access::kWrite : Access::kRead; }

// A char array or the flexible array at an event's end, without what follows its zero byte.
std::string_view text_at(const RecordedEvent& event, std::size_t offset, std::size_t longest) {
  if (offset >= event.size) return {};
  const auto* text = reinterpret_cast<const char*>(event.data + offset);
  return {text, ::strnlen(text, std::min<std::size_t>(longest, event.size - offset))};
}

// scause, stval and the fields of the hypervisor extension, as the hardware has them.
void riscv_exit(const Schema& s, const RecordedEvent& e, Payload& out) {
  constexpr std::uint64_t kInterrupt = std::uint64_t{1} << 63, kWfi = 0x10500073;
  const std::uint64_t cause = s.get(e, 8), value = s.get(e, 9), address = s.get(e, 10);
  KvmExit exit{};
  exit.isa = kIsaRiscv;
  exit.vcpu = kNoVcpu;
  exit.rip = s.get(e, 7);
  exit.reason = (static_cast<std::uint32_t>(cause) & ~kRiscvInterrupt) |
                ((cause & kInterrupt) != 0 ? kRiscvInterrupt : 0);
  if (exit.reason == kRiscvVirtualInstruction && value == kWfi) exit.exception_class = kRiscvWfi;
  const bool fault = exit.reason == kRiscvFetchFault || exit.reason == kRiscvLoadFault ||
                     exit.reason == kRiscvStoreFault;
  // htval has no low two bits, and is 0 where the hardware does not tell.
  if (fault && address != 0) exit.fault_address = address << 2 | (value & 3);
  out = exit;
}
template <NestedStep kStep>
void kvm_nested(const Schema&, const RecordedEvent&, Payload& out) {
  out = KvmNested{kStep};
}
void kvm_exit(const Schema& s, const RecordedEvent& e, Payload& out) {
  KvmExit exit{};
  exit.rip = s.get(e, 1);
  exit.vcpu = i32(s, e, 3, kNoVcpu);
  if (s.has(8)) return riscv_exit(s, e, out);
  if (s.has(4)) {  // arm64
    exit.reason = u32(s, e, 4);
    exit.exception_class = u32(s, e, 5);
    exit.isa = kIsaArm64;
    exit.rip = s.get(e, 6);
  } else {
    exit.reason = u32(s, e, 0);
    exit.isa = u32(s, e, 2);
  }
  out = exit;
}
void kvm_entry(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmEntry{i32(s, e, 0, kNoVcpu)};
}
void kvm_userspace_exit(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmUserspaceExit{u32(s, e, 0), i32(s, e, 1)};
}
void kvm_fpu(const Schema& s, const RecordedEvent& e, Payload& out) {
  if (s.get(e, 0) != 0) out = KvmStateLoad{kNoVcpu};
}
void timer_reload(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmStateLoad{i32(s, e, 0, kNoVcpu)};
}
template <DetailKind kKind>
void kvm_access(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmDetail{s.get(e, 1), s.get(e, 2), kKind, access(s.get(e, 0) != 0), false};
}
void kvm_mmio(const Schema& s, const RecordedEvent& e, Payload& out) {
  constexpr std::uint64_t kUnsatisfiedRead = 0, kWrite = 2;
  const std::uint64_t type = s.get(e, 0);
  out = KvmDetail{s.get(e, 1), s.get(e, 2), DetailKind::kMmio, access(type == kWrite),
                  type == kUnsatisfiedRead};
}
void kvm_fast_mmio(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmDetail{s.get(e, 0), KvmDetail::kNoData, DetailKind::kMmio, Access::kWrite, false};
}
void kvm_sys_access(const Schema& s, const RecordedEvent& e, Payload& out) {
  const std::uint64_t packed = (s.get(e, 1) << 14) | (s.get(e, 2) << 11) | (s.get(e, 3) << 7) |
                               (s.get(e, 4) << 3) | s.get(e, 5);
  out = KvmDetail{packed, 0, DetailKind::kSysReg, access(s.get(e, 0) != 0), false};
}
void kvm_cpuid(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmDetail{s.get(e, 0), s.get(e, 1), DetailKind::kCpuid, Access::kNone, false};
}
void kvm_hypercall(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmDetail{s.get(e, 0), 0, DetailKind::kHypercall, Access::kNone, false};
}
void page_fault(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmDetail{s.get(e, 0), 0, DetailKind::kPageFault, Access::kNone, false};
}
void kvm_write_tsc_offset(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmTscOffset{i32(s, e, 0, kNoVcpu), s.get(e, 1), s.get(e, 2)};
}
void kvm_vcpu_wakeup(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmVcpuWakeup{s.get(e, 0), s.get(e, 1) != 0, s.get(e, 2) != 0};
}
void kvm_wfx_arm64(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmWfx{s.get(e, 0) != 0};
}
void kvm_halt_poll_ns(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmHaltPoll{u32(s, e, 0), u32(s, e, 1), i32(s, e, 2, kNoVcpu)};
}
void kvm_set_irq(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmIrq{IrqStep::kLine, s.get(e, 1) != 0, u32(s, e, 0), kNoVector, kNoVcpu};
}
void kvm_msi_set_irq(const Schema& s, const RecordedEvent& e, Payload& out) {
  const auto destination = static_cast<std::int32_t>((s.get(e, 0) >> 12) & 0xff);
  out = KvmIrq{IrqStep::kMsi, true, 0, u32(s, e, 1) & 0xff, destination};
}
void kvm_ioapic_set_irq(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmIrq{IrqStep::kRoute, true, u32(s, e, 1), u32(s, e, 0) & 0xff, kNoVcpu};
}
template <IrqStep kStep>
void apic_irq(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmIrq{kStep, true, 0, u32(s, e, 1), i32(s, e, 0, kNoVcpu)};
}
void kvm_inj_virq(const Schema& s, const RecordedEvent& e, Payload& out) {
  // An exit in the middle of an injection has it done again.
  const bool reinjected = s.has(1) && s.get(e, 1) != 0;
  const std::size_t vector = s.has(0) ? 0 : 2;  // 5.10 calls it irq
  out = KvmIrq{IrqStep::kInject, !reinjected, 0, u32(s, e, vector), kNoVcpu};
}
void kvm_pic_set_irq(const Schema& s, const RecordedEvent& e, Payload& out) {
  const std::uint32_t pin = u32(s, e, 1) & 7;
  const bool masked = (s.get(e, 2) >> pin & 1) != 0;
  out = KvmIrq{IrqStep::kPic, !masked, u32(s, e, 0) * 8 + pin, kNoVector, kNoVcpu};
}
void kvm_ack_irq(const Schema& s, const RecordedEvent& e, Payload& out) {
  const std::uint64_t chip = s.get(e, 0);
  if (chip > 1) return;  // the IOAPIC: kvm_eoi tells it, by vector
  out = KvmIrq{IrqStep::kPicEnd, true, static_cast<std::uint32_t>(chip) * 8 + (u32(s, e, 1) & 7),
               kNoVector, kNoVcpu};
}
void vgic_pending(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = KvmIrq{IrqStep::kPending, s.get(e, 2) != 0, u32(s, e, 1), kNoVector, i32(s, e, 0)};
}
void sched_switch(const Schema& s, const RecordedEvent& e, Payload& out) {
  // The states of a sleeping thread are in the low eight bits; above stands "preempted" (R+).
  constexpr std::uint64_t kSleeping = 0xff, kStopped = 0x4 | 0x8, kDead = 0x10 | 0x20;
  constexpr std::int32_t kFirstFairPriority = 100;  // MAX_RT_PRIO
  using Left = SchedSwitch::Left;
  const std::uint64_t state = s.get(e, 1);
  out = SchedSwitch{ThreadId{i32(s, e, 0)},
                    ThreadId{i32(s, e, 2)},
                    (state & kSleeping) == 0,
                    text_at(e, s.fields[3].offset, 16),
                    (state & kDead) != 0      ? Left::kDead
                    : (state & kStopped) != 0 ? Left::kStopped
                                              : Left::kOther,
                    i32(s, e, 4, kFirstFairPriority) >= kFirstFairPriority};
}
// From common_flags. A hard interrupt may have come in a soft one: both bits are set then.
InterruptLevel level_of(const Schema& s, const RecordedEvent& e, std::size_t flags) {
  constexpr std::uint32_t kHardIrq = 0x8, kSoftIrq = 0x10;  // TRACE_FLAG_HARDIRQ, _SOFTIRQ
  const std::uint32_t set = u32(s, e, flags);
  return (set & kHardIrq) != 0   ? InterruptLevel::kHard
         : (set & kSoftIrq) != 0 ? InterruptLevel::kSoft
                                 : InterruptLevel::kNone;
}
template <bool kWaking>
void sched_wakeup(const Schema& s, const RecordedEvent& e, Payload& out) {
  using Context = SchedWakeup::Context;
  const InterruptLevel level = level_of(s, e, 2);
  const Context context = !s.has(2)                        ? Context::kUnknown
                          : level == InterruptLevel::kNone ? Context::kThread
                                                           : Context::kInterrupt;
  out = SchedWakeup{ThreadId{i32(s, e, 0)}, i32(s, e, 1, -1), kWaking, context, level};
}
template <HostStep kStep>
void timer_event(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = HostEvent{kStep, 0, 0, 0, 0, level_of(s, e, 0)};
}
template <HostStep kStep>
void host_event(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = HostEvent{kStep, i32(s, e, 0), 0, 0, 0};
}
// Logged: but for bits that the CPU sets, the entry's only change is that it is writable now. KVM
// does that on its fast path where it had write-protected a present page for dirty logging alone;
// other reasons have one more bit cleared in it (Linux, arch/x86/kvm/mmu/spte.h).
void fast_page_fault(const Schema& s, const RecordedEvent& e, Payload& out) {
  constexpr std::uint64_t kReadOrExecute = 5, kWrite = 2, kAccessedAndDirty = 0x360;
  const std::uint64_t old = s.get(e, 0), now = s.get(e, 1);
  if ((old & kReadOrExecute) == 0 || ((old ^ now) & ~kAccessedAndDirty) != kWrite ||
      (now & kWrite) == 0)
    return;
  out = HostEvent{kLoggedWrite, 0, 0, 0, 0};
}
void sched_migrate_task(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = HostEvent{kMigrate, i32(s, e, 1, -1), i32(s, e, 0, -1), 0, 0};
}
template <HostStep kStep>
void funcgraph(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = HostEvent{kStep, i32(s, e, 1), 0, s.get(e, 0), 0};
}
void sys_enter_futex(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = HostEvent{kFutex, i32(s, e, 2), 0, s.get(e, 0), s.get(e, 1)};
}
// rwbs: "R", "WS", "FF", "RA" …: the kind after an F for a flush before it.
template <BlockStep kStep>
void block_io(const Schema& s, const RecordedEvent& e, Payload& out) {
  const std::string_view kind = text_at(e, s.fields[3].offset, 10);
  out = BlockIo{kStep,
                kind.find('R') != std::string_view::npos,
                kind.find('W') != std::string_view::npos,
                u32(s, e, 0),
                u32(s, e, 2),
                s.get(e, 1),
                level_of(s, e, 4)};
}
void sys_enter_ioctl(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = IoctlEnter{u32(s, e, 0)};
}
void task_newtask(const Schema& s, const RecordedEvent& e, Payload& out) {
  constexpr std::uint64_t kCloneThread = 0x10000;  // CLONE_THREAD of linux/sched.h
  out = NewThread{ThreadId{i32(s, e, 0)}, (s.get(e, 1) & kCloneThread) != 0};
}
void marker(const Schema& s, const RecordedEvent& e, Payload& out) {
  out = Marker{text_at(e, s.fields[0].offset, e.size)};
}

constexpr KnownEvent kKnown[] = {
    {"kvm:kvm_exit",
     {"exit_reason", "guest_rip", "isa", "vcpu_id", "ret", "esr_ec", "vcpu_pc", "sepc", "scause",
      "stval", "htval"},
     kvm_exit},
    {"kvm:kvm_entry", {"vcpu_id"}, kvm_entry},
    {"kvm:kvm_userspace_exit", {"reason", "errno"}, kvm_userspace_exit},
    {"kvm:kvm_fpu", {"load"}, kvm_fpu},
    {"kvm:kvm_get_timer_map", {"vcpu_id"}, timer_reload},
    {"kvm:kvm_timer_restore_state", {}, timer_reload},
    {"kvm:kvm_pio", {"rw", "port", "val"}, kvm_access<DetailKind::kPort>},
    {"kvm:kvm_mmio", {"type", "gpa", "val"}, kvm_mmio},
    {"kvm:kvm_fast_mmio", {"gpa"}, kvm_fast_mmio},
    {"kvm:kvm_msr", {"write", "ecx", "data"}, kvm_access<DetailKind::kMsr>},
    {"kvm:kvm_sys_access", {"is_write", "Op0", "Op1", "CRn", "CRm", "Op2"}, kvm_sys_access},
    {"kvm:kvm_cr", {"rw", "cr", "val"}, kvm_access<DetailKind::kControlRegister>},
    {"kvm:kvm_cpuid", {"function", "index"}, kvm_cpuid},
    {"kvm:kvm_hypercall", {"nr"}, kvm_hypercall},
    {"kvm:kvm_xen_hypercall", {"nr"}, kvm_hypercall},
    {"kvm:kvm_hv_hypercall", {"code"}, kvm_hypercall},
    {"kvm:kvm_hvc_arm64", {"r0"}, kvm_hypercall},
    {"kvm:kvm_page_fault", {"fault_address"}, page_fault},
    {"kvm:kvm_guest_fault", {"ipa"}, page_fault},
    {"kvm:kvm_write_tsc_offset",
     {"vcpu_id", "previous_tsc_offset", "next_tsc_offset"},
     kvm_write_tsc_offset},
    {"kvm:kvm_vcpu_wakeup", {"ns", "waited", "valid"}, kvm_vcpu_wakeup},
    {"kvm:kvm_wfx_arm64", {"is_wfe"}, kvm_wfx_arm64},
    {"kvm:kvm_halt_poll_ns", {"new", "old", "vcpu_id"}, kvm_halt_poll_ns, kHalts},
    {"kvm:kvm_set_irq", {"gsi", "level"}, kvm_set_irq, kInterrupts},
    {"kvm:kvm_irq_line", {"irq_num", "level"}, kvm_set_irq, kInterrupts},
    {"kvm:kvm_msi_set_irq", {"address", "data"}, kvm_msi_set_irq, kInterrupts},
    {"kvm:kvm_ioapic_set_irq", {"e", "pin"}, kvm_ioapic_set_irq, kInterrupts},
    {"kvm:kvm_apic_accept_irq", {"apicid", "vec"}, apic_irq<IrqStep::kAccept>, kInterrupts},
    // A posted interrupt: the hardware injects it, without kvm_inj_virq.
    {"kvm:kvm_apicv_accept_irq", {"apicid", "vec"}, apic_irq<IrqStep::kInject>, kInterrupts},
    {"kvm:kvm_inj_virq", {"vector", "reinjected", "irq"}, kvm_inj_virq},
    {"kvm:kvm_nested_vmenter", {}, kvm_nested<NestedStep::kEnter>},
    {"kvm:kvm_nested_vmrun", {}, kvm_nested<NestedStep::kEnter>},  // in 5.10
    {"kvm:kvm_nested_vmexit", {}, kvm_nested<NestedStep::kExit>},
    {"kvm:kvm_nested_vmexit_inject", {}, kvm_nested<NestedStep::kPassOn>},
    {"kvm:kvm_nested_intr_vmexit", {}, kvm_nested<NestedStep::kPassOn>},
    {"kvm:kvm_pic_set_irq", {"chip", "pin", "imr"}, kvm_pic_set_irq, kInterrupts},
    {"kvm:kvm_ack_irq", {"irqchip", "pin"}, kvm_ack_irq, kInterrupts},
    {"kvm:kvm_eoi", {"apicid", "vector"}, apic_irq<IrqStep::kEoi>, kInterrupts},
    {"kvm:vgic_update_irq_pending", {"vcpu_id", "irq", "level"}, vgic_pending, kInterrupts},
    {"sched:sched_switch",
     {"prev_pid", "prev_state", "next_pid", "next_comm", "prev_prio"},
     sched_switch},
    {"sched:sched_wakeup", {"pid", "target_cpu", "common_flags"}, sched_wakeup<false>},
    {"sched:sched_waking", {"pid", "target_cpu", "common_flags"}, sched_wakeup<true>},
    {"sched:sched_migrate_task", {"pid", "dest_cpu"}, sched_migrate_task, kHalts},
    {"timer:hrtimer_expire_entry", {"common_flags"}, timer_event<kTimerBegin>, kHalts},
    {"timer:hrtimer_expire_exit", {"common_flags"}, timer_event<kTimerEnd>, kHalts},
    {"timer:timer_expire_entry", {"common_flags"}, timer_event<kTimerBegin>, kHalts},
    {"timer:timer_expire_exit", {"common_flags"}, timer_event<kTimerEnd>, kHalts},
    {"irq:irq_handler_entry", {"irq"}, host_event<kIrqBegin>, kHalts},
    {"irq:irq_handler_exit", {"irq"}, host_event<kIrqEnd>, kHalts},
    {"irq:softirq_entry", {"vec"}, host_event<kSoftirqBegin>, kHalts},
    {"irq:softirq_exit", {"vec"}, host_event<kSoftirqEnd>, kHalts},
    {"syscalls:sys_enter_futex", {"uaddr", "op", "val"}, sys_enter_futex, kHalts},
    {"syscalls:sys_exit_futex", {}, host_event<kFutexEnd>, kHalts},
    {"kvm:kvm_apic_ipi", {}, host_event<kIpi>, kHalts},
    {"vmscan:mm_vmscan_direct_reclaim_begin", {}, host_event<kReclaimBegin>, kHalts},
    {"vmscan:mm_vmscan_direct_reclaim_end", {}, host_event<kReclaimEnd>, kHalts},
    {"vmscan:mm_vmscan_memcg_reclaim_begin", {}, host_event<kReclaimBegin>, kHalts},
    {"vmscan:mm_vmscan_memcg_reclaim_end", {}, host_event<kReclaimEnd>, kHalts},
    {"vmscan:mm_vmscan_memcg_softlimit_reclaim_begin", {}, host_event<kReclaimBegin>, kHalts},
    {"vmscan:mm_vmscan_memcg_softlimit_reclaim_end", {}, host_event<kReclaimEnd>, kHalts},
    {"vmscan:mm_vmscan_node_reclaim_begin", {}, host_event<kReclaimBegin>, kHalts},
    {"vmscan:mm_vmscan_node_reclaim_end", {}, host_event<kReclaimEnd>, kHalts},
    {"compaction:mm_compaction_begin", {}, host_event<kCompactionBegin>, kHalts},
    {"compaction:mm_compaction_end", {}, host_event<kCompactionEnd>, kHalts},
    {"kvmmmu:fast_page_fault", {"old_spte", "new_spte"}, fast_page_fault, kHalts},
    {"kvm:kvm_dirty_ring_exit", {}, host_event<kDirtyRingFull>, kHalts},
    {"kvm:kvm_unmap_hva_range", {}, host_event<kUnmap>, kHalts},
    {"huge_memory:mm_collapse_huge_page_isolate", {}, host_event<kCollapse>, kHalts},
    {"huge_memory:mm_collapse_huge_page", {}, host_event<kCollapseEnd>, kHalts},
    {"block:block_bio_queue", {"dev", "sector", "nr_sector", "rwbs"}, block_io<kQueued>, kRequests},
    {"block:block_rq_issue", {"dev", "sector", "nr_sector", "rwbs"}, block_io<kIssued>, kRequests},
    {"block:block_rq_complete",
     {"dev", "sector", "nr_sector", "rwbs", "common_flags"},
     block_io<kCompleted>,
     kHalts | kRequests},
    {"task:task_newtask", {"pid", "clone_flags"}, task_newtask},
    {"syscalls:sys_enter_ioctl", {"cmd"}, sys_enter_ioctl},
    {"ftrace:funcgraph_entry", {"func", "depth"}, funcgraph<kFunctionBegin>, kOthers},
    {"ftrace:funcgraph_exit", {"func", "depth"}, funcgraph<kFunctionEnd>, kOthers},
    {"ftrace:print", {"buf"}, marker},
};

}  // namespace

std::span<const KnownEvent> known_events() { return kKnown; }

}  // namespace trapline::kernel_events
