#include "merge/pass/exit_text.h"

#include <fmt/format.h>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

// As an assembler writes a system register that it has no name for.
std::string system_register(std::uint64_t packed) {
  return fmt::format("S{}_{}_C{}_C{}_{}", (packed >> 14) & 3, (packed >> 11) & 7,
                     (packed >> 7) & 15, (packed >> 3) & 15, packed & 7);
}

std::string_view access_text(Access access) {
  switch (access) {
    case Access::kRead:
      return " read";
    case Access::kWrite:
      return " write";
    default:
      return "";
  }
}

}  // namespace

std::string reason_text(const Source& source, const ExitReason& reason) {
  if (reason.isa == ExitReason::kIsaUserspace) return source.userspace_reason(reason.reason);
  return source.exit_reason(reason.isa, reason.reason, reason.exception_class);
}

std::string detail_text(const KvmDetail& detail) {
  const std::string_view access = access_text(detail.access);
  switch (detail.kind) {
    case DetailKind::kPort:
      return fmt::format("port {:#x}{}", detail.value, access);
    case DetailKind::kMmio:
      return fmt::format("mmio {:#x}{}", detail.value, access);
    case DetailKind::kMsr:
      return fmt::format("msr {:#x}{}", detail.value, access);
    case DetailKind::kSysReg:
      return "sysreg " + system_register(detail.value) + std::string(access);
    case DetailKind::kControlRegister:
      return fmt::format("cr{}{}", detail.value, access);
    case DetailKind::kCpuid:
      return fmt::format("cpuid {:#x}", detail.value);
    case DetailKind::kHypercall:
      return fmt::format("hypercall {:#x}", detail.value);
    case DetailKind::kPageFault:
      return fmt::format("page-fault {:#x}", detail.value);
    default:
      return "-";
  }
}

std::string_view nested_text(NestedLevel level) {
  switch (level) {
    case NestedLevel::kGuest:
      return "guest";
    case NestedLevel::kGuestEnters:
      return "guest enters nested guest";
    case NestedLevel::kNested:
      return "nested guest";
    case NestedLevel::kNestedPassedOn:
      return "nested guest, passed on";
  }
  return "-";
}

std::string name_or_dash(const Names& names, NameId name) {
  return name == kNoName ? "-" : printable(names[name]);
}

}  // namespace trapline
