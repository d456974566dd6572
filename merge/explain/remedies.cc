#include "merge/explain/remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

using enum AdviceModel;
constexpr std::array<Remedy, kRemedies> kTable = {{
    {kBatched, "debug-port", "bytes written to the debug port, an exit each",
     "QEMU: leave out -device isa-debugcon, or the output of the guest to its port",
     "what is written to it is lost"},
    {kBatched, "serial", "a serial port, an exit for each byte and register",
     "guest: console=hvc0 for console=ttyS0 (arm64: ttyAMA0); QEMU: -device virtio-serial-pci "
     "-device virtconsole,chardev=ID",
     "messages before the guest's virtio driver starts are lost"},
    {kRemoved, "rtc", "reads of the RTC",
     "guest: read the RTC once, keep the time by kvm-clock or the TSC (arm64, riscv64: the "
     "counter)",
     "a guest that is suspended has to read the RTC again"},
    {kRemoved, "hpet", "the HPET as the guest's clock",
     "QEMU: -machine hpet=off; guest: clocksource=kvm-clock (or tsc)",
     "the guest needs kvm-clock or a TSC that is stable"},
    {kRemoved, "pm-timer", "the ACPI PM timer as the guest's clock",
     "guest: echo kvm-clock > /sys/devices/system/clocksource/clocksource0/current_clocksource",
     "the guest needs kvm-clock or a TSC that is stable"},
    {kRemoved, "pit", "the PIT", "guest: clocksource=kvm-clock, timers of the local APIC",
     "the guest needs a driver of its local APIC's timer"},
    {kBatched, "ide", "an IDE disk, an exit for each register or word",
     "QEMU: -drive file=FILE,if=virtio for if=ide", "the guest needs a virtio driver"},
    {kRemoved, "vga", "VGA's registers and memory", "QEMU: -vga none (or -device virtio-vga)",
     "no screen, or one that needs a driver"},
    {kRemoved, "ps2", "the PS/2 controller",
     "QEMU: -machine i8042=off; guest: i8042.noaux i8042.nokbd", "no PS/2 keyboard or mouse"},
    {kNone, "notify", "a virtio device's notifications, served by the vCPU's thread in QEMU",
     "QEMU: ioeventfd=on for the device (-device virtio-blk-pci,ioeventfd=on,iothread=ID; vhost=on "
     "for a network)",
     "another thread does the work, on another CPU"},
    {kNone, "irqchip", "interrupt controllers that QEMU emulates",
     "QEMU: -machine kernel-irqchip=on", "none known"},
    {kPages, "pages", "page faults of the guest's memory",
     "QEMU: -object memory-backend-memfd,id=ram,size=SIZE,hugetlb=on,prealloc=on -machine "
     "memory-backend=ram",
     "the memory is taken from the host when the guest starts (vm.nr_hugepages)"},
    {kNone, "served-pages", "pages that another thread serves one by one (userfaultfd)",
     "load them before the guest asks, in the order of: trapline export RECORDING --format jsonl "
     "--rows working-set",
     "pages that the guest would not ask for this time are loaded too"},
    {kNone, "file-pages", "pages of files that are read when the guest asks",
     "QEMU: prealloc=on for the memory's object; another VMM: madvise(MADV_POPULATE_READ) of the "
     "ranges of: trapline export RECORDING --format jsonl --rows working-set",
     "the memory is taken from the host when the guest starts"},
    {kNone, "swap", "pages that the host had swapped out",
     "host: memory.low for the VM's cgroup; sysctl vm.page-cluster=0 where few of the pages beside "
     "them are needed",
     "other memory of the host is swapped out"},
    {kNone, "ksm", "pages that KSM took from the guest, to compare or merge them",
     "QEMU: -machine mem-merge=off; host: echo 2 > /sys/kernel/mm/ksm/run",
     "equal pages take memory once each"},
    {kWaits, "cpus", "other threads on the vCPUs' CPUs",
     "a CPU for each vCPU: taskset -cp CPU TID, others off it by an isolated cpuset "
     "(cpuset.cpus.partition)",
     "the other threads need other CPUs"},
    {kWaits, "quota", "a CPU quota", "echo max > CGROUP/cpu.max",
     "other cgroups on these CPUs get less"},
    {kWaits, "interrupts", "interrupts of the host on the vCPUs' CPUs",
     "echo OTHER-CPUS > /proc/irq/NUMBER/smp_affinity_list", "the other CPUs serve them"},
    {kNone, "iothread", "a disk's requests that wait for a thread of QEMU",
     "QEMU: -object iothread,id=io0 -device virtio-blk-pci,drive=ID,iothread=io0",
     "a thread more, which needs a CPU"},
    {kPolling, "polling", "the way to sleep and back in short halts", "",
     "CPU time of the host, in which the vCPU polls"},
    {kRuns, "ticks", "an interrupt line that the main loop sets and never raises",
     "QEMU: -machine hpet=off; where the interrupt controllers are QEMU's: kernel-irqchip=on",
     "the guest needs a driver of its local APIC's timer"},
    {kBound, "timer-line", "a timer's interrupt line that the main loop raises",
     "guest: timers of its local APIC; QEMU: -machine hpet=off,kernel-irqchip=on",
     "the other timer takes CPU time too"},
    {kPolls, "halt-polls", "polls in halts", "echo 0 > /sys/module/kvm/parameters/halt_poll_ns",
     "a halt that a poll ended takes a sleep and a wake-up"},
    {kBound, "iothread-polls", "IOThreads, which may poll",
     "QEMU: -object iothread,id=ID,poll-max-ns=0", "a request waits for the thread's wake-up"},
    {kBound, "wakeups", "timers that wake idle vCPUs",
     "guest: no ticks while it is idle (nohz=on), fewer timers of its programs", ""},
    {kNone, "timers", "timers that the guest sets",
     "guest: fewer timers (nohz=on, nohz_full=CPUS, a kernel with a lower CONFIG_HZ)", ""},
    {kNone, "apic", "the local APIC's registers",
     "host: kvm_intel enable_apicv=1, kvm_amd avic=1; guest: x2APIC", ""},
    {kNone, "x2apic", "the local APIC's registers, in x2APIC mode",
     "host: kvm_intel enable_apicv=1, and enable_ipiv=1 for 0x830; kvm_amd avic=1; each as far as "
     "the CPU can do it",
     ""},
    {kNone, "cpuid", "CPUID", "guest: ask once and keep the answer", ""},
}};

struct Range {
  std::uint64_t first = 0, last = 0;
  [[nodiscard]] bool holds(std::uint64_t value) const {
    return last != 0 && first <= value && value <= last;
  }
};
// Recognises a device by the beginning of a region's name, or by ports or addresses if no event
// names it.
struct DeviceRule {
  RemedyId change;
  std::array<std::string_view, 3> names;
  std::array<Range, 4> ports{};
  Range memory{};
};
constexpr DeviceRule kDevices[] = {
    {RemedyId::kDebugPort, {"isa-debugcon"}, {{{0x402, 0x402}, {0xe9, 0xe9}}}},
    {RemedyId::kSerial,
     {"serial", "pl011"},
     {{{0x3f8, 0x3ff}, {0x2f8, 0x2ff}, {0x3e8, 0x3ef}, {0x2e8, 0x2ef}}}},
    {RemedyId::kRtc, {"rtc", "pl031", "goldfish_rtc"}, {{{0x70, 0x71}}}},
    {RemedyId::kHpet, {"hpet"}, {}, {0xfed00000, 0xfed003ff}},
    {RemedyId::kPmTimer, {"acpi-tmr"}, {{{0x608, 0x60b}}}},
    {RemedyId::kPit, {"pit"}, {{{0x40, 0x43}}}},
    {RemedyId::kIde, {"ide"}, {{{0x1f0, 0x1f7}, {0x170, 0x177}, {0x3f6, 0x3f6}, {0x376, 0x376}}}},
    {RemedyId::kVga,
     {"vga", "cirrus", "bochs-"},
     {{{0x3b4, 0x3bb}, {0x3c0, 0x3da}}},
     {0xa0000, 0xbffff}},
    {RemedyId::kPs2, {"i8042"}, {{{0x60, 0x60}, {0x64, 0x64}}}},
    {RemedyId::kNotify, {"virtio-pci-notify"}},
    {RemedyId::kIrqchip,
     {"pic", "ioapic", "apic"},
     {{{0x20, 0x21}, {0xa0, 0xa1}}},
     {0xfec00000, 0xfeefffff}},
};

constexpr std::uint64_t kApicBase = 0xfee00000, kApicEnd = 0xfee00fff, kApicInitialCount = 0x380;
constexpr std::uint64_t kMsrTscDeadline = 0x6e0, kMsrX2apic = 0x800, kMsrX2apicEnd = 0x83f,
                        kMsrInitialCount = 0x838;

}  // namespace

const Remedy& remedy_of(RemedyId id) { return kTable[static_cast<std::size_t>(id)]; }

std::string_view assumption_of(AdviceModel model) {
  constexpr std::string_view kAssumptions[] = {
      "the guest does without these accesses, at most a tenth of their time is the host's own work "
      "that stays, and between two of them the guest did nothing else for at most four fifths of "
      "their time",
      "an exit stays for each row of accesses without another exit between them, and at most a "
      "tenth of the time is the host's own work",
      "a fault stays for each 2 MiB, as long as the first one was or shorter",
      "the vCPU runs when it is ready; at most a tenth of the waiting stays, and the exits in "
      "which it was switched out may go too",
      "the vCPU polls as the replay of --halt does, for both ways in which kernels shrink the "
      "interval",
      "the main loop does nothing else in the runs in which it sets the line, and at most a tenth "
      "of their time stays",
      "a poll after which the thread slept all the same saves at least nine tenths of its time, "
      "one that ended a halt at most all of it",
      "what takes its place took no CPU time: the gain is at most this, and may be far less",
      ""};
  return kAssumptions[static_cast<std::size_t>(model)];
}

std::string change_for_vmm(const std::string& change, std::string_view vmm) {
  if (vmm == "QEMU") return change;
  std::string rest;
  for (const std::string_view one : split(change, ';')) {
    const std::string_view part = trimmed(one);
    if (!part.starts_with("QEMU: ")) rest += fmt::format("{}{}", rest.empty() ? "" : "; ", part);
  }
  return rest.empty() ? "known for QEMU only, and nothing says that this is QEMU" : rest;
}

RemedyId remedy_of_device(std::string_view device) {
  for (const DeviceRule& rule : kDevices) {
    if (std::ranges::any_of(rule.names, [device](std::string_view name) {
          return !name.empty() && device.starts_with(name);
        }))
      return rule.change;
  }
  return RemedyId::kNone;
}

RemedyId remedy_of_address(const KvmDetail& detail, bool to_user) {
  const bool port = detail.kind == DetailKind::kPort;
  if (!port && detail.kind != DetailKind::kMmio) return RemedyId::kNone;
  for (const DeviceRule& rule : kDevices) {
    if (rule.change == RemedyId::kIrqchip && !to_user) continue;
    // A guest reads the debug port once, to detect it.
    if (rule.change == RemedyId::kDebugPort && detail.access == Access::kRead) continue;
    if (port ? std::ranges::any_of(rule.ports,
                                   [&](const Range& range) { return range.holds(detail.value); })
             : rule.memory.holds(detail.value))
      return rule.change;
  }
  return RemedyId::kNone;
}

// A larger page, once mapped, saves the faults on pages that the host has, makes or copies (causes
// up to kCopy).
RemedyId remedy_of_fault(const PageFault& fault, std::string_view remover) {
  using enum FaultCause;
  const FaultCause cause = fault.why.cause;
  // If the fault is not the page's first, user space may only have removed a write protection.
  if (cause == kUserSpace) return fault.first == true ? RemedyId::kServed : RemedyId::kNone;
  if (cause == kFile) return RemedyId::kFilePages;
  if (cause == kSwap) return RemedyId::kSwapped;
  if (cause == kRemoved && remover == "ksmd" && fault.why.how == FaultHow::kNotKnown)
    return RemedyId::kMerged;
  return cause <= kCopy ? RemedyId::kPages : RemedyId::kNone;
}

RemedyId remedy_of_kernel_exit(const ExitSpan& exit) {
  const KvmDetail& detail = exit.detail;
  const bool apic =
      detail.kind == DetailKind::kMmio && kApicBase <= detail.value && detail.value <= kApicEnd;
  const bool msr = detail.kind == DetailKind::kMsr && detail.access == Access::kWrite;
  if ((msr && (detail.value == kMsrTscDeadline || detail.value == kMsrInitialCount)) ||
      (apic && detail.value - kApicBase == kApicInitialCount))
    return RemedyId::kTimers;
  if (apic) return RemedyId::kApic;
  if (msr && kMsrX2apic <= detail.value && detail.value <= kMsrX2apicEnd) return RemedyId::kX2apic;
  if (detail.kind == DetailKind::kCpuid) return RemedyId::kCpuid;
  return RemedyId::kNone;
}

}  // namespace trapline
