#include "merge/source/kernel_events/riscv_cause.h"

#include <fmt/format.h>

#include <span>
#include <string_view>

#include "merge/model/event.h"

namespace trapline::kernel_events {
namespace {

// Indexed by the cause's number; empty where the specification reserves it.
constexpr std::string_view kExceptions[] = {"EXC_INST_MISALIGNED",
                                            "EXC_INST_ACCESS",
                                            "EXC_INST_ILLEGAL",
                                            "EXC_BREAKPOINT",
                                            "EXC_LOAD_MISALIGNED",
                                            "EXC_LOAD_ACCESS",
                                            "EXC_STORE_MISALIGNED",
                                            "EXC_STORE_ACCESS",
                                            "EXC_SYSCALL",
                                            "EXC_HYPERVISOR_SYSCALL",
                                            "EXC_SUPERVISOR_SYSCALL",
                                            "",
                                            "EXC_INST_PAGE_FAULT",
                                            "EXC_LOAD_PAGE_FAULT",
                                            "",
                                            "EXC_STORE_PAGE_FAULT",
                                            "",
                                            "",
                                            "",
                                            "",
                                            "EXC_INST_GUEST_PAGE_FAULT",
                                            "EXC_LOAD_GUEST_PAGE_FAULT",
                                            "EXC_VIRTUAL_INST_FAULT",
                                            "EXC_STORE_GUEST_PAGE_FAULT"};
constexpr std::string_view kInterrupts[] = {
    "",           "IRQ_S_SOFT",  "IRQ_VS_SOFT",  "IRQ_M_SOFT",
    "",           "IRQ_S_TIMER", "IRQ_VS_TIMER", "IRQ_M_TIMER",
    "",           "IRQ_S_EXT",   "IRQ_VS_EXT",   "IRQ_M_EXT",
    "IRQ_S_GEXT", "IRQ_PMU_OVF"};

std::string_view name_of(std::span<const std::string_view> names, std::uint32_t number) {
  return number < names.size() ? names[number] : std::string_view();
}

}  // namespace

std::string riscv_cause(std::uint32_t cause, std::uint32_t exception_class) {
  const std::uint32_t number = cause & ~kRiscvInterrupt;
  const bool interrupt = (cause & kRiscvInterrupt) != 0;
  const std::string_view name =
      name_of(interrupt ? std::span<const std::string_view>(kInterrupts) : kExceptions, number);
  if (name.empty()) return fmt::format("{} {:#x}", interrupt ? "IRQ" : "EXC", number);
  return std::string(name) + (exception_class == kRiscvWfi ? " (WFI)" : "");
}

}  // namespace trapline::kernel_events
