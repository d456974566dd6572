// The words for what an exit was: the same in every report, timeline and export.
#pragma once

#include <string>
#include <string_view>

#include "merge/model/exit_span.h"
#include "merge/model/names.h"
#include "merge/source/source.h"

namespace trapline {

// "io", "EXTERNAL_INTERRUPT", "DABT_LOW": the recording's own names, else the number.
[[nodiscard]] std::string reason_text(const Source& source, const ExitReason& reason);
// "port 0x402 write", "mmio 0xfed000f0 read", "msr 0x6e0 write", "cpuid 0x40000000",
// "sysreg S3_0_C12_C11_5 write", "cr0 write", "hypercall 0x5", "page-fault 0x1000"; "-" when there
// is none.
[[nodiscard]] std::string detail_text(const KvmDetail& detail);
// "guest", "guest enters nested guest", "nested guest", "nested guest, passed on".
[[nodiscard]] std::string_view nested_text(NestedLevel level);
// A device's, a guest function's or an event's name; "-" of none.
[[nodiscard]] std::string name_or_dash(const Names& names, NameId name);

}  // namespace trapline
