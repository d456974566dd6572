// The kernel headers' names of numbers, for numbers whose names are not in the recording.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trapline {

// The names of consecutive numbers from `first` on, separated by commas. An empty name means that
// the number has none.
struct NumberedNames {
  std::uint32_t first;
  std::string_view names;
};

// Calls `on` with each number and its name.
void for_each_name(std::span<const NumberedNames> table, auto&& on) {
  for (auto [number, names] : table) {
    for (std::size_t end = 0; end != names.npos; ++number) {
      end = names.find(',');
      if (end != 0) on(number, names.substr(0, end));
      names.remove_prefix(end == names.npos ? 0 : end + 1);
    }
  }
}

// Returns the name of a number; "" without one.
[[nodiscard]] inline std::string_view name_in(std::span<const NumberedNames> table,
                                              std::uint32_t number) {
  std::string_view found;
  for_each_name(table, [&](std::uint32_t one, std::string_view name) {
    if (one == number) found = name;
  });
  return found;
}

// Why KVM_RUN returns: kvm_run's exit_reason, from include/uapi/linux/kvm.h, without "KVM_EXIT_".
inline constexpr NumberedNames kRunExits[] = {
    {0, "UNKNOWN,EXCEPTION,IO,HYPERCALL,DEBUG,HLT,MMIO,IRQ_WINDOW_OPEN,SHUTDOWN,FAIL_ENTRY,INTR"},
    {11, "SET_TPR,TPR_ACCESS,S390_SIEIC,S390_RESET,DCR,NMI,INTERNAL_ERROR,OSI,PAPR_HCALL"},
    {20, "S390_UCONTROL,WATCHDOG,S390_TSCH,EPR,SYSTEM_EVENT,S390_STSI,IOAPIC_EOI,HYPERV"},
    {28, "ARM_NISV,X86_RDMSR,X86_WRMSR"},
};
[[nodiscard]] inline std::string run_exit_name(std::uint32_t reason) {
  const std::string_view name = name_in(kRunExits, reason);
  return name.empty() ? fmt::format("KVM_EXIT {:#x}", reason) : fmt::format("KVM_EXIT_{}", name);
}

}  // namespace trapline
