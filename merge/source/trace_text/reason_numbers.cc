#include "merge/source/trace_text/reason_numbers.h"

#include <algorithm>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "merge/model/event.h"
#include "merge/model/numbered_names.h"

namespace trapline::trace_text {
namespace {

constexpr NumberedNames kVmx[] = {
    {0, "EXCEPTION_NMI,EXTERNAL_INTERRUPT,TRIPLE_FAULT,INIT_SIGNAL,SIPI_SIGNAL,,,INTERRUPT_WINDOW"},
    {8, "NMI_WINDOW,TASK_SWITCH,CPUID,,HLT,INVD,INVLPG,RDPMC,RDTSC,,VMCALL,VMCLEAR,VMLAUNCH"},
    {21, "VMPTRLD,VMPTRST,VMREAD,VMRESUME,VMWRITE,VMOFF,VMON,CR_ACCESS,DR_ACCESS,IO_INSTRUCTION"},
    {31, "MSR_READ,MSR_WRITE,INVALID_STATE,MSR_LOAD_FAIL,,MWAIT_INSTRUCTION,MONITOR_TRAP_FLAG"},
    {39, "MONITOR_INSTRUCTION,PAUSE_INSTRUCTION,MCE_DURING_VMENTRY,,TPR_BELOW_THRESHOLD"},
    {44, "APIC_ACCESS,EOI_INDUCED,GDTR_IDTR,LDTR_TR,EPT_VIOLATION,EPT_MISCONFIG,INVEPT,RDTSCP"},
    {52, "PREEMPTION_TIMER,INVVPID,WBINVD,XSETBV,APIC_WRITE,RDRAND,INVPCID,VMFUNC,ENCLS,RDSEED"},
    {62, "PML_FULL,XSAVES,XRSTORS,,,UMWAIT,TPAUSE"},
    {74, "BUS_LOCK,NOTIFY,,TDCALL"},
    {84, "MSR_READ_IMM,MSR_WRITE_IMM"},
};
constexpr NumberedNames kSvm[] = {
    {0x0, "read_cr0,,read_cr2,read_cr3,read_cr4,,,,read_cr8"},
    {0x10, "write_cr0,,write_cr2,write_cr3,write_cr4,,,,write_cr8"},
    {0x20, "read_dr0,read_dr1,read_dr2,read_dr3,read_dr4,read_dr5,read_dr6,read_dr7"},
    {0x30, "write_dr0,write_dr1,write_dr2,write_dr3,write_dr4,write_dr5,write_dr6,write_dr7"},
    {0x40, "DE excp,DB excp,,BP excp,OF excp,BR excp,UD excp,NM excp,DF excp,,TS excp,NP excp"},
    {0x4c, "SS excp,GP excp,PF excp,,MF excp,AC excp,MC excp,XF excp"},
    {0x60, "interrupt,nmi,smi,init,vintr,cr0_sel_write,read_idtr,read_gdtr,read_ldtr,read_rt"},
    {0x6a, "write_idtr,write_gdtr,write_ldtr,write_rt,rdtsc,rdpmc,pushf,popf,cpuid,rsm,iret,swint"},
    {0x76, "invd,pause,hlt,invlpg,invlpga,io,msr,task_switch,ferr_freeze,shutdown,vmrun,hypercall"},
    {0x82, "vmload,vmsave,stgi,clgi,skinit,rdtscp,icebp,wbinvd,monitor,mwait,,xsetbv"},
    {0x8f, "write_efer_trap,write_cr0_trap,,,,write_cr4_trap,,,,write_cr8_trap"},
    {0xa2, "invpcid,,,buslock,idle-halt"},
    {0x400, "npf,avic_incomplete_ipi,avic_unaccelerated_access,vmgexit"},
    {0x80000001, "vmgexit_mmio_read,vmgexit_mmio_write,vmgexit_nmi_complete,vmgexit_ap_hlt_loop"},
    {0x80000005, "vmgexit_ap_jump_table"},
    {0x80000010, "vmgexit_page_state_change,vmgexit_guest_request,vmgexit_ext_guest_request"},
    {0x80000013, "vmgexit_ap_creation"},
    {0x8000fffd, "vmgexit_hypervisor_feature"},
    {0xffffffff, "invalid_guest_state"},
};
constexpr NumberedNames kArm64Ret[] = {
    {0x0, "IRQ,SERROR,TRAP"},
    {0xbadca11, "HYP_GONE"},
};
constexpr NumberedNames kArm64Class[] = {
    {0x0, "UNKNOWN,WFx,,CP15_32,CP15_64,CP14_MR,CP14_LS,FP_ASIMD,CP10_ID,PAC,,,CP14_64"},
    {0x15, "SVC64,HVC64,SMC64,SYS64,SVE,ERET"},
    {0x1f, "IMP_DEF,IABT_LOW,IABT_CUR,PC_ALIGN,,DABT_LOW,DABT_CUR,SP_ALIGN,,FP_EXC32,,,,FP_EXC64"},
    {0x2f, "SERROR,BREAKPT_LOW,BREAKPT_CUR,SOFTSTP_LOW,SOFTSTP_CUR,WATCHPT_LOW,WATCHPT_CUR"},
    {0x38, "BKPT32,,VECTOR32,,BRK64"},
};
// Other names for reasons: those of older kernels, and those of trace-cmd's plugin that are not
// just the kernel's names in capitals.
constexpr NumberedNames kOtherVmx[] = {
    {7, "PENDING_INTERRUPT"},
};
constexpr NumberedNames kOtherSvm[] = {
    {0x40, "EXIT_EXCP_DE,EXIT_EXCP_DB,,EXIT_EXCP_BP,EXIT_EXCP_OF,EXIT_EXCP_BR,EXIT_EXCP_UD"},
    {0x47, "EXIT_EXCP_NM,EXIT_EXCP_DF,,EXIT_EXCP_TS,EXIT_EXCP_NP,EXIT_EXCP_SS,EXIT_EXCP_GP"},
    {0x4e, "EXIT_EXCP_PF,,EXIT_EXCP_MF,EXIT_EXCP_AC,EXIT_EXCP_MC,EXIT_EXCP_XF"},
    {0x60, "EXIT_INTR"},
    {0x66, "EXIT_IDTR_READ,EXIT_GDTR_READ,EXIT_LDTR_READ,EXIT_TR_READ,EXIT_IDTR_WRITE"},
    {0x6b, "EXIT_GDTR_WRITE,EXIT_LDTR_WRITE,EXIT_TR_WRITE"},
    {0x7b, "EXIT_IOIO"},
    {0x81, "EXIT_VMMCALL"},
    {0x81, "vmmcall"},
    {0x8c, "EXIT_MWAIT_COND"},
    {0xffffffff, "EXIT_ERR"},
};

using Numbers = std::unordered_map<std::string, NumberedReason>;

Numbers x86_numbers() {
  Numbers numbers;
  const auto add = [&numbers](std::span<const NumberedNames> table, std::uint32_t isa) {
    for_each_name(table, [&](std::uint32_t number, std::string_view name) {
      numbers.emplace(name, NumberedReason{isa, number});
    });
  };
  add(kVmx, kIsaVmx);
  add(kOtherVmx, kIsaVmx);
  add(kSvm, kIsaSvm);
  for_each_name(kSvm, [&](std::uint32_t number, std::string_view name) {
    // trace-cmd's plugin spells SVM's names in capitals, after "EXIT_".
    std::string capitals = "EXIT_";
    for (const char c : name)
      capitals += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    numbers.emplace(std::move(capitals), NumberedReason{kIsaSvm, number});
  });
  add(kOtherSvm, kIsaSvm);
  return numbers;
}

const Numbers& numbered() {
  static const Numbers numbers = x86_numbers();
  return numbers;
}

kernel_events::SymbolNames names_of(std::span<const NumberedNames> table) {
  kernel_events::SymbolNames names;
  for_each_name(table,
                [&](std::uint32_t number, std::string_view name) { names.emplace(number, name); });
  return names;
}

}  // namespace

std::optional<NumberedReason> x86_reason(std::string_view name) {
  const auto found = numbered().find(std::string(name));
  if (found == numbered().end()) return std::nullopt;
  return found->second;
}

std::optional<NumberedReason> x86_reason_beginning(std::string_view name) {
  std::optional<NumberedReason> only;
  for (const auto& [full, reason] : numbered()) {
    if (name.empty() || !full.starts_with(name)) continue;
    if (only && (only->isa != reason.isa || only->reason != reason.reason)) return std::nullopt;
    only = reason;
  }
  return only;
}

std::optional<std::uint32_t> arm64_reason(std::string_view name) {
  std::optional<std::uint32_t> found;
  for_each_name(kArm64Ret, [&](std::uint32_t number, std::string_view known) {
    if (known == name) found = number;
  });
  return found;
}

kernel_events::ReasonNames kernels_reason_names() {
  kernel_events::SymbolNames userspace;
  for_each_name(kRunExits, [&](std::uint32_t number, std::string_view) {
    userspace.emplace(number, run_exit_name(number));
  });
  return {names_of(kVmx), names_of(kSvm), names_of(kArm64Ret), names_of(kArm64Class),
          std::move(userspace)};
}

}  // namespace trapline::trace_text
