// trapline diff: what changed between recordings, and whether the change is real.
#include <fmt/format.h>

#include "backend_ftrace/base/text.h"
#include "merge/cli/commands.h"
#include "merge/cli/common.h"
#include "merge/cli/diff_page.h"
#include "merge/render/diff_render.h"
#include "merge/render/page/page_options.h"
#include "merge/report/compare_fail_if.h"
#include "merge/report/compare_run.h"
#include "merge/report/exit_keys.h"

namespace trapline::cli {
namespace {

// Beside ErrorKind's: a condition of --fail-if is met.
constexpr int kConditionMet = 4;

struct Options {
  std::vector<std::string> paths;
  SideOptions sides;
  CompareOptions compare;
  double confidence = 95;
  std::vector<std::string> fail_if;
  std::vector<FailCondition> conditions;
  std::string format = "text", output;
};

// The texts that need more than a number, checked before anything is read.
Result<void> complete(Options& options) {
  SideOptions& sides = options.sides;
  if (!options.paths.empty() && (!sides.before.empty() || !sides.after.empty())) {
    return fail(ErrorKind::kUsage, "give BEFORE and AFTER, or --before and --after, not both");
  }
  if (!options.paths.empty() && options.paths.size() != 2) {
    return fail(ErrorKind::kUsage,
                "{} recordings, and diff compares two: BEFORE AFTER; name several of a side with "
                "--before and --after",
                options.paths.size());
  }
  if (options.paths.size() == 2) {
    sides.before = {options.paths[0]};
    sides.after = {options.paths[1]};
  }
  if (sides.before.empty() || sides.after.empty()) {
    return fail(ErrorKind::kUsage,
                "two sides are compared: give BEFORE AFTER, or --before FILE "
                "and --after FILE");
  }
  options.compare.requests = options.compare.by == "span";
  if (!options.compare.requests) {
    auto dimensions = parse_dimensions(options.compare.by);
    if (!dimensions) return tl::unexpected(std::move(dimensions).error());
    sides.by = std::move(*dimensions);
    if (ExitKeys(sides.by).needs_waits()) {
      return fail(
          ErrorKind::kUsage,
          "--by {}: culprits of waiting are not compared; compare them with trapline report "
          "--by {} on each side",
          options.compare.by, options.compare.by);
    }
  }
  if (options.format == "html") {
    if (auto checked = check_diff_page(sides); !checked) return checked;
  }
  options.compare.confidence = options.confidence / 100;
  for (const std::string& text : options.fail_if) {
    auto condition = parse_fail_condition(text);
    if (!condition) return tl::unexpected(std::move(condition).error());
    options.conditions.push_back(std::move(*condition));
  }
  return {};
}

Result<void> print(const Comparison& comparison, const Options& options) {
  std::string page;
  if (options.format == "html") {
    ProgressLine progress;
    auto made = diff_page(options.sides, comparison, progress.callback());
    if (!made) return tl::unexpected(std::move(made).error());
    page = std::move(*made);
  }
  return print_to(options.output, [&](std::ostream& out) {
    if (options.format == "html") {
      print_page(page, out);
    } else if (options.format == "json") {
      print_json(comparison, out);
    } else if (options.format == "csv") {
      print_csv(comparison, out);
    } else {
      print_text(comparison, out, options.output.empty() ? stdout_style() : TextStyle{});
    }
  });
}

int run(Options& options) {
  if (auto checked = complete(options); !checked) return fail_with(checked.error());
  auto comparison = [&] {
    ProgressLine progress;
    return run_compare(options.sides, options.compare, progress.callback());
  }();
  if (!comparison) return fail_with(comparison.error());
  if (auto printed = print(*comparison, options); !printed) return fail_with(printed.error());
  int status = 0;
  for (const FailCondition& condition : options.conditions) {
    const auto verdict = check_fail_condition(*comparison, condition);
    if (!verdict) return fail_with(verdict.error());
    for (const std::string& text : verdict->unknown) {
      fmt::print(stderr, "trapline: --fail-if: {}\n", printable(text));
    }
    for (const std::string& text : verdict->failed) {
      fmt::print(stderr, "trapline: --fail-if: {}\n", printable(text));
      status = kConditionMet;
    }
  }
  return status;
}

}  // namespace

void add_diff(CLI::App& app, int& status) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("diff", "What changed between recordings, and is it real");
  command->add_option("recordings", options->paths,
                      "BEFORE AFTER: two recordings or session folders");
  command->add_option("--before", options->sides.before, "A recording of this side; repeatable")
      ->type_name("FILE");
  command->add_option("--after", options->sides.after, "A recording of the other; repeatable")
      ->type_name("FILE");
  command
      ->add_option("--by", options->compare.by,
                   "Rows by reason, detail, device, qemu-event, function, stack, vcpu, vm, "
                   "several with commas; or span: requests")
      ->capture_default_str();
  command
      ->add_option("--top", options->compare.top,
                   "The N rows with the most time; 0: all. The correction is over these")
      ->capture_default_str();
  command->add_option("--confidence", options->confidence, "Of intervals and tests, in percent")
      ->check(CLI::Range(50.0, 99.99))
      ->capture_default_str();
  command->add_option("--seed", options->compare.seed, "Of the resamples")->capture_default_str();
  command
      ->add_option("--fail-if", options->fail_if,
                   "METRIC(ROW) > +N%: exit with 4 when the whole interval is beyond; repeatable")
      ->type_name("CONDITION");
  command
      ->add_option("--symbols", options->sides.common.symbols,
                   "FILE[@OFFSET]: guest symbols (ELF, kallsyms, System.map); repeatable")
      ->type_name("FILE[@OFFSET]");
  command
      ->add_option("--trace-events", options->sides.common.trace_events,
                   "The trace-events-all of the QEMU that was recorded")
      ->type_name("FILE");
  command->add_option("--tsc-khz", options->sides.common.tsc_khz,
                      "The TSC's frequency: converts x86-tsc recordings to nanoseconds");
  command->add_option("--format", options->format, "html is a page of both sides")
      ->check(CLI::IsMember({"text", "json", "csv", "html"}))
      ->capture_default_str();
  command->add_option("-o,--output", options->output, "Write to this file")->type_name("FILE");
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace trapline::cli
