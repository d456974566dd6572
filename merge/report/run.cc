#include "merge/report/run.h"

#include <algorithm>
#include <utility>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

// True if the report has something to say of events in trace_marker alone.
bool counts_markers(const ReportOptions& options) {
  return options.requests ||
         std::find(options.by.begin(), options.by.end(), Dimension::kVmmEvent) != options.by.end();
}

// What was asked for that only exits have.
Result<void> check_calls(const ReportOptions& options, const ExitFilter& asked_for) {
  const std::string exits = asked_for.text();
  std::vector<std::string_view> names;
  if (!exits.empty()) names.push_back(exits);
  if (options.page) names.push_back("--format html");
  for (const TableKind& kind : table_kinds())
    if (kind.of_exits && options.asks(kind.option)) names.push_back(kind.option);
  if (!names.empty()) {
    return fail(ErrorKind::kUsage,
                "{}: shows VM exits, and this recording has none; its calls of guest functions are "
                "reported with --by, as text, JSON or CSV",
                names.front());
  }
  return check_dimensions_of_calls(options.by);
}

// After the pass: whether there is something to report.
Result<void> check_found(const Pass& pass, const ReportOptions& options) {
  if (!pass.status() || has_exits(pass.input().capabilities)) return {};
  if (options.calls && pass.pipeline().stacks().records() != 0)
    return check_calls(options, pass.asked_for().exits);
  if (counts_markers(options) && pass.input().capabilities.markers) return {};
  return pass.check_exits();
}

}  // namespace

ReportOptions options_for(const ReportOptions& asked, const Input& input) {
  ReportOptions options = asked;
  options.calls = !has_exits(input.capabilities) && !options.requests;
  if (options.calls && options.by_default) {
    options.by = {Dimension::kFunction};
    options.by_text = "function";
  }
  return options;
}

Result<void> read_report(Pass& pass, const ReportOptions& options, std::vector<SpanSink*> sinks,
                         const Progress& progress) {
  if (auto read = pass.run(std::move(sinks), progress); !read) return read;
  if (auto found = check_found(pass, options); !found) return found;
  return pass.check_names();
}

ReportData report_of(const Pass& pass, const Aggregator& aggregator) {
  ReportData report = aggregator.snapshot(pass.naming());
  report.vcpus_asked = pass.asked_for().vcpus;
  report.exits_asked = pass.asked_for().exits;
  if (const ExitMatcher* matcher = pass.matcher()) {
    report.exits_in_rows = matcher->held();
    report.all_exits = matcher->exits();
    report.all_cost_ns = matcher->cost_ns();
  }
  return report;
}

Result<ReportRun> run_report(const PassOptions& what, const ReportOptions& asked,
                             const Progress& progress) {
  auto pass = Pass::open(what, progress);
  if (!pass) return tl::unexpected(std::move(pass).error());
  const ReportOptions options = options_for(asked, pass->input());
  auto tables = make_tables(options);
  if (!tables) return tl::unexpected(std::move(tables).error());
  Aggregator aggregator(pass->input(), options, std::move(*tables));
  if (auto read = read_report(*pass, options, aggregator.sinks(), progress); !read)
    return tl::unexpected(std::move(read).error());
  return ReportRun{report_of(*pass, aggregator), pass->status()};
}

}  // namespace trapline
