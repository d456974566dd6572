#include "merge/model/kernel_events.h"
#include "merge/render/report_text.h"

#include <fmt/format.h>

#include <string>

#include "merge/render/tables.h"
#include "merge/report/tables.h"
#include "merge/report/units.h"

namespace trapline {

void print_kernel(const Report& report, std::ostream& out, const TextStyle& style) {
  if (!report.kernel) return;
  const KernelReport& kernel = *report.kernel;
  if (!report.knows(State::kKernel)) {
    out << '\n';
    print_wrapped(fmt::format("The kernel's time in exits was not recorded ({}).",
                              events::kvm_exit.full_name),
                  out, style);
    return;
  }
  const std::string_view who = report.knows(State::kUser) ? "The kernel" : "The kernel or QEMU";
  const std::string total = duration_text(kernel.total_ns, report.cycles);
  print_table(kernel_table(kernel), fmt::format("{} {}, in", who, total), report.cycles, out,
              style);
  if (kernel.total_ns == 0 || kernel.untraced_ns != kernel.total_ns) return;
  print_wrapped(
      fmt::format(
          "No event was recorded in it that tells more (record kvm, irq_vectors, {}, {}, {}, "
          "{}).",
          events::softirq_entry.full_name, events::softirq_exit.full_name,
          events::hrtimer_expire_entry.full_name, events::hrtimer_expire_exit.full_name),
      out, style);
}

}  // namespace trapline
