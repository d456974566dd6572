// --slower-than: the exits that lasted at least so long, one by one.
#pragma once

#include <string>
#include <vector>

#include "merge/model/exit_span.h"
#include "merge/pass/naming.h"
#include "merge/report/table.h"

namespace trapline {

// One exit in words.
struct ExitRow {
  ExitSpan span;
  std::string vcpu, function, reason, detail, device, preempted_by;
};
// `function` is the guest's, kNoName where it is not known.
[[nodiscard]] ExitRow exit_row(const ExitSpan& span, NameId function, const Naming& naming);
// "io, port 0x71 read, rtc, in outb"; `accesses` stands after the detail.
[[nodiscard]] std::string exit_text(const ExitRow& row, const std::string& accesses = {});

// `vmm_events`: the recording has events of QEMU.
[[nodiscard]] TableOf<ExitRow> slow_exit_table(std::vector<ExitRow> rows, const States& known,
                                               bool vmm_events);

}  // namespace trapline
