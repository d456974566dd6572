#include "merge/cli/compare_options.h"

#include <fmt/format.h>

#include "merge/report/dimensions.h"

namespace trapline::cli {
namespace {

// The exit status if a condition of --fail-if is met; other statuses are those of ErrorKind.
constexpr int kConditionMet = 4;

// Chooses what the rows of the comparison are.
Result<void> choose_rows(const CompareChoice& choice, CompareOptions& compare) {
  const std::tuple<bool, CompareRows, const char*> kinds[] = {
      {choice.guest, CompareRows::kFunctions, "function"},
      {choice.irq, CompareRows::kInterrupts, "interrupt"},
      {choice.waits, CompareRows::kWaits, "culprit"},
      {choice.host_cpu, CompareRows::kThreads, "role"},
      {choice.faults, CompareRows::kFaults, "cause"}};
  compare.by = choice.by.empty() ? "reason" : choice.by;
  int chosen = choice.by.empty() ? 0 : 1;
  for (const auto& [wanted, rows, by] : kinds) {
    if (!wanted) continue;
    ++chosen;
    compare.rows = rows;
    compare.by = by;
  }
  if (chosen > 1) {
    return fail(
        ErrorKind::kUsage,
        "--by, --guest, --irq, --waits, --host-cpu and --faults each choose the rows; give one of "
        "them");
  }
  if (compare.rows != CompareRows::kExits) return {};
  if (compare.by == "span") {
    compare.rows = CompareRows::kRequests;
    return {};
  }
  return assign(compare.dimensions, parse_dimensions(compare.by, "span"));
}

}  // namespace

void add_compare_choice(CLI::App& command, CompareChoice& choice, CompareOptions& compare,
                        bool with_page) {
  const OptionGroup tables(command, kTables), rest(command, kRest);
  tables.add("--by", choice.by, "LIST",
             "Rows (default: reason): " + dimension_names() +
                 ", several with commas; span (QEMU's requests) alone");
  tables
      .add("--top", compare.top, "",
           "Compare the N rows with the most time (0: all); the tests are corrected for "
           "their number")
      ->capture_default_str();
  tables.flag("--guest", choice.guest, "Rows are guest functions: their calls and own time");
  tables.flag("--irq", choice.irq, "Rows are the steps of interrupts: injection to EOI");
  tables.flag("--waits", choice.waits, "Rows are what kept the vCPUs waiting in exits");
  tables.flag("--host-cpu", choice.host_cpu, "Rows are the roles of the VMs' threads, by CPU time");
  tables.flag("--faults", choice.faults, "Rows are the causes of page faults; and the pages");
  rest.add("--fail-if", choice.fail_if, "CONDITION",
           "METRIC(ROW) > +N%: exit with status 4 when the whole confidence interval is "
           "beyond it; repeatable");
  rest.rare().flag("--single-run", choice.single_run,
                   "With fewer than three runs, --fail-if goes by values");
  std::vector<std::string> formats = {"text", "json", "csv"};
  if (with_page) formats.push_back("html");
  OptionGroup(command, kOutput)
      .choice("--format", choice.format, formats,
              with_page ? "html is a page of both sides" : "json and csv are for programs");
}

Result<void> complete(CompareChoice& choice, CompareOptions& compare) {
  if (auto chosen = choose_rows(choice, compare); !chosen) return chosen;
  for (const std::string& text : choice.fail_if) {
    auto condition = parse_fail_condition(text);
    if (!condition) return tl::unexpected(std::move(condition).error());
    choice.conditions.push_back(std::move(*condition));
  }
  return {};
}

Result<void> check_runs(const CompareChoice& choice, std::size_t before, std::size_t after) {
  if (choice.fail_if.empty() || choice.single_run || method_for(before, after) != Method::kNone)
    return {};
  return fail(ErrorKind::kUsage,
              "--fail-if needs at least {} runs of each side, and there {} {} before and {} after: "
              "runs of the same guest differ, too. Record more (trapline bench), or give "
              "--single-run to go by the values of these recordings",
              kFewestRuns, before == 1 ? "is" : "are", before, after);
}

Result<int> check_conditions(const Comparison& comparison, const CompareChoice& choice) {
  const auto verdict = check_fail_conditions(comparison, choice.conditions);
  if (!verdict) return tl::unexpected(verdict.error());
  for (const std::string& text : verdict->unknown) say(fmt::format("--fail-if: {}", text));
  for (const std::string& text : verdict->failed) say(fmt::format("--fail-if: {}", text));
  return verdict->failed.empty() ? 0 : kConditionMet;
}

}  // namespace trapline::cli
