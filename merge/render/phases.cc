#include "merge/render/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "merge/render/tables.h"
#include "merge/report/tables.h"

namespace trapline {
namespace {

constexpr std::size_t kShown = 3;  // devices, and functions, of a phase

void print_shares(const Report& report, const std::vector<PhaseRow>& phases, std::ostream& out,
                  const TextStyle& style) {
  std::vector<PhaseShareRow> rows;
  const auto add = [&rows](const std::vector<PhaseShareRow>& shares) {
    rows.insert(rows.end(), shares.begin(),
                shares.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, shares.size())));
  };
  for (const PhaseRow& row : phases) {
    add(share_rows(row, "device", row.devices));
    const bool named = std::any_of(row.functions.begin(), row.functions.end(),
                                   [](const auto& share) { return share.name != "-"; });
    if (named) add(share_rows(row, "function", row.functions));
  }
  print_table(phase_share_table(rows, report), "Their exits without halts", report.cycles, out,
              style);
}

// `phase`: "init: Run /init".
std::string phase_text(std::string_view phase) {
  const std::size_t colon = phase.find(": ");
  if (colon == phase.npos) return fmt::format("Phase {} did not begin.", phase);
  const std::string_view pattern = phase.substr(colon + 2);
  const bool of_text = !pattern.starts_with("function:") && !pattern.starts_with("0x");
  return fmt::format("Phase {} did not begin: {} matched '{}'.", phase.substr(0, colon),
                     of_text ? "no console line" : "nothing", pattern);
}

}  // namespace

void print_phases(const Report& report, const PhaseReport& phases, std::ostream& out,
                  const TextStyle& style) {
  if (phases.rows.empty()) return;
  print_table(phase_table(phases.rows, report), "Phases", report.cycles, out, style);
  for (const std::string& phase : phases.never) print_wrapped(phase_text(phase), out, style);
  print_shares(report, phases.rows, out, style);
}

}  // namespace trapline
