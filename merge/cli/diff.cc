// trapline diff: what changed between recordings, and whether the change is real.
#include <fmt/format.h>

#include "merge/cli/commands.h"
#include "merge/cli/common.h"
#include "merge/cli/compare_options.h"
#include "merge/cli/diff_page.h"
#include "merge/render/diff_render.h"
#include "merge/render/page/page_options.h"

namespace trapline::cli {
namespace {

struct DiffArguments {
  std::vector<std::string> paths;
  SideOptions sides;
  CompareOptions compare;
  CompareChoice choice;
  double confidence = 95;
  std::string output, flame;
};

Result<void> complete(DiffArguments& options) {
  SideOptions& sides = options.sides;
  if (!options.paths.empty() && (!sides.before.empty() || !sides.after.empty())) {
    return fail(ErrorKind::kUsage, "give BEFORE and AFTER, or --before and --after, not both");
  }
  if (!options.paths.empty() && options.paths.size() != 2) {
    return fail(ErrorKind::kUsage,
                "diff compares two recordings, BEFORE AFTER, and {} {} given; give several for a "
                "side with --before and --after",
                options.paths.size(), options.paths.size() == 1 ? "was" : "were");
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
  if (options.choice.format == "html") {
    if (auto checked = check_diff_page(sides); !checked) return checked;
  }
  options.compare.confidence = options.confidence / 100;
  sides.flame = !options.flame.empty();
  return complete(options.choice, sides, options.compare);
}

Result<void> print_result(const Comparison& comparison, const DiffArguments& options) {
  if (options.choice.format != "html") return print(comparison, options.choice, options.output);
  ProgressLine progress;
  auto page = diff_page(options.sides, comparison, progress.callback());
  if (!page) return tl::unexpected(std::move(page).error());
  return print_to(options.output, [&](std::ostream& out) { print_page(*page, out); });
}

int run_diff(DiffArguments& options) {
  if (auto checked = complete(options); !checked) return fail_with(checked.error());
  auto comparison = [&] {
    ProgressLine progress;
    return run_compare(options.sides, options.compare, progress.callback());
  }();
  if (!comparison) return fail_with(comparison.error());
  if (auto printed = print_result(*comparison, options); !printed) {
    return fail_with(printed.error());
  }
  if (!options.flame.empty()) {
    const auto written = print_to(options.flame == "-" ? "" : options.flame,
                                  [&](std::ostream& out) { print_folded(*comparison, out); });
    if (!written) return fail_with(written.error());
  }
  return check_conditions(*comparison, options.choice);
}

}  // namespace

void add_diff(CLI::App& app, int& status) {
  auto options = std::make_shared<DiffArguments>();
  CLI::App* command =
      app.add_subcommand("diff", "Compare recordings: what changed, and is the change real");
  command->add_option("recordings", options->paths,
                      "BEFORE AFTER: two recordings or session folders; join the files of one "
                      "recording (the host's, the guest's) with commas");
  command
      ->add_option("--before", options->sides.before, "A recording of the first side; repeatable")
      ->type_name("FILE");
  command->add_option("--after", options->sides.after, "A recording of the second side; repeatable")
      ->type_name("FILE");
  add_compare_choice(*command, options->choice, options->compare, true);
  command
      ->add_option("--confidence", options->confidence,
                   "Confidence of intervals and tests, in percent")
      ->check(CLI::Range(50.0, 99.99))
      ->capture_default_str();
  command->add_option("--seed", options->compare.seed, "Seed of the bootstrap's resamples")
      ->capture_default_str();
  command
      ->add_option("--flame", options->flame,
                   "Write stacks with their nanoseconds on both sides into this file, for "
                   "differential flame graphs")
      ->type_name("FILE");
  command
      ->add_option("--symbols", options->sides.common.symbols,
                   "Guest symbols: ELF, kallsyms, System.map; repeatable")
      ->type_name("FILE[@OFFSET]");
  command
      ->add_option("--trace-events", options->sides.common.trace_events,
                   "The trace-events-all of the QEMU that was recorded")
      ->type_name("FILE");
  command->add_option("--tsc-khz", options->sides.common.tsc_khz,
                      "The TSC's frequency in kHz, for x86-tsc recordings");
  command->add_option("-o,--output", options->output, "Write to this file")->type_name("FILE");
  command->callback([options, &status] { status = run_diff(*options); });
}

}  // namespace trapline::cli
