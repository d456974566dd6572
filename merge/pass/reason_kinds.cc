#include "merge/pass/reason_kinds.h"

#include "backend_ftrace/base/text.h"

namespace trapline {
std::span<const ReasonKind> reason_kinds() {
  static constexpr ReasonKind kKinds[] = {
      {"io", "the guest accessed a port", "IO_INSTRUCTION, io"},
      {"mmio", "the guest accessed a device's memory", "EPT_MISCONFIG"},
      {"page-fault", "a page is not mapped yet",
       "EPT_VIOLATION, IABT_LOW, EXC_INST_GUEST_PAGE_FAULT"},
      {"page-fault", "a page is not mapped yet, or the guest accessed a device's memory",
       "npf, DABT_LOW, EXC_LOAD_GUEST_PAGE_FAULT, EXC_STORE_GUEST_PAGE_FAULT"},
      {"halt", "the vCPU is idle and waits for an interrupt", "HLT, hlt, idle-hlt, WFx"},
      {"interrupt", "an interrupt came for the host", "EXTERNAL_INTERRUPT, interrupt, IRQ"},
      {"msr", "the guest accessed a register of the CPU", "MSR_READ, MSR_WRITE, msr, SYS64"},
      {"cpuid", "the guest asked which CPU it has", "CPUID, cpuid"},
      {"hypercall", "the guest called its hypervisor", "VMCALL, vmmcall, HVC64"},
      {"pause", "the guest spins on a lock", "PAUSE_INSTRUCTION, pause"},
      {"timer", "the guest's own timer ran out", "PREEMPTION_TIMER"},
      {"window", "the guest can take an interrupt now", "INTERRUPT_WINDOW, vintr"},
      {"control-register", "the guest accessed CR0, CR3 or CR4",
       "CR_ACCESS, cr0_sel_write, read_cr0, write_cr0, write_cr3, write_cr4"}};
  return kKinds;
}

const ReasonKind* kind_of(std::string_view reason) {
  const std::string wanted = lowered(reason);
  for (const ReasonKind& kind : reason_kinds())
    for (const std::string_view one : split(kind.reasons, ','))
      if (lowered(trimmed(one)) == wanted) return &kind;
  return nullptr;
}

}  // namespace trapline
