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
       "CR_ACCESS, cr0_sel_write, read_cr0, write_cr0, write_cr3, write_cr4"},
      {"debug-register", "the guest accessed a debug register",
       "DR_ACCESS, read_dr0, read_dr1, read_dr2, read_dr3, read_dr6, read_dr7, write_dr0, "
       "write_dr1, write_dr2, write_dr3, write_dr6, write_dr7"},
      {"exception", "the guest caused an exception, or a host's NMI came", "EXCEPTION_NMI"},
      {"apic", "the guest accessed its local interrupt controller",
       "APIC_ACCESS, APIC_WRITE, EOI_INDUCED"},
      {"descriptor-table", "the guest accessed the registers of its GDT, IDT, LDT or TSS",
       "GDTR_IDTR, LDTR_TR"},
      {"cache", "the guest emptied the CPU's caches", "WBINVD, wbinvd"},
      {"xsetbv", "the guest chose which registers it saves", "XSETBV, xsetbv"},
      {"rsm", "the guest's firmware left system management mode", "RSM, rsm"}};
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
