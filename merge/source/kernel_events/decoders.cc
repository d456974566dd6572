// Decodes the events of merge/model/kernel_events.h, with one function for each Decoder.
#include <cstring>
#include <utility>

#include "merge/source/kernel_events/formats.h"

namespace trapline::kernel_events {
namespace {

std::uint32_t u32(const Schema& schema, const RecordedEvent& event, std::size_t field,
                  std::uint32_t fallback = 0) {
  return static_cast<std::uint32_t>(schema.get(event, field, fallback));
}
std::int32_t i32(const Schema& schema, const RecordedEvent& event, std::size_t field,
                 std::int32_t fallback = 0) {
  return static_cast<std::int32_t>(u32(schema, event, field, static_cast<std::uint32_t>(fallback)));
}
// Sets the payload without asking for the type that it has.
void put(Payload& out, auto payload) { out.emplace<decltype(payload)>(payload); }
Access access(bool write) { return write ? Access::kWrite : Access::kRead; }

// Returns the text of a char array, or of the flexible array at an event's end, up to its zero
// byte.
std::string_view text_at(const RecordedEvent& event, std::size_t offset, std::size_t longest) {
  if (offset >= event.size) return {};
  const auto* text = reinterpret_cast<const char*>(event.data + offset);
  return {text, ::strnlen(text, std::min<std::size_t>(longest, event.size - offset))};
}

// Decodes scause, stval and the fields of the hypervisor extension, which have the hardware's
// format.
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
  // htval lacks the lowest two bits of the address; it is 0 if the hardware does not report the
  // address.
  if (fault && address != 0) exit.fault_address = address << 2 | (value & 3);
  put(out, exit);
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
  put(out, exit);
}
void kvm_fpu(const Schema& s, const RecordedEvent& e, Payload& out) {
  if (s.get(e, 0) != 0) put(out, KvmStateLoad{kNoVcpu});
}
void kvm_mmio(const Schema& s, const RecordedEvent& e, Payload& out) {
  constexpr std::uint64_t kUnsatisfiedRead = 0, kWrite = 2;
  const std::uint64_t type = s.get(e, 0);
  put(out, KvmDetail{s.get(e, 1), s.get(e, 2), DetailKind::kMmio, access(type == kWrite),
                     type == kUnsatisfiedRead});
}
void kvm_sys_access(const Schema& s, const RecordedEvent& e, Payload& out) {
  const std::uint64_t packed = (s.get(e, 1) << 14) | (s.get(e, 2) << 11) | (s.get(e, 3) << 7) |
                               (s.get(e, 4) << 3) | s.get(e, 5);
  put(out, KvmDetail{packed, 0, DetailKind::kSysReg, access(s.get(e, 0) != 0), false});
}
void kvm_msi_set_irq(const Schema& s, const RecordedEvent& e, Payload& out) {
  const auto destination = static_cast<std::int32_t>((s.get(e, 0) >> 12) & 0xff);
  put(out, KvmIrq{IrqStep::kMsi, true, 0, u32(s, e, 1) & 0xff, destination});
}
// Decodes either form of the event: a binary record has icr_low, the low half of the APIC's ICR; a
// text has dest_mode and shorthand, which the kernel prints instead.
void kvm_apic_ipi(const Schema& s, const RecordedEvent& e, Payload& out) {
  constexpr unsigned kLogicalAt = 11, kShorthandAt = 18;
  constexpr std::uint64_t kNoShorthand = 0, kAll = 2;
  const std::uint64_t low = s.get(e, 1);
  const bool logical = s.has(1) ? (low >> kLogicalAt & 1) != 0 : s.get(e, 2) != 0;
  const std::uint64_t shorthand = s.has(1) ? low >> kShorthandAt & 3 : s.get(e, 3);
  std::int32_t to = shorthand >= kAll ? HostEvent::kAllOthers : HostEvent::kNotKnown;
  if (shorthand == kNoShorthand && !logical && s.has(0)) to = i32(s, e, 0);
  put(out, HostEvent{HostStep::kIpi, to, 0, 0, 0});
}
void kvm_inj_virq(const Schema& s, const RecordedEvent& e, Payload& out) {
  // An exit in the middle of an injection causes the injection to be repeated.
  const bool reinjected = s.has(1) && s.get(e, 1) != 0;
  const std::size_t vector = s.has(0) ? 0 : 2;  // Linux 5.10 calls the field irq
  put(out, KvmIrq{IrqStep::kInject, !reinjected, 0, u32(s, e, vector), kNoVcpu});
}
void kvm_pic_set_irq(const Schema& s, const RecordedEvent& e, Payload& out) {
  const std::uint32_t pin = u32(s, e, 1) & 7;
  const bool masked = (s.get(e, 2) >> pin & 1) != 0;
  put(out, KvmIrq{IrqStep::kPic, !masked, u32(s, e, 0) * 8 + pin, kNoVector, kNoVcpu});
}
void kvm_ack_irq(const Schema& s, const RecordedEvent& e, Payload& out) {
  const std::uint64_t chip = s.get(e, 0);
  if (chip > 1) return;  // the IOAPIC: kvm_eoi reports it by vector
  put(out, KvmIrq{IrqStep::kPicEnd, true, static_cast<std::uint32_t>(chip) * 8 + (u32(s, e, 1) & 7),
                  kNoVector, kNoVcpu});
}
void sched_switch(const Schema& s, const RecordedEvent& e, Payload& out) {
  // The low eight bits of prev_state are 0 if the thread can run; the bit above them means
  // "preempted" (R+).
  constexpr std::uint64_t kSleeping = 0xff, kStopped = 0x4 | 0x8, kDead = 0x10 | 0x20;
  constexpr std::int32_t kFirstFairPriority = 100;  // MAX_RT_PRIO
  using Left = SchedSwitch::Left;
  const std::uint64_t state = s.get(e, 1);
  put(out, SchedSwitch{ThreadId{i32(s, e, 0)}, ThreadId{i32(s, e, 2)}, (state & kSleeping) == 0,
                       text_at(e, s.fields[3].offset, 16),
                       (state & kDead) != 0      ? Left::kDead
                       : (state & kStopped) != 0 ? Left::kStopped
                                                 : Left::kOther,
                       i32(s, e, 4, kFirstFairPriority) >= kFirstFairPriority});
}
// Returns the level from common_flags. A hard interrupt may have come during a soft one: then both
// bits are set.
InterruptLevel level_of(const Schema& s, const RecordedEvent& e, std::size_t flags) {
  constexpr std::uint32_t kHardIrq = 0x8, kSoftIrq = 0x10;  // TRACE_FLAG_HARDIRQ, _SOFTIRQ
  const std::uint32_t set = u32(s, e, flags);
  return (set & kHardIrq) != 0   ? InterruptLevel::kHard
         : (set & kSoftIrq) != 0 ? InterruptLevel::kSoft
                                 : InterruptLevel::kNone;
}
void sched_wakeup(const Schema& s, const RecordedEvent& e, Payload& out) {
  using Context = SchedWakeup::Context;
  const InterruptLevel level = level_of(s, e, 2);
  const Context context = !s.has(2)                        ? Context::kUnknown
                          : level == InterruptLevel::kNone ? Context::kThread
                                                           : Context::kInterrupt;
  put(out, SchedWakeup{ThreadId{i32(s, e, 0)}, i32(s, e, 1, -1), s.kind<bool>(), context, level});
}
// Decodes a fault as a logged write if, except for bits that the CPU sets, the entry's only change
// is that it is now writable. KVM makes this change on its fast path if it had write-protected a
// present page only for dirty logging; write protection for other reasons clears one more bit
// (Linux, arch/x86/kvm/mmu/spte.h).
void fast_page_fault(const Schema& s, const RecordedEvent& e, Payload& out) {
  constexpr std::uint64_t kReadOrExecute = 5, kWrite = 2, kAccessedAndDirty = 0x360;
  const std::uint64_t old = s.get(e, 0), now = s.get(e, 1);
  if ((old & kReadOrExecute) == 0) return;
  const bool is_write = (s.get(e, 2) & kWrite) != 0;  // PFERR_WRITE_MASK has the same value
  if (s.has(2) && old == now && (!is_write || (old & kWrite) != 0)) {
    put(out, HostEvent{HostStep::kMappedSo, 0, 0, 0, 0});
  } else if (((old ^ now) & ~kAccessedAndDirty) == kWrite && (now & kWrite) != 0) {
    put(out, HostEvent{HostStep::kLoggedWrite, 0, 0, 0, 0});
  }
}
// Decodes changes of entries that map a page, not of those that point to another table (Linux,
// arch/x86/kvm/mmu/spte.h).
void map_change(const Schema& s, const RecordedEvent& e, Payload& out) {
  constexpr std::uint64_t kWritable = 2, kLarge = 1u << 7, kPresent = 1u << 11;
  constexpr unsigned kPageBits = 12;
  const std::uint64_t old = s.get(e, 2), now = s.get(e, 3);
  const std::int32_t level = i32(s, e, 1);
  const auto maps = [level](std::uint64_t entry) {
    return (entry & kPresent) != 0 && (level == 1 || (entry & kLarge) != 0);
  };
  const bool splits = !maps(now) && (now & kPresent) != 0;  // the pages under the entry stay mapped
  std::uint64_t change = 0;
  if (maps(old)) change |= (old & kWritable) != 0 ? kWasThere | kWasWritable : kWasThere;
  if (maps(now)) change |= (now & kWritable) != 0 ? kIsThere | kIsWritable : kIsThere;
  if (change == 0 || splits) return;
  put(out, HostEvent{HostStep::kMapping, level, 0, s.get(e, 0) << kPageBits, change});
}
// Decodes rwbs: "R", "WS", "FF", "RA" …. The letter after an F (a flush before it) is the kind.
void block_io(const Schema& s, const RecordedEvent& e, Payload& out) {
  const std::string_view kind = text_at(e, s.fields[3].offset, 10);
  put(out, BlockIo{s.kind<BlockStep>(), kind.find('R') != std::string_view::npos,
                   kind.find('W') != std::string_view::npos, u32(s, e, 0), u32(s, e, 2),
                   s.get(e, 1), level_of(s, e, 4)});
}
void task_newtask(const Schema& s, const RecordedEvent& e, Payload& out) {
  constexpr std::uint64_t kCloneThread = 0x10000;  // CLONE_THREAD of linux/sched.h
  put(out, NewThread{ThreadId{i32(s, e, 0)}, (s.get(e, 1) & kCloneThread) != 0});
}

// A case for each decoder. NOLINTNEXTLINE(readability-function-size)
template <Decoder kDecoder>
void decode(const Schema& s, const RecordedEvent& e, Payload& out) {
  using enum Decoder;
  switch (kDecoder) {
    case kNone:
      return;
    case kExit:
      return kvm_exit(s, e, out);
    case kEntry:
      return put(out, KvmEntry{i32(s, e, 0, kNoVcpu)});
    case kUserspaceExit:
      return put(out, KvmUserspaceExit{u32(s, e, 0), i32(s, e, 1)});
    case kFpuLoad:
      return kvm_fpu(s, e, out);
    case kTimerReload:
      return put(out, KvmStateLoad{i32(s, e, 0, kNoVcpu)});
    case kAccess:
      return put(out, KvmDetail{s.get(e, 1), s.get(e, 2), s.kind<DetailKind>(),
                                access(s.get(e, 0) != 0), false});
    case kMmio:
      return kvm_mmio(s, e, out);
    case kFastMmio:
      return put(out, KvmDetail{s.get(e, 0), KvmDetail::kNoData, DetailKind::kMmio, Access::kWrite,
                                false});
    case kSysAccess:
      return kvm_sys_access(s, e, out);
    case kDetail:
      return put(out,
                 KvmDetail{s.get(e, 0), s.get(e, 1), s.kind<DetailKind>(), Access::kNone, false});
    case kTscOffset:
      return put(out, KvmTscOffset{s.get(e, 2)});
    case kVcpuWakeup:
      return put(out, KvmVcpuWakeup{s.get(e, 0), s.get(e, 1) != 0, s.get(e, 2) != 0});
    case kWfx:
      return put(out, KvmWfx{s.get(e, 0) != 0});
    case kHaltPoll:
      return put(out, KvmHaltPoll{u32(s, e, 0), u32(s, e, 1)});
    case kIrqLine:
      return put(out,
                 KvmIrq{s.kind<IrqStep>(), s.get(e, 1) != 0, u32(s, e, 0), kNoVector, kNoVcpu});
    case kIrqMsi:
      return kvm_msi_set_irq(s, e, out);
    case kIrqRoute:
      return put(out, KvmIrq{IrqStep::kRoute, true, u32(s, e, 1), u32(s, e, 0) & 0xff, kNoVcpu});
    case kIrqApic:
      return put(out, KvmIrq{s.kind<IrqStep>(), true, 0, u32(s, e, 1), i32(s, e, 0, kNoVcpu)});
    case kIrqInject:
      return kvm_inj_virq(s, e, out);
    case kIrqPic:
      return kvm_pic_set_irq(s, e, out);
    case kIrqPicEnd:
      return kvm_ack_irq(s, e, out);
    case kIrqPending:
      return put(
          out, KvmIrq{IrqStep::kPending, s.get(e, 2) != 0, u32(s, e, 1), kNoVector, i32(s, e, 0)});
    case kNested:
      return put(out, KvmNested{s.kind<NestedStep>()});
    case kSwitch:
      return sched_switch(s, e, out);
    case kWakeup:
      return sched_wakeup(s, e, out);
    case kMigration:
      return put(out, HostEvent{HostStep::kMigrate, i32(s, e, 1, -1), i32(s, e, 0, -1), 0, 0});
    case kTimer:
      return put(out, HostEvent{s.kind<HostStep>(), 0, 0, 0, 0, level_of(s, e, 0)});
    case kWork: {
      const auto level = s.has(1) ? level_of(s, e, 1) : InterruptLevel::kHard;
      return put(out, HostEvent{s.kind<HostStep>(), 0, 0, s.get(e, 0), 0, level});
    }
    case kHost:
      return put(out, HostEvent{s.kind<HostStep>(), i32(s, e, 0), 0, 0, 0});
    case kHostAt:
      return put(out, HostEvent{s.kind<HostStep>(), i32(s, e, 1), 0, s.get(e, 0), 0});
    case kMapChange:
      return map_change(s, e, out);
    case kIpiTo:
      return kvm_apic_ipi(s, e, out);
    case kFutexCall:
      return put(out, HostEvent{HostStep::kFutex, i32(s, e, 2), 0, s.get(e, 0), s.get(e, 1)});
    case kFastFault:
      return fast_page_fault(s, e, out);
    case kBlock:
      return block_io(s, e, out);
    case kNewTask:
      return task_newtask(s, e, out);
    case kIoctl:
      return put(out, IoctlEnter{u32(s, e, 0)});
    case kMarker:
      return put(out, Marker{text_at(e, s.fields[0].offset, e.size)});
  }
}

template <std::size_t... kDecoder>
constexpr Decoders decoders(std::index_sequence<kDecoder...>) {
  return {decode<static_cast<Decoder>(kDecoder)>...};
}

}  // namespace

constexpr Decoders kDecoders = decoders(std::make_index_sequence<std::tuple_size_v<Decoders>>());

}  // namespace trapline::kernel_events
