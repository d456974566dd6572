#include "merge/pass/naming.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/kernel_tracker.h"
#include "merge/model/kernel_events.h"

namespace trapline {
namespace {

// Formats a system register that has no name, as an assembler does.
std::string system_register(std::uint64_t packed) {
  return fmt::format("S{}_{}_C{}_C{}_{}", (packed >> 14) & 3, (packed >> 11) & 7,
                     (packed >> 7) & 15, (packed >> 3) & 15, packed & 7);
}

}  // namespace

std::string detail_text(const KvmDetail& detail) {
  constexpr std::string_view kKinds[] = {"port", "mmio",  "msr",       "sysreg",
                                         "cr",   "cpuid", "hypercall", "page-fault"};
  constexpr std::string_view kAccesses[] = {"", " read", " write"};
  const std::string_view access = kAccesses[static_cast<std::size_t>(detail.access)];
  if (detail.kind == DetailKind::kNone) return "-";
  if (detail.kind == DetailKind::kSysReg)
    return fmt::format("sysreg {}{}", system_register(detail.value), access);
  if (detail.kind == DetailKind::kControlRegister)
    return fmt::format("cr{}{}", detail.value, access);
  return fmt::format("{} {:#x}{}", kKinds[static_cast<std::size_t>(detail.kind)], detail.value,
                     access);
}

std::string_view key_of(FaultCause cause) {
  constexpr std::string_view kKeys[] = {
      "not-known",   "first-touch", "was-there",       "copy",  "file",        "swap",      "disk",
      "userfaultfd", "removed",     "write-protected", "again", "access-flag", "no-execute"};
  return kKeys[static_cast<std::size_t>(cause)];
}

std::string how_text(const PageFault::Why& why) {
  // The values of MADV_* in asm-generic/mman-common.h.
  constexpr std::pair<std::int32_t, std::string_view> kAdvice[] = {
      {4, "DONTNEED"},         {8, "FREE"},           {9, "REMOVE"},
      {12, "MERGEABLE"},       {14, "HUGEPAGE"},      {20, "COLD"},
      {21, "PAGEOUT"},         {22, "POPULATE_READ"}, {23, "POPULATE_WRITE"},
      {24, "DONTNEED_LOCKED"}, {25, "COLLAPSE"}};
  constexpr std::string_view kTexts[] = {"",
                                         "",
                                         "collapse of pages",
                                         "reclaim",
                                         "compaction",
                                         "copy on write",
                                         "memory slots",
                                         "dirty ring",
                                         "dirty bitmap"};
  if (why.how != FaultHow::kMadvise) return std::string(kTexts[static_cast<std::size_t>(why.how)]);
  const auto* const advice =
      std::ranges::find(kAdvice, why.number, [](auto& of) { return of.first; });
  return advice != std::end(kAdvice) ? fmt::format("madvise(MADV_{})", advice->second)
                                     : fmt::format("madvise({})", why.number);
}

std::string_view nested_text(NestedLevel level) {
  constexpr std::string_view kTexts[] = {"guest", "guest enters nested guest", "nested guest",
                                         "nested guest, passed on"};
  return kTexts[static_cast<std::size_t>(level)];
}

std::string host_comm(const Timeline& timeline, ThreadId thread) {
  std::string name;
  for (std::size_t i = 0; i < timeline.size() && name.empty(); ++i) {
    const Source& source = timeline.source(i);
    if (source.info().role == Role::kHostKernel) name = source.comm(thread);
  }
  return name;
}

std::string name_or_dash(const Names& names, NameId name) {
  return name == kNoName ? "-" : printable(names[name]);
}

std::vector<VcpuThread> vcpu_threads(const std::vector<VcpuTotalsOf>& vcpus,
                                     const Timeline& timeline) {
  return vcpu_threads(vcpus, [&timeline](std::size_t source, ThreadId thread) {
    return timeline.source(source).comm(thread);
  });
}

std::vector<VcpuThread> vcpu_threads(const std::vector<VcpuTotalsOf>& vcpus, const CommOf& comm) {
  std::vector<VcpuThread> threads;
  for (const auto& [thread, totals] : vcpus) {
    const std::int32_t vcpu =
        totals.vcpu != kNoVcpu ? totals.vcpu : vcpu_of_name(comm(totals.source, thread));
    threads.push_back({thread, vcpu});
  }
  return threads;
}

VcpuNames::VcpuNames(const std::vector<VcpuThread>& threads, const std::vector<Vm>& vms) {
  for (std::size_t i = 0; i < threads.size(); ++i) {
    several_vms_ |= vms[i].id() != vms[0].id();
    entries_[threads[i].thread] = {threads[i].vcpu, vms[i]};
  }
}

const VcpuNames::Entry* VcpuNames::find(ThreadId thread) const {
  const auto found = entries_.find(thread);
  return found == entries_.end() ? nullptr : &found->second;
}

std::string VcpuNames::vm(ThreadId thread) const {
  const Entry* entry = find(thread);
  return entry == nullptr ? "?" : entry->vm.text();
}

std::string VcpuNames::vm_id(ThreadId thread) const {
  const Entry* entry = find(thread);
  return entry == nullptr ? "?" : entry->vm.id();
}

std::string VcpuNames::vm_name(ThreadId thread) const {
  const Entry* entry = find(thread);
  return entry == nullptr ? "" : entry->vm.given;
}

std::int32_t VcpuNames::number(ThreadId thread) const {
  const Entry* entry = find(thread);
  return entry == nullptr ? kNoVcpu : entry->vcpu;
}

std::string VcpuNames::vcpu(ThreadId thread, bool with_vm) const {
  const std::int32_t vcpu = number(thread);
  const std::string number =
      vcpu == kNoVcpu ? "tid " + tid_text(thread) : fmt::format("vCPU {}", vcpu);
  return with_vm && several_vms_ ? fmt::format("VM {} {}", vm(thread), number) : number;
}

bool VcpuNames::fits(ThreadId thread, const VcpuFilter& filter) const {
  const Entry* entry = find(thread);
  return filter.empty() || (entry != nullptr && filter.holds(entry->vm, entry->vcpu));
}

namespace {

// Positions of the fields in a packed culprit. Every NameId (Names::kMost) fits into 16 bits.
constexpr unsigned kKindAt = 56, kRootAt = 52, kMissingAt = 48, kHandlerAt = 32;
constexpr std::uint64_t kFourBits = 0xf;

bool has_number(CulpritKind kind) {
  return kind == CulpritKind::kInterrupt || kind == CulpritKind::kSoftirq;
}

// Returns ", which waited for X", where X is what a waking thread itself waited for. `who`: the
// thread that it waited for, or that held its futex; empty if not known.
std::string root_text(CulpritKind root, const std::string& who) {
  const auto is = [root](auto... kinds) { return ((root == kinds) || ...); };
  const std::string waited = ", which waited for ";
  if (is(CulpritKind::kTimer)) return waited + "a timer";
  if (is(CulpritKind::kInterrupt)) return waited + "a device's interrupt";
  if (is(CulpritKind::kSoftirq)) return waited + "a softirq";
  if (is(CulpritKind::kDisk)) return waited + "the disk";
  if (is(CulpritKind::kIpi, CulpritKind::kThread))
    return waited + (who.empty() ? "another thread" : who);
  if (is(CulpritKind::kFutex, CulpritKind::kLock))
    return waited + (who.empty() ? "a futex" : "the futex of " + who);
  return {};
}

std::string unknown_text(Missing missing) {
  static const std::string kTexts[] = {
      "",
      fmt::format(" (before the CPU's first {})", events::sched_switch.full_name),
      fmt::format(" (record {})", events::sched_waking.full_name),
      fmt::format(" (no {} was seen)", events::sched_migrate_task.full_name),
      fmt::format(" interrupt (record {}, {}, {}, {})", events::irq_handler_entry.full_name,
                  events::irq_handler_exit.full_name, events::hrtimer_expire_entry.full_name,
                  events::hrtimer_expire_exit.full_name),
      " (events were lost)",
      " (more than is kept)",
      fmt::format(" (only some threads' {} are recorded)", events::sched_switch.full_name),
      " (the text has no flags; give the binary recording)",
      " (a CPU of the host was not recorded)"};
  return "unknown" + kTexts[static_cast<std::size_t>(missing)];
}

}  // namespace

Naming::Naming(const Timeline& from, const Pipeline& of, const Processes& known,
               const std::vector<VcpuTotalsOf>& all)
    : timeline(from),
      pipeline(of),
      names(of.names()),
      processes(known),
      threads(vcpu_threads(all,
                           [&](std::size_t source, ThreadId thread) {
                             // A source knows only the last name of an id.
                             return of.now(tid_of(thread)) == thread
                                        ? from.source(source).comm(thread)
                                        : std::string(of.threads().name_at(thread, of.end()));
                           })),
      vms(find_vms(threads, known)),
      vcpus(threads, vms) {}

std::string Naming::comm(ThreadId thread) const {
  const WaitTracker* waits = pipeline.waits();
  if (waits != nullptr && !waits->names()[thread].empty()) return printable(waits->names()[thread]);
  // A source knows only the last name of an id.
  if (waits != nullptr && waits->names().is_of_several(thread)) return {};
  const bool is_last = pipeline.now(tid_of(thread)) == thread;
  const std::string comm = is_last ? host_comm(timeline, thread) : std::string();
  if (!comm.empty()) return printable(comm);
  return printable(pipeline.threads().name_at(thread, pipeline.end()));
}

// Returns whether the VMM reported accesses to its devices while a vCPU was out of the guest.
bool Naming::tells_of_devices(const Vmm& vmm) const {
  const std::vector<VmmEventCount>& counts = pipeline.exits().vmm_events();
  for (std::size_t i = Names::kOther + 1; i < counts.size(); ++i) {
    if (counts[i].in_exits == 0) continue;
    const VmmEventMeaning* meaning = vmm.event(names[static_cast<NameId>(i)]);
    if (meaning != nullptr &&
        (meaning->kind == VmmEventKind::kRegionRead || meaning->kind == VmmEventKind::kRegionWrite))
      return true;
  }
  return false;
}

std::string_view Naming::vmm(ThreadId vcpu) const {
  static constexpr std::string_view kKnown = "QEMU", kOther = "the VMM";
  // All other VMMs give their vCPU threads names of their own; QEMU's may be "CPU 0/KVM".
  const std::string thread = comm(vcpu);
  for (const Vmm& vmm : vmms())
    if (vmm.vcpu_of_thread(thread) != kNoVcpu) return vmm.name == kKnown ? kKnown : kOther;
  // Debian's and Red Hat's processes are named kvm and qemu-kvm; a wrapped program's name begins
  // with a dot.
  const std::string process = comm(processes.of(vcpu, vcpu));
  const std::string_view name = std::string_view(process).substr(process.starts_with('.') ? 1 : 0);
  if (name.starts_with("qemu") || name.starts_with("kvm") || thread.starts_with("CPU "))
    return kKnown;
  // QEMU's process may have another name; then its events show that it is QEMU. With several VMs,
  // it is not known which VM wrote the events.
  if (is_vmm_process(process) || vcpus.several_vms()) return kOther;
  const bool tells = std::ranges::any_of(
      vmms(), [this](const Vmm& vmm) { return vmm.name == kKnown && tells_of_devices(vmm); });
  return tells || pipeline.exits().model().from_vmm ? kKnown : kOther;
}

std::uint64_t pack(const Culprit& culprit) {
  const std::uint32_t low =
      has_number(culprit.kind) ? culprit.number : static_cast<std::uint32_t>(culprit.thread);
  return std::uint64_t{static_cast<std::uint8_t>(culprit.kind)} << kKindAt |
         (std::uint64_t{static_cast<std::uint8_t>(culprit.root)} & kFourBits) << kRootAt |
         (std::uint64_t{static_cast<std::uint8_t>(culprit.missing)} & kFourBits) << kMissingAt |
         std::uint64_t{culprit.handler & 0xffff} << kHandlerAt | low;
}

Culprit unpack_culprit(std::uint64_t word) {
  Culprit culprit;
  culprit.kind = static_cast<CulpritKind>(word >> kKindAt);
  culprit.root = static_cast<CulpritKind>(word >> kRootAt & kFourBits);
  culprit.missing = static_cast<Missing>(word >> kMissingAt & kFourBits);
  culprit.handler = static_cast<NameId>(word >> kHandlerAt & 0xffff);
  const auto low = static_cast<std::uint32_t>(word);
  if (has_number(culprit.kind)) {
    culprit.number = low;
  } else {
    culprit.thread = ThreadId{static_cast<std::int32_t>(low)};
  }
  return culprit;
}

std::string Naming::vm(ThreadId thread) const {
  if (is_vcpu(thread)) return vcpus.vm_id(thread);
  if (processes.is_of_several(unnamed(thread))) return {};
  const ThreadId process = processes.of(unnamed(thread), ThreadId{});
  const auto vm = std::ranges::find_if(
      vms, [process](const Vm& of) { return !of.inferred && of.process == process; });
  return vm != vms.end() ? vm->id() : std::string();
}

std::string Naming::text(ThreadId thread) const {
  if (is_vcpu(thread)) return vcpus.vcpu(thread, true);
  const std::string name = comm(thread), tid = tid_text(thread);
  const std::string text =
      name.empty() ? fmt::format("tid {}", tid) : fmt::format("{} (tid {})", name, tid);
  return vm(thread).empty() ? text : "QEMU thread " + text;
}

std::string Naming::text(const PageFault::Why& why) const {
  constexpr std::string_view kTexts[] = {"not known",
                                         "first touch",
                                         "mapped for the first time",
                                         "copy on write",
                                         "read from a file",
                                         "swapped in",
                                         "read from a disk: file or swap",
                                         "served",
                                         "mapping removed",
                                         "write protection",
                                         "faulted again",
                                         "access flag cleared",
                                         "no right to execute"};
  std::string text(kTexts[static_cast<std::size_t>(why.cause)]);
  if (why.by != ThreadId{}) text += " by " + this->text(why.by);
  const std::string how = how_text(why);
  return how.empty() ? text : fmt::format("{}: {}", text, how);
}

std::string Naming::text(const Culprit& culprit, ThreadId root) const {
  // By kind: the text, or its beginning before the name of a thread or a number.
  constexpr std::string_view kTexts[] = {"",
                                         "",
                                         "idle",
                                         "idle (why is not recorded)",
                                         "not allowed to run",
                                         "not allowed to run: CPU quota",
                                         "timer",
                                         "interrupt ",
                                         "disk",
                                         "IPI from ",
                                         "futex of ",
                                         "lock, held by ",
                                         "",
                                         "page (userfaultfd) from ",
                                         "collapse of pages by "};
  const CulpritKind kind = culprit.kind;
  if (kind == CulpritKind::kUnknown) return unknown_text(culprit.missing);
  if (kind == CulpritKind::kSoftirq) return softirq_text(culprit.number);
  std::string text(kTexts[static_cast<std::size_t>(kind)]);
  if (kind == CulpritKind::kInterrupt) return text + std::to_string(culprit.number);
  if (!culprit.is_thread()) return text;
  text += kind == CulpritKind::kIpi ? vcpus.vcpu(culprit.thread, true) : this->text(culprit.thread);
  if (culprit.handler != kNoName)
    text += fmt::format(" (in {})", printable(names[culprit.handler]));
  return text + root_text(culprit.root, root == ThreadId{} ? std::string() : this->text(root));
}

std::string Naming::ran_instead(const Culprit& culprit) const {
  if (culprit.kind == CulpritKind::kIdle) return "its CPU was idle and had yet to take it up";
  if (culprit.kind == CulpritKind::kIdleOther) return "its CPU was idle, why is not recorded";
  const std::string who = text(culprit);
  const bool lacks_cpu =
      culprit.missing == Missing::kCpu || culprit.missing == Missing::kMigrations;
  if (culprit.kind == CulpritKind::kUnknown)
    return (lacks_cpu ? "where it was is " : "its CPU ran something ") + who;
  const bool could_not =
      culprit.kind == CulpritKind::kNotAllowed || culprit.kind == CulpritKind::kQuota;
  return could_not ? "it was " + who : who + " ran instead";
}

std::string Naming::slept_for(const Culprit& culprit, ThreadId root) const {
  const auto is = [&](auto... kinds) { return ((culprit.kind == kinds) || ...); };
  const std::string who = text(culprit, root);
  if (is(CulpritKind::kUnknown))
    return (culprit.missing == Missing::kContext ? "until it was woken by an "
                                                 : "until it was woken; by whom is ") +
           who;
  if (is(CulpritKind::kLock, CulpritKind::kPage, CulpritKind::kCollapse))
    return "waiting for a " + who;
  return (is(CulpritKind::kFutex) ? "waiting for the " : "until woken by ") + who;
}

std::string Naming::step(Part part, const Culprit& culprit, ThreadId root) const {
  const std::string who = text(culprit, root);
  const bool ran = culprit.kind == CulpritKind::kThread ||
                   culprit.kind == CulpritKind::kInterrupt || culprit.kind == CulpritKind::kSoftirq;
  if (part == Part::kPreempted) return (ran ? "preempted by " : "preempted, ") + who;
  const bool waited = culprit.kind == CulpritKind::kLock || culprit.kind == CulpritKind::kFutex ||
                      culprit.kind == CulpritKind::kPage || culprit.kind == CulpritKind::kCollapse;
  const std::string state(kPartNames[static_cast<std::size_t>(part)]);
  return state + (waited ? ", waiting for " : ", until ") + who;
}

}  // namespace trapline
