#include "merge/render/phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "backend_ftrace/base/quoted_text.h"
#include "merge/render/tables.h"
#include "merge/report/tables.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

constexpr std::size_t kShown = 3;  // devices, and functions, of a phase

void print_shares(const Report& report, const std::vector<PhaseRow>& phases, std::ostream& out,
                  const TextStyle& style) {
  TextTable table({"Their exits without halts", "exits", "time", "share"});
  const auto known = [&report](const PhaseShare& share) {
    return report.durations() ? std::optional(share.ns) : std::nullopt;
  };
  for (const PhaseRow& row : phases) {
    std::uint64_t all = 0;
    for (const PhaseShare& share : row.functions) all += share.ns;
    const auto add = [&](const std::vector<PhaseShare>& shares, std::string_view what) {
      for (std::size_t i = 0; i < std::min(kShown, shares.size()); ++i) {
        table.add({fmt::format("{}: {} {}", row.name, what, shares[i].name),
                   grouped(shares[i].exits), duration_text(known(shares[i]), report.cycles),
                   percent_text(known(shares[i]), all)});
      }
    };
    add(row.devices, "device");
    const bool named = std::any_of(row.functions.begin(), row.functions.end(),
                                   [](const auto& share) { return share.name != "-"; });
    if (named) add(row.functions, "function");
  }
  if (table.empty()) return;
  out << '\n';
  table.print(out, style);
}

}  // namespace

void print_phases(const Report& report, const PhaseReport& phases, std::ostream& out,
                  const TextStyle& style) {
  if (phases.rows.empty()) return;
  print_table(phase_table(phases, report), "Phases", report.cycles, out, style);
  for (const std::string& phase : phases.never)
    print_wrapped("", "Never began: " + phase, out, style);
  print_shares(report, phases.rows, out, style);
}

void print_phases_csv(const Report& report, const PhaseReport& phases, std::ostream& out) {
  out << "\nphase,what,name,start_ns,ns,exits,guest_ns,kernel_ns,user_ns,preempted_ns,blocked_ns,"
         "halted_ns\n";
  for (const PhaseRow& row : phases.rows) {
    const std::string phase = csv_cell(row.name);
    out << fmt::format("{},phase,{},{},{},{}", phase, csv_cell(row.pattern), row.start_ns, row.ns,
                       row.exits);
    out << ',' << (report.knows(State::kGuest) ? std::to_string(row.guest_ns) : "");
    for (std::size_t i = 0; i < kParts; ++i)
      out << ',' << csv_number(told(report.known_states(), i, row.parts));
    out << '\n';
    for (const auto& [what, shares] :
         {std::pair("device", &row.devices), std::pair("function", &row.functions)}) {
      for (const PhaseShare& share : *shares)
        out << fmt::format("{},{},{},,{},{},,,,,,\n", phase, what,
                           share.name == "-" ? "" : csv_cell(share.name),
                           report.durations() ? std::to_string(share.ns) : "", share.exits);
    }
  }
}

}  // namespace trapline
