#include "merge/source/trace_text/reason_numbers.h"

#include <algorithm>
#include <span>
#include <string>
#include <unordered_map>

#include "merge/model/event.h"

namespace trapline::trace_text {
namespace {

struct ReasonName {
  std::uint32_t number;
  std::string_view name;
};

constexpr ReasonName kVmx[] = {
    {0, "EXCEPTION_NMI"},
    {1, "EXTERNAL_INTERRUPT"},
    {2, "TRIPLE_FAULT"},
    {3, "INIT_SIGNAL"},
    {4, "SIPI_SIGNAL"},
    {7, "INTERRUPT_WINDOW"},
    {8, "NMI_WINDOW"},
    {9, "TASK_SWITCH"},
    {10, "CPUID"},
    {12, "HLT"},
    {13, "INVD"},
    {14, "INVLPG"},
    {15, "RDPMC"},
    {16, "RDTSC"},
    {18, "VMCALL"},
    {19, "VMCLEAR"},
    {20, "VMLAUNCH"},
    {21, "VMPTRLD"},
    {22, "VMPTRST"},
    {23, "VMREAD"},
    {24, "VMRESUME"},
    {25, "VMWRITE"},
    {26, "VMOFF"},
    {27, "VMON"},
    {28, "CR_ACCESS"},
    {29, "DR_ACCESS"},
    {30, "IO_INSTRUCTION"},
    {31, "MSR_READ"},
    {32, "MSR_WRITE"},
    {33, "INVALID_STATE"},
    {34, "MSR_LOAD_FAIL"},
    {36, "MWAIT_INSTRUCTION"},
    {37, "MONITOR_TRAP_FLAG"},
    {39, "MONITOR_INSTRUCTION"},
    {40, "PAUSE_INSTRUCTION"},
    {41, "MCE_DURING_VMENTRY"},
    {43, "TPR_BELOW_THRESHOLD"},
    {44, "APIC_ACCESS"},
    {45, "EOI_INDUCED"},
    {46, "GDTR_IDTR"},
    {47, "LDTR_TR"},
    {48, "EPT_VIOLATION"},
    {49, "EPT_MISCONFIG"},
    {50, "INVEPT"},
    {51, "RDTSCP"},
    {52, "PREEMPTION_TIMER"},
    {53, "INVVPID"},
    {54, "WBINVD"},
    {55, "XSETBV"},
    {56, "APIC_WRITE"},
    {57, "RDRAND"},
    {58, "INVPCID"},
    {59, "VMFUNC"},
    {60, "ENCLS"},
    {61, "RDSEED"},
    {62, "PML_FULL"},
    {63, "XSAVES"},
    {64, "XRSTORS"},
    {67, "UMWAIT"},
    {68, "TPAUSE"},
    {74, "BUS_LOCK"},
    {75, "NOTIFY"},
    {77, "TDCALL"},
    {84, "MSR_READ_IMM"},
    {85, "MSR_WRITE_IMM"},
};
constexpr ReasonName kSvm[] = {
    {0x00, "read_cr0"},
    {0x02, "read_cr2"},
    {0x03, "read_cr3"},
    {0x04, "read_cr4"},
    {0x08, "read_cr8"},
    {0x10, "write_cr0"},
    {0x12, "write_cr2"},
    {0x13, "write_cr3"},
    {0x14, "write_cr4"},
    {0x18, "write_cr8"},
    {0x20, "read_dr0"},
    {0x21, "read_dr1"},
    {0x22, "read_dr2"},
    {0x23, "read_dr3"},
    {0x24, "read_dr4"},
    {0x25, "read_dr5"},
    {0x26, "read_dr6"},
    {0x27, "read_dr7"},
    {0x30, "write_dr0"},
    {0x31, "write_dr1"},
    {0x32, "write_dr2"},
    {0x33, "write_dr3"},
    {0x34, "write_dr4"},
    {0x35, "write_dr5"},
    {0x36, "write_dr6"},
    {0x37, "write_dr7"},
    {0x40, "DE excp"},
    {0x41, "DB excp"},
    {0x43, "BP excp"},
    {0x44, "OF excp"},
    {0x45, "BR excp"},
    {0x46, "UD excp"},
    {0x47, "NM excp"},
    {0x48, "DF excp"},
    {0x4a, "TS excp"},
    {0x4b, "NP excp"},
    {0x4c, "SS excp"},
    {0x4d, "GP excp"},
    {0x4e, "PF excp"},
    {0x50, "MF excp"},
    {0x51, "AC excp"},
    {0x52, "MC excp"},
    {0x53, "XF excp"},
    {0x60, "interrupt"},
    {0x61, "nmi"},
    {0x62, "smi"},
    {0x63, "init"},
    {0x64, "vintr"},
    {0x65, "cr0_sel_write"},
    {0x66, "read_idtr"},
    {0x67, "read_gdtr"},
    {0x68, "read_ldtr"},
    {0x69, "read_rt"},
    {0x6a, "write_idtr"},
    {0x6b, "write_gdtr"},
    {0x6c, "write_ldtr"},
    {0x6d, "write_rt"},
    {0x6e, "rdtsc"},
    {0x6f, "rdpmc"},
    {0x70, "pushf"},
    {0x71, "popf"},
    {0x72, "cpuid"},
    {0x73, "rsm"},
    {0x74, "iret"},
    {0x75, "swint"},
    {0x76, "invd"},
    {0x77, "pause"},
    {0x78, "hlt"},
    {0x79, "invlpg"},
    {0x7a, "invlpga"},
    {0x7b, "io"},
    {0x7c, "msr"},
    {0x7d, "task_switch"},
    {0x7e, "ferr_freeze"},
    {0x7f, "shutdown"},
    {0x80, "vmrun"},
    {0x81, "hypercall"},
    {0x82, "vmload"},
    {0x83, "vmsave"},
    {0x84, "stgi"},
    {0x85, "clgi"},
    {0x86, "skinit"},
    {0x87, "rdtscp"},
    {0x88, "icebp"},
    {0x89, "wbinvd"},
    {0x8a, "monitor"},
    {0x8b, "mwait"},
    {0x8d, "xsetbv"},
    {0x8f, "write_efer_trap"},
    {0x90, "write_cr0_trap"},
    {0x94, "write_cr4_trap"},
    {0x98, "write_cr8_trap"},
    {0xa2, "invpcid"},
    {0xa5, "buslock"},
    {0xa6, "idle-halt"},
    {0x400, "npf"},
    {0x401, "avic_incomplete_ipi"},
    {0x402, "avic_unaccelerated_access"},
    {0x403, "vmgexit"},
    {0x80000001, "vmgexit_mmio_read"},
    {0x80000002, "vmgexit_mmio_write"},
    {0x80000003, "vmgexit_nmi_complete"},
    {0x80000004, "vmgexit_ap_hlt_loop"},
    {0x80000005, "vmgexit_ap_jump_table"},
    {0x80000010, "vmgexit_page_state_change"},
    {0x80000011, "vmgexit_guest_request"},
    {0x80000012, "vmgexit_ext_guest_request"},
    {0x80000013, "vmgexit_ap_creation"},
    {0x8000fffd, "vmgexit_hypervisor_feature"},
    {0xffffffff, "invalid_guest_state"},
};
constexpr ReasonName kArm64Ret[] = {
    {0, "IRQ"},
    {1, "SERROR"},
    {2, "TRAP"},
    {0xbadca11, "HYP_GONE"},
};
constexpr ReasonName kArm64Class[] = {
    {0x00, "UNKNOWN"},     {0x01, "WFx"},         {0x03, "CP15_32"},     {0x04, "CP15_64"},
    {0x05, "CP14_MR"},     {0x06, "CP14_LS"},     {0x07, "FP_ASIMD"},    {0x08, "CP10_ID"},
    {0x09, "PAC"},         {0x0c, "CP14_64"},     {0x15, "SVC64"},       {0x16, "HVC64"},
    {0x17, "SMC64"},       {0x18, "SYS64"},       {0x19, "SVE"},         {0x1f, "IMP_DEF"},
    {0x20, "IABT_LOW"},    {0x21, "IABT_CUR"},    {0x22, "PC_ALIGN"},    {0x24, "DABT_LOW"},
    {0x25, "DABT_CUR"},    {0x26, "SP_ALIGN"},    {0x28, "FP_EXC32"},    {0x2c, "FP_EXC64"},
    {0x2f, "SERROR"},      {0x30, "BREAKPT_LOW"}, {0x31, "BREAKPT_CUR"}, {0x32, "SOFTSTP_LOW"},
    {0x33, "SOFTSTP_CUR"}, {0x34, "WATCHPT_LOW"}, {0x35, "WATCHPT_CUR"}, {0x38, "BKPT32"},
    {0x3a, "VECTOR32"},    {0x3c, "BRK64"},       {0x1a, "ERET"},
};
constexpr ReasonName kUserspace[] = {
    {0, "KVM_EXIT_UNKNOWN"},
    {1, "KVM_EXIT_EXCEPTION"},
    {2, "KVM_EXIT_IO"},
    {3, "KVM_EXIT_HYPERCALL"},
    {4, "KVM_EXIT_DEBUG"},
    {5, "KVM_EXIT_HLT"},
    {6, "KVM_EXIT_MMIO"},
    {7, "KVM_EXIT_IRQ_WINDOW_OPEN"},
    {8, "KVM_EXIT_SHUTDOWN"},
    {9, "KVM_EXIT_FAIL_ENTRY"},
    {10, "KVM_EXIT_INTR"},
    {11, "KVM_EXIT_SET_TPR"},
    {12, "KVM_EXIT_TPR_ACCESS"},
    {13, "KVM_EXIT_S390_SIEIC"},
    {14, "KVM_EXIT_S390_RESET"},
    {15, "KVM_EXIT_DCR"},
    {16, "KVM_EXIT_NMI"},
    {17, "KVM_EXIT_INTERNAL_ERROR"},
    {18, "KVM_EXIT_OSI"},
    {19, "KVM_EXIT_PAPR_HCALL"},
    {20, "KVM_EXIT_S390_UCONTROL"},
    {21, "KVM_EXIT_WATCHDOG"},
    {22, "KVM_EXIT_S390_TSCH"},
    {23, "KVM_EXIT_EPR"},
    {24, "KVM_EXIT_SYSTEM_EVENT"},
    {25, "KVM_EXIT_S390_STSI"},
    {26, "KVM_EXIT_IOAPIC_EOI"},
    {27, "KVM_EXIT_HYPERV"},
    {28, "KVM_EXIT_ARM_NISV"},
    {29, "KVM_EXIT_X86_RDMSR"},
    {30, "KVM_EXIT_X86_WRMSR"},
};
// Other names for reasons: those of older kernels, and those of trace-cmd's plugin that are not
// just the kernel's names in capitals.
constexpr ReasonName kOtherVmx[] = {{7, "PENDING_INTERRUPT"}};
constexpr ReasonName kOtherSvm[] = {
    {0x40, "EXIT_EXCP_DE"},    {0x41, "EXIT_EXCP_DB"},    {0x43, "EXIT_EXCP_BP"},
    {0x44, "EXIT_EXCP_OF"},    {0x45, "EXIT_EXCP_BR"},    {0x46, "EXIT_EXCP_UD"},
    {0x47, "EXIT_EXCP_NM"},    {0x48, "EXIT_EXCP_DF"},    {0x4a, "EXIT_EXCP_TS"},
    {0x4b, "EXIT_EXCP_NP"},    {0x4c, "EXIT_EXCP_SS"},    {0x4d, "EXIT_EXCP_GP"},
    {0x4e, "EXIT_EXCP_PF"},    {0x50, "EXIT_EXCP_MF"},    {0x51, "EXIT_EXCP_AC"},
    {0x52, "EXIT_EXCP_MC"},    {0x53, "EXIT_EXCP_XF"},    {0x60, "EXIT_INTR"},
    {0x66, "EXIT_IDTR_READ"},  {0x67, "EXIT_GDTR_READ"},  {0x68, "EXIT_LDTR_READ"},
    {0x69, "EXIT_TR_READ"},    {0x6a, "EXIT_IDTR_WRITE"}, {0x6b, "EXIT_GDTR_WRITE"},
    {0x6c, "EXIT_LDTR_WRITE"}, {0x6d, "EXIT_TR_WRITE"},   {0x7b, "EXIT_IOIO"},
    {0x81, "EXIT_VMMCALL"},    {0x81, "vmmcall"},         {0x8c, "EXIT_MWAIT_COND"},
    {0xffffffff, "EXIT_ERR"},
};

using Numbers = std::unordered_map<std::string, NumberedReason>;

Numbers x86_numbers() {
  Numbers numbers;
  const auto add = [&numbers](std::span<const ReasonName> names, std::uint32_t isa) {
    for (const ReasonName& one : names) numbers.emplace(one.name, NumberedReason{isa, one.number});
  };
  add(kVmx, kIsaVmx);
  add(kOtherVmx, kIsaVmx);
  add(kSvm, kIsaSvm);
  for (const ReasonName& one : kSvm) {
    // trace-cmd's plugin spells names like this.
    std::string capitals = "EXIT_";
    for (const char c : one.name)
      capitals += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    numbers.emplace(std::move(capitals), NumberedReason{kIsaSvm, one.number});
  }
  add(kOtherSvm, kIsaSvm);
  return numbers;
}

const Numbers& numbered() {
  static const Numbers numbers = x86_numbers();
  return numbers;
}

kernel_events::SymbolNames names_of(std::span<const ReasonName> table) {
  kernel_events::SymbolNames names;
  for (const ReasonName& one : table) names.emplace(one.number, one.name);
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
  const auto* found = std::ranges::find(kArm64Ret, name, &ReasonName::name);
  if (found == std::end(kArm64Ret)) return std::nullopt;
  return found->number;
}

kernel_events::ReasonNames kernels_reason_names() {
  return {names_of(kVmx), names_of(kSvm), names_of(kArm64Ret), names_of(kArm64Class),
          names_of(kUserspace)};
}

}  // namespace trapline::trace_text
