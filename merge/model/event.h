// One decoded event of the timeline, as a source returns it.
//
// An Event is a value; `raw` and the views in a payload point into the source's buffer and stay
// valid until the source's next() is called again. A field that an architecture or a kernel version
// does not have holds the value named here.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "merge/model/host_event.h"
#include "merge/model/timestamp.h"

namespace trapline {

// The host whose KVM runs the guests, or one of its guests, numbered from 1.
enum class MachineId : std::uint16_t { kHost = 0 };
[[nodiscard]] constexpr MachineId guest_machine(std::uint16_t number) { return MachineId{number}; }
[[nodiscard]] constexpr bool is_guest(MachineId machine) { return machine != MachineId::kHost; }

// The kind of a source, by the machine and the program whose events it records. Only a loss in a
// kHostKernel source can hide a part of an exit.
enum class Role : std::uint8_t {
  kHostKernel,   // trace.dat of the host: kvm events, scheduling, markers
  kHostProgram,  // a log or a simpletrace file of QEMU
  kGuest,        // functions or kernel events of a guest
};

// One step of an interrupt on its way to a guest, as a kernel event reports it.
enum class IrqStep : std::uint8_t {
  kLine,
  kMsi,
  kRoute,
  kAccept,
  kInject,
  kEoi,
  kPending,
  kPic,    // the PIC latches the line; level is false if the line is masked
  kPicEnd  // the guest ended the PIC's interrupt
};
struct KvmIrq {
  IrqStep step;
  bool level;            // kLine, kPending: true if raised; kInject: false if repeated
  std::uint32_t pin;     // kLine: gsi; kPending: interrupt number; kPic*: chip * 8 + pin
  std::uint32_t vector;  // kNoVector if the step's event has none
  std::int32_t vcpu;     // kAccept, kEoi, posted kInject: APIC id; kPending: vCPU
};
inline constexpr std::uint32_t kNoVector = 0xffffffff;

// A step of a guest that runs a nested guest (kvm_nested_*).
enum class NestedStep : std::uint8_t {
  kEnter,   // KVM enters the nested guest
  kExit,    // the exit is one of the nested guest's
  kPassOn,  // KVM passes the nested guest's exit on to the guest's KVM
};
struct KvmNested {
  NestedStep step;
};

// Says if an exit is the guest's own or that of a nested guest, which the guest runs.
enum class NestedLevel : std::uint8_t {
  kGuest,           // the guest's exit
  kGuestEnters,     // the guest's exit to enter the nested guest: VMRUN, VMLAUNCH, VMRESUME
  kNested,          // the nested guest's exit; the host alone served it
  kNestedPassedOn,  // the nested guest's exit, passed on to the guest's KVM
};

// RISC-V: the interrupt bit of KvmExit::reason, the exception_class of a WFI, and the causes
// (scause) of the exits that are decoded further than to their name.

inline constexpr std::uint32_t kRiscvInterrupt = 1u << 31, kRiscvWfi = 1;
inline constexpr std::uint32_t kRiscvFetchFault = 20, kRiscvLoadFault = 21,
                               kRiscvVirtualInstruction = 22, kRiscvStoreFault = 23;

// A thread of the host. 0 is every CPU's idle thread. The kernel's ids are at most 2^22
// (PID_MAX_LIMIT); uftrace directories that Trapline exports have tasks above. The bits from
// kTidBits on tell apart the threads that had one id, one after the other (ThreadLives) and, in a
// Culprit, a thread's several names (CulpritNames).
enum class ThreadId : std::int32_t {};
inline constexpr unsigned kTidBits = 23, kLifeBits = 4;
inline constexpr std::uint32_t kLastLife = (1u << kLifeBits) - 1;
// Returns the kernel's id of the thread; a negative number, which the kernel never uses, unchanged.
[[nodiscard]] constexpr std::int32_t tid_of(ThreadId thread) {
  const auto id = static_cast<std::int32_t>(thread);
  return id < 0 ? id : id & ((1 << kTidBits) - 1);
}
// Returns how many threads had the thread's id before it.
[[nodiscard]] constexpr std::uint32_t life_of(ThreadId thread) {
  return static_cast<std::int32_t>(thread) < 0
             ? 0
             : static_cast<std::uint32_t>(thread) >> kTidBits & kLastLife;
}
[[nodiscard]] constexpr ThreadId thread_of(std::int32_t tid, std::uint32_t life) {
  return ThreadId{tid | static_cast<std::int32_t>(life << kTidBits)};
}
// Returns the thread that had the thread's id just before; 0 if it is the first one.
[[nodiscard]] constexpr ThreadId earlier_of(ThreadId thread) {
  const std::uint32_t life = life_of(thread);
  return life == 0 ? ThreadId{} : thread_of(tid_of(thread), life - 1);
}
// Returns the thread without the number of its name.
[[nodiscard]] constexpr ThreadId unnamed(ThreadId thread) {
  return static_cast<std::int32_t>(thread) < 0 ? thread
                                               : thread_of(tid_of(thread), life_of(thread));
}
// Returns "300"; "300 #2" for the second thread with this id.
[[nodiscard]] inline std::string tid_text(ThreadId thread) {
  const std::uint32_t life = life_of(thread);
  return std::to_string(tid_of(thread)) + (life == 0 ? "" : " #" + std::to_string(life + 1));
}
inline constexpr std::int32_t kNoVcpu = -1;

// kvm_exit: isa 1 is VMX, 2 is SVM; on arm64 `reason` is ret and `exception_class` is esr_ec; on
// RISC-V `reason` is scause (an interrupt's bit is the highest), and `exception_class` is kRiscvWfi
// if the instruction was WFI.
inline constexpr std::uint32_t kIsaVmx = 1, kIsaSvm = 2, kIsaArm64 = 0xa64, kIsaRiscv = 0x5c64;
struct KvmExit {
  static constexpr std::uint64_t kNoAddress = ~std::uint64_t{0};
  std::uint32_t reason, isa, exception_class;
  std::int32_t vcpu;
  std::uint64_t rip;
  // RISC-V: the guest-physical address of a page fault; other architectures have a separate event
  // for it.
  std::uint64_t fault_address = kNoAddress;
};
struct KvmEntry {
  std::int32_t vcpu;
};
struct KvmUserspaceExit {
  std::uint32_t reason;
  std::int32_t error;  // negative errno, -4 when the run was interrupted
};
// The first event of a vCPU's thread after its return from user space to KVM: kvm_fpu load (x86),
// kvm_get_timer_map or kvm_timer_restore_state (arm64).
struct KvmStateLoad {
  std::int32_t vcpu;
};

// The kind of an exit's detail. If several events give an exit a detail, the smallest kind wins.
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
  // Marks an access whose value is not known.
  static constexpr std::uint64_t kNoData = ~std::uint64_t{0};
  // Port, guest-physical address, MSR, packed system register, CR, CPUID leaf or hypercall number.
  std::uint64_t value;
  // The value read or written, or the hardware's error code of a page fault; else 0.
  std::uint64_t data;
  DetailKind kind;
  Access access;
  bool unsatisfied;  // an MMIO read that user space has not answered yet
  // Returns whether the detail is a write to a port or to MMIO.
  [[nodiscard]] bool is_device_write() const {
    return kind <= DetailKind::kMmio && access == Access::kWrite;
  }
};

// kvm_write_tsc_offset: from this event on, the vCPU's TSC is the host's plus `next`.
struct KvmTscOffset {
  std::uint64_t next;
};
struct KvmVcpuWakeup {
  std::uint64_t ns;
  bool waited, valid;  // waited: polling failed and the thread slept
};
// arm64: tells WFE, which spins, from WFI, which waits for an interrupt.
struct KvmWfx {
  bool is_wfe;
};
struct KvmHaltPoll {
  std::uint32_t now, before;
};
struct SchedSwitch {
  // kStopped: by a signal or a tracer; kDead: the thread ended.
  enum class Left : std::uint8_t { kOther, kStopped, kDead };
  ThreadId prev, next;
  bool runnable;  // prev was ready to run: it was preempted
  std::string_view next_comm;
  Left left = Left::kOther;  // why prev stopped running
  // True if prev is of the fair class: a cgroup's CPU quota limits only this class, not real-time
  // and deadline policies.
  bool fair = true;
};
// The context of a wake-up: the waking thread, or an interrupt.
enum class WakeContext : std::uint8_t { kUnknown, kThread, kInterrupt };
struct SchedWakeup {
  using Context = WakeContext;
  ThreadId thread;
  std::int32_t cpu = -1;  // CPU on which the thread wakes; for sched_waking where it last ran
  bool waking = false;    // true: sched_waking; false: sched_wakeup, which comes later
  Context context = Context::kUnknown;
  InterruptLevel level = InterruptLevel::kNone;
};
struct IoctlEnter {
  std::uint32_t command;
};
// task_newtask: the event's thread made the thread `child`.
struct NewThread {
  ThreadId child;
  bool same_process;
};
struct Marker {
  std::string_view text;
};
// A loss in one CPU's record. The event's time is `from`, the time of the CPU's last event before
// the loss.
struct Lost {
  Timestamp from, to;
  std::uint64_t count;  // 0: the kernel did not report how many
  // The recorder left the events out: --snapshot-on keeps only the time around the exits and stalls
  // that it selects.
  bool on_purpose = false;
};
// The entry or exit of a guest function, as a plugin recorded it; `name` is empty without a symbol.
struct GuestCall {
  bool entry;
  std::int32_t vcpu;
  std::uint32_t depth;
  std::uint64_t function;
  std::string_view name;
  // Distinguishes the stacks of tasks that take turns on a vCPU; 0: the vCPU has one stack.
  std::int32_t task = 0;
  std::int32_t cpu = kNoVcpu;  // the recorded machine's CPU that ran the task; kNoVcpu: not known
  // Not a function: the task leaves its CPU (entry) or is back on a CPU (exit).
  bool off_cpu = false;
};
struct Other {};
using Payload =
    std::variant<Other, KvmExit, KvmEntry, KvmUserspaceExit, KvmStateLoad, KvmDetail, KvmTscOffset,
                 KvmNested, KvmVcpuWakeup, KvmHaltPoll, KvmIrq, SchedSwitch, SchedWakeup,
                 IoctlEnter, NewThread, Marker, Lost, GuestCall, HostEvent, BlockIo, KvmWfx>;

template <typename T, std::size_t kIndex = 0>
constexpr std::uint32_t payload_bit() {
  if constexpr (std::is_same_v<std::variant_alternative_t<kIndex, Payload>, T>) {
    return 1u << kIndex;
  } else {
    return payload_bit<T, kIndex + 1>();
  }
}
static_assert(std::variant_size_v<Payload> <= 32);

// A set of types of payloads.
template <typename... T>
inline constexpr std::uint32_t kPayloads = (payload_bit<T>() | ...);

[[nodiscard]] inline bool is_in(std::uint32_t payloads, const Payload& payload) {
  return (payloads >> payload.index() & 1) != 0;
}
// True if the payload is of one of these types, in one comparison.
template <typename... T>
[[nodiscard]] bool is_any_of(const Payload& payload) {
  return is_in(kPayloads<T...>, payload);
}

// The purposes for which events are read. A source counts events of classes that were not selected
// and may leave them undecoded.
enum class EventClass : std::uint8_t {
  kExits = 1,       // the exit model
  kInterrupts = 2,  // the steps of interrupts
  kHalts = 4,       // halt polling
  kOthers = 8,      // everything else
  kRequests = 16,   // the host's block devices
  kFaults = 32,     // why pages were not mapped
  kHostRuns = 64,   // what threads did while they ran
  kAll = 127,
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
  std::uint16_t source = 0;  // index of the source in the timeline
  std::uint16_t type = 0;    // the event's type id in its source
  MachineId machine = MachineId::kHost;
  // In a guest's event, the guest's own task. `thread` is then the host's thread of the vCPU that
  // ran the task (0: not known).
  ThreadId task{};
  Payload payload;
  std::span<const std::byte> raw;  // the event's record, empty for Lost
};

// Takes events in order of time. A sink is not owned by who has it, so its destructor is its own.
class EventSink {
 public:
  // Takes an event, which is valid during the call; false: no further one is needed.
  [[nodiscard]] virtual bool push(const Event& event) = 0;

 protected:
  ~EventSink() = default;
};

// Returns the payload's text, which is a view into the event's record; nullptr if it has no text.
[[nodiscard]] inline std::string_view* text_of(Payload& payload) {
  if (auto* marker = std::get_if<Marker>(&payload)) return &marker->text;
  auto* sched = std::get_if<SchedSwitch>(&payload);
  return sched == nullptr ? nullptr : &sched->next_comm;
}

// The thread that has the event's CPU after the event, and the thread that left the CPU by this
// event.
struct OnCpu {
  ThreadId thread{}, leaving{};
};
[[nodiscard]] inline OnCpu on_cpu_after(const Event& event) {
  const auto* sched = std::get_if<SchedSwitch>(&event.payload);
  return sched == nullptr ? OnCpu{event.thread, {}} : OnCpu{sched->next, sched->prev};
}

// KVM_EXIT_IO and KVM_EXIT_MMIO of linux/kvm.h: KVM asks the VMM to carry out a guest's access.
inline constexpr std::uint32_t kUserspaceIo = 2, kUserspaceMmio = 6;

// The reason of an exit: the numbers of KvmExit or, if kvm_exit was not recorded, of
// KvmUserspaceExit.
struct ExitReason {
  static constexpr std::uint32_t kIsaUserspace = 0xffff;
  std::uint32_t reason = 0;
  std::uint32_t isa = 0;
  std::uint32_t exception_class = 0;
  friend auto operator<=>(const ExitReason&, const ExitReason&) = default;
};
// Packs a reason into one word, as its numbers are small. The low byte is the source, because each
// source has its own names of reasons.
[[nodiscard]] constexpr std::uint64_t packed(const ExitReason& reason, std::uint16_t source) {
  return std::uint64_t{reason.reason} << 32 | (std::uint64_t{reason.isa} & 0xffff) << 16 |
         (reason.exception_class & 0xff) << 8 | (source & 0xff);
}
// Returns whether the reason is HLT, idle-hlt, WFx or WFI, by which a guest waits for an interrupt.
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

// Returns whether the guest exited because VMX's log of written pages (PML) was full.
[[nodiscard]] constexpr bool is_dirty_log(const ExitReason& exit) {
  constexpr std::uint32_t kVmxPmlFull = 62;
  return exit.isa == kIsaVmx && (exit.reason & 0xffff) == kVmxPmlFull;
}

// Returns whether an interrupt of the host caused the exit. The guest has not executed the
// instruction at rip then.
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

// Replaces the function's name for exits of confidential guests, which hide their registers (rip is
// 0).
inline constexpr std::string_view kHiddenFunction = "hidden (confidential guest)";
[[nodiscard]] constexpr bool may_hide_rip(const ExitReason& exit) { return is_x86(exit); }

}  // namespace trapline
