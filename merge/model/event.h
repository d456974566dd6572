// What a source yields: one event of the timeline, decoded.
//
// An Event is a value; `raw` and the views in a payload point into the source's buffer and stay
// valid until the source's next() is called again. Fields an architecture or a kernel version does
// not have carry the value named here.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>

#include "merge/model/host_event.h"
#include "merge/model/timestamp.h"

namespace trapline {

// Which machine an event happened on, and what a source witnesses of it.

// The host whose KVM runs the guests, or one of its guests, numbered from 1.
enum class MachineId : std::uint16_t { kHost = 0 };
[[nodiscard]] constexpr MachineId guest_machine(std::uint16_t number) { return MachineId{number}; }
[[nodiscard]] constexpr bool is_guest(MachineId machine) { return machine != MachineId::kHost; }

// What a source records. Only the loss of a host kernel's events can hide a part of an exit.
enum class Role : std::uint8_t {
  kHostKernel,   // trace.dat of the host: kvm events, scheduling, markers
  kHostProgram,  // a log or a simpletrace file of QEMU
  kGuest,        // functions or kernel events of a guest
};

// One step of an interrupt's way to a guest, as the kernel tells it.
enum class IrqStep : std::uint8_t {
  kLine,
  kMsi,
  kRoute,
  kAccept,
  kInject,
  kEoi,
  kPending,
  kPic,    // the PIC latches the line; masked: level is false
  kPicEnd  // the guest ended the PIC's interrupt
};
struct KvmIrq {
  IrqStep step;
  bool level;            // kLine, kPending: raised or lowered; kInject: false: tried once more
  std::uint32_t pin;     // kLine: gsi; kPending: interrupt number; kPic*: chip * 8 + pin
  std::uint32_t vector;  // where the step knows it, else kNoVector
  std::int32_t vcpu;     // kAccept, kEoi, posted kInject: APIC id; kPending: vCPU
};
inline constexpr std::uint32_t kNoVector = 0xffffffff;

// A guest that runs a guest of its own: kvm_nested_*.

// A step of a guest that runs a guest of its own (kvm_nested_*).
enum class NestedStep : std::uint8_t {
  kEnter,   // the guest's own guest is entered
  kExit,    // the exit is one of the guest's own guest
  kPassOn,  // and is passed on to the guest's KVM
};
struct KvmNested {
  NestedStep step;
};

// Whose exit it is, where a guest runs a guest of its own.
enum class NestedLevel : std::uint8_t {
  kGuest,           // the guest's
  kGuestEnters,     // the guest's, which enters the nested guest: VMRUN, VMLAUNCH, VMRESUME
  kNested,          // the nested guest's: the host alone served it
  kNestedPassedOn,  // the nested guest's, passed on to the guest's KVM
};

// RISC-V: causes of a trap (scause) that say more than their name.

inline constexpr std::uint32_t kRiscvInterrupt = 1u << 31, kRiscvWfi = 1;
inline constexpr std::uint32_t kRiscvFetchFault = 20, kRiscvLoadFault = 21,
                               kRiscvVirtualInstruction = 22, kRiscvStoreFault = 23;

// A thread of the host. 0 is every CPU's idle thread.
enum class ThreadId : std::int32_t {};
// Linux's ids are below 2^22 (PID_MAX_LIMIT). Above them is which of its names a thread has, where
// it is told apart by them: CulpritNames.
inline constexpr unsigned kTidBits = 22;
[[nodiscard]] constexpr ThreadId tid_of(ThreadId thread) {
  const auto id = static_cast<std::int32_t>(thread);
  return id < 0 ? thread : ThreadId{id & ((1 << kTidBits) - 1)};
}
inline constexpr std::int32_t kNoVcpu = -1;

// kvm_exit: isa 1 is VMX, 2 is SVM; on arm64 `reason` is ret and `exception_class` is esr_ec; on
// RISC-V `reason` is scause (an interrupt's bit is the highest), and `exception_class` kRiscvWfi
// where the instruction was WFI.
inline constexpr std::uint32_t kIsaVmx = 1, kIsaSvm = 2, kIsaArm64 = 0xa64, kIsaRiscv = 0x5c64;
struct KvmExit {
  static constexpr std::uint64_t kNoAddress = ~std::uint64_t{0};
  std::uint32_t reason, isa, exception_class;
  std::int32_t vcpu;
  std::uint64_t rip;
  // RISC-V: the guest-physical address of a page fault. Elsewhere an event of its own has it.
  std::uint64_t fault_address = kNoAddress;
};
struct KvmEntry {
  std::int32_t vcpu;
};
struct KvmUserspaceExit {
  std::uint32_t reason;
  std::int32_t error;  // negative errno, -4 when the run was interrupted
};
// What a kernel does first when a thread is back from user space: kvm_fpu load (x86),
// kvm_get_timer_map or kvm_timer_restore_state (arm64).
struct KvmStateLoad {
  std::int32_t vcpu;
};

// What an exit was about. The order is the priority: a smaller kind wins.
enum class DetailKind : std::uint8_t {
  kPort,
  kMmio,
  kMsr,
  kSysReg,
  kControlRegister,
  kCpuid,
  kHypercall,
  kPageFault,
  kNone
};
enum class Access : std::uint8_t { kNone, kRead, kWrite };
struct KvmDetail {
  static constexpr std::uint64_t kNoData = ~std::uint64_t{0};  // an access without its value
  // Port, guest-physical address, MSR, leaf, number, packed system register, CR's number.
  std::uint64_t value;
  // The value read or written; of a page fault its error code, as the hardware has it; else 0.
  std::uint64_t data;
  DetailKind kind;
  Access access;
  bool unsatisfied;  // an MMIO read that user space has yet to answer
};

// The guest's TSC is the host's plus `next` from now on (kvm_write_tsc_offset).
struct KvmTscOffset {
  std::int32_t vcpu;
  std::uint64_t previous, next;
};
struct KvmVcpuWakeup {
  std::uint64_t ns;
  bool waited, valid;  // waited: polling lost and the thread slept
};
// arm64: the exit is by WFE, which spins, or by WFI, which waits for an interrupt.
struct KvmWfx {
  bool is_wfe;
};
struct KvmHaltPoll {
  std::uint32_t now, before;
  std::int32_t vcpu;
};
struct SchedSwitch {
  enum class Left : std::uint8_t { kOther, kStopped, kDead };  // by a signal or a tracer; its end
  ThreadId prev, next;
  bool runnable;  // prev could have gone on: it was preempted
  std::string_view next_comm;
  Left left = Left::kOther;  // why prev sleeps
  // True if prev is of the fair class, to which alone a cgroup's CPU quota applies: not of a
  // real-time or deadline policy.
  bool fair = true;
};
// In which context a wake-up was made: its thread's own, or an interrupt's.
enum class WakeContext : std::uint8_t { kUnknown, kThread, kInterrupt };
struct SchedWakeup {
  using Context = WakeContext;
  ThreadId thread;
  std::int32_t cpu = -1;  // it was woken on; of sched_waking: where it ran last
  bool waking = false;    // sched_waking; else sched_wakeup, which comes later
  Context context = Context::kUnknown;
  InterruptLevel level = InterruptLevel::kNone;
};
struct IoctlEnter {
  std::uint32_t command;
};
// task_newtask; the event's thread is the one that made it.
struct NewThread {
  ThreadId child;
  bool same_process;
};
struct Marker {
  std::string_view text;
};
// A loss in one CPU's record. The event's time is `from`, that of the CPU's last event before it.
struct Lost {
  Timestamp from, to;
  std::uint64_t count;      // 0: the kernel did not say how many
  bool on_purpose = false;  // the recorder left them out: --snapshot-on keeps the time around hits
};
// A guest function was entered or left, as a plugin recorded it; `name` is empty without a symbol.
struct GuestCall {
  bool entry;
  std::int32_t vcpu;
  std::uint32_t depth;
  std::uint64_t function;
  std::string_view name;
  // Tasks that take turns on a vCPU have a stack each; 0: the vCPU's only one.
  std::int32_t task = 0;
  std::int32_t cpu = kNoVcpu;  // of the recorded machine: the one that ran the task, where known
  bool off_cpu = false;        // no function: the task leaves its CPU (entry), or is back on one
};
struct Other {};
using Payload = std::variant<Other, KvmExit, KvmEntry, KvmUserspaceExit, KvmStateLoad, KvmDetail,
                             KvmTscOffset, KvmNested, KvmVcpuWakeup, KvmHaltPoll, KvmIrq,
                             SchedSwitch, SchedWakeup, IoctlEnter, NewThread, Marker, Lost,
                             GuestCall, HostEvent, BlockIo, KvmWfx, CodeSample>;

template <typename T, std::size_t kIndex = 0>
constexpr std::uint32_t payload_bit() {
  if constexpr (std::is_same_v<std::variant_alternative_t<kIndex, Payload>, T>) {
    return 1u << kIndex;
  } else {
    return payload_bit<T, kIndex + 1>();
  }
}
static_assert(std::variant_size_v<Payload> <= 32);

// True if the payload is of one of these types, in one comparison.
template <typename... T>
[[nodiscard]] bool is_any_of(const Payload& payload) {
  return ((payload_bit<T>() | ...) >> payload.index() & 1) != 0;
}

// What events are read for. A source may leave out the classes that were not selected: it counts
// their events and does not decode them.
enum class EventClass : std::uint8_t {
  kExits = 1,       // the exit model
  kInterrupts = 2,  // the way of interrupts
  kHalts = 4,       // halt polling
  kOthers = 8,      // everything else
  kRequests = 16,   // the host's block devices
  kFaults = 32,     // why pages were not mapped
  kAll = 63,
};
[[nodiscard]] constexpr EventClass operator|(EventClass a, EventClass b) {
  return static_cast<EventClass>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
[[nodiscard]] constexpr bool has(EventClass set, EventClass events) {
  return (static_cast<std::uint8_t>(set) & static_cast<std::uint8_t>(events)) != 0;
}

struct Event {
  Timestamp at;
  std::uint32_t cpu = 0;
  ThreadId thread{};
  std::uint16_t source = 0;  // index in the timeline
  std::uint16_t type = 0;    // the event's id in its source
  MachineId machine = MachineId::kHost;
  // Of a guest's event: its own task, while `thread` is the host's thread of the vCPU that ran it
  // (0: not known).
  ThreadId task{};
  Payload payload;
  std::span<const std::byte> raw;  // the event's record, empty for Lost
};

// The view into the event's record that its payload has, or nullptr.
[[nodiscard]] inline std::string_view* text_of(Payload& payload) {
  if (auto* marker = std::get_if<Marker>(&payload)) return &marker->text;
  auto* sched = std::get_if<SchedSwitch>(&payload);
  return sched == nullptr ? nullptr : &sched->next_comm;
}

// Who has the event's CPU after it, and who left it by the event.
struct OnCpu {
  ThreadId thread{}, leaving{};
};
[[nodiscard]] inline OnCpu on_cpu_after(const Event& event) {
  const auto* sched = std::get_if<SchedSwitch>(&event.payload);
  return sched == nullptr ? OnCpu{event.thread, {}} : OnCpu{sched->next, sched->prev};
}

// Why a guest was left, and what the reason alone tells.

// What the VMM is asked for: KVM_EXIT_* of linux/kvm.h.
inline constexpr std::uint32_t kUserspaceIo = 2, kUserspaceMmio = 6;

// Why the guest was left: the numbers of KvmExit, or of KvmUserspaceExit in the fallback.
struct ExitReason {
  static constexpr std::uint32_t kIsaUserspace = 0xffff;
  std::uint32_t reason = 0;
  std::uint32_t isa = 0;
  std::uint32_t exception_class = 0;
  friend auto operator<=>(const ExitReason&, const ExitReason&) = default;
};
// In one word, for its numbers are small. The source that names it is in the last byte.
[[nodiscard]] constexpr std::uint64_t packed(const ExitReason& reason, std::uint16_t source) {
  return std::uint64_t{reason.reason} << 32 | (std::uint64_t{reason.isa} & 0xffff) << 16 |
         (reason.exception_class & 0xff) << 8 | (source & 0xff);
}
// HLT, idle-hlt, WFx, WFI: as far as the reason alone tells, the guest waits for an interrupt.
[[nodiscard]] constexpr bool is_halt(const ExitReason& exit) {
  constexpr std::uint32_t kVmxHlt = 12, kSvmHlt = 0x78, kSvmIdleHlt = 0xa6;
  constexpr std::uint32_t kArm64Trap = 2, kWfx = 1, kUserHlt = 5;
  switch (exit.isa) {
    case kIsaVmx:
      return (exit.reason & 0xffff) == kVmxHlt;
    case kIsaSvm:
      return exit.reason == kSvmHlt || exit.reason == kSvmIdleHlt;
    case kIsaArm64:
      return exit.reason == kArm64Trap && exit.exception_class == kWfx;
    case kIsaRiscv:
      return exit.reason == kRiscvVirtualInstruction && exit.exception_class == kRiscvWfi;
    case ExitReason::kIsaUserspace:
      return exit.reason == kUserHlt;
    default:
      return false;
  }
}

// VMX's log of the pages that the guest wrote to is full.
[[nodiscard]] constexpr bool is_dirty_log(const ExitReason& exit) {
  constexpr std::uint32_t kVmxPmlFull = 62;
  return exit.isa == kIsaVmx && (exit.reason & 0xffff) == kVmxPmlFull;
}

// The host was interrupted: the instruction at rip was not carried out.
[[nodiscard]] constexpr bool is_interrupt(const ExitReason& exit) {
  constexpr std::uint32_t kVmxExternalInterrupt = 1, kVmxPreemptionTimer = 52;
  constexpr std::uint32_t kSvmIntr = 0x60, kSvmNmi = 0x61, kArm64Irq = 0;
  switch (exit.isa) {
    case kIsaVmx:
      return (exit.reason & 0xffff) == kVmxExternalInterrupt ||
             (exit.reason & 0xffff) == kVmxPreemptionTimer;
    case kIsaSvm:
      return exit.reason == kSvmIntr || exit.reason == kSvmNmi;
    case kIsaArm64:
      return exit.reason == kArm64Irq;
    case kIsaRiscv:
      return (exit.reason & kRiscvInterrupt) != 0;
    default:
      return false;
  }
}

[[nodiscard]] constexpr bool is_x86(const ExitReason& exit) {
  return exit.isa == kIsaVmx || exit.isa == kIsaSvm;
}

// The architectures whose confidential guests hide their registers: rip is 0 then, and this stands
// in the place of the function's name.
inline constexpr std::string_view kHiddenFunction = "hidden (confidential guest)";
[[nodiscard]] constexpr bool may_hide_rip(const ExitReason& exit) { return is_x86(exit); }

}  // namespace trapline
