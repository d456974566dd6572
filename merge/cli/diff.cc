// trapline diff: shows what changed between the runs of two sides, and how much of it is proven.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "backend_ftrace/base/paths.h"
#include "merge/cli/common.h"
#include "merge/cli/compare_options.h"
#include "merge/export/output_file.h"
#include "merge/render/page/page_data.h"

namespace trapline::cli {
namespace {

struct DiffArguments {
  std::vector<std::string> paths;
  CompareOptions compare;
  CompareChoice choice;
  double confidence = 95;
  Output output;
  std::string flame;
  // Returns where --flame writes; "-" is the standard output.
  [[nodiscard]] Output flame_output() const {
    return {flame == "-" ? std::string() : flame, output.force};
  }
};

// Takes the whole runs of a folder that bench wrote: a-01, a-02 … are one side, b-01 … the other.
bool take_bench(const std::string& folder, CompareOptions& sides) {
  if (!is_file(std::filesystem::path(folder) / "bench.json") ||
      is_file(std::filesystem::path(folder) / "session.json")) {
    return false;
  }
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    // Bench writes the run's own file when its command has succeeded.
    const bool is_run = name.size() > 2 && name[1] == '-' &&
                        name.find_first_not_of("0123456789", 2) == std::string::npos &&
                        is_file(at->path() / "bench.json");
    if (is_run && name[0] == 'a') sides.before.push_back(at->path());
    if (is_run && name[0] == 'b') sides.after.push_back(at->path());
  }
  std::sort(sides.before.begin(), sides.before.end());
  std::sort(sides.after.begin(), sides.after.end());
  return true;
}

Result<void> complete(DiffArguments& options) {
  CompareOptions& sides = options.compare;
  if (!options.paths.empty() && (!sides.before.empty() || !sides.after.empty()))
    return fail(ErrorKind::kUsage, "give BEFORE and AFTER, or --before and --after, not both");
  const bool bench = options.paths.size() == 1 && take_bench(options.paths.front(), sides);
  if (!options.paths.empty() && options.paths.size() != 2 && !bench) {
    return fail(ErrorKind::kUsage,
                "diff compares two recordings, BEFORE AFTER, and {} {} given; give several runs of "
                "a side as --before a1 a2 a3 --after b1 b2 b3, or the folder of trapline bench",
                options.paths.size(), options.paths.size() == 1 ? "was" : "were");
  }
  if (options.paths.size() == 2) {
    sides.before = {options.paths[0]};
    sides.after = {options.paths[1]};
  }
  if (sides.before.empty() || sides.after.empty()) {
    return fail(ErrorKind::kUsage,
                "two sides are compared: give BEFORE AFTER, or --before FILE... "
                "and --after FILE...");
  }
  if (options.choice.format == "html") {
    if (auto checked = check_page(); !checked) return checked;
  }
  Needs needs{options.paths, {options.output.file, options.flame_output().file}};
  for (const auto* runs : {&sides.before, &sides.after}) {
    for (const Output& output : {options.output, options.flame_output()})
      if (auto checked = check_output(output.file, output.force, *runs); !checked) return checked;
    for (const std::string& run : *runs)
      for (const std::string& file : files_of(run)) needs.inputs.push_back(file);
  }
  add_needs(sides.common, needs);
  if (auto given = give_up_root(needs); !given) return given;
  if (auto checked = check_runs(options.choice, sides.before.size(), sides.after.size());
      !checked) {
    return checked;
  }
  options.compare.confidence = options.confidence / 100;
  sides.flame = !options.flame.empty();
  if (options.choice.format == "html" && !sides.which.exits.empty()) {
    return fail(ErrorKind::kUsage, "{} needs --format text, json or csv; the page has all exits",
                sides.which.exits.text());
  }
  return complete(options.choice, sides);
}

// Returns the page's data: the first recording of each side, read once more, and the comparison of
// all recordings.
Result<std::string> diff_page(const DiffArguments& options, const Comparison& comparison,
                              const Progress& progress) {
  const CompareOptions& sides = options.compare;
  std::array<std::string, 2> recordings;
  const std::string* paths[] = {&sides.before.front(), &sides.after.front()};
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    PassOptions pass;
    pass.input = sides.common;
    pass.input.paths = files_of(*paths[i]);
    pass.which = sides.which;
    auto run = run_page(pass, page_options(pass), progress);
    if (!run) return tl::unexpected(std::move(run).error());
    if (!run->status) return tl::unexpected(std::move(run->status).error());
    recordings[i] = std::move(run->recording);
  }
  const Report differences = make_report(comparison);
  return page_json(recordings, &differences);
}

Result<void> print_result(const Comparison& comparison, const DiffArguments& options) {
  if (options.choice.format != "html")
    return print_as(options.choice.format, make_report(comparison), options.output);
  auto page = diff_page(options, comparison, progress_line());
  if (!page) return tl::unexpected(std::move(page).error());
  return print_to(options.output, [&](std::ostream& out) { print_page(*page, out); });
}

// Prints "stack before after": one line per stack with its nanoseconds on both sides, as
// difffolded.pl writes them and flamegraph.pl reads them.
void print_flame(const Comparison& comparison, std::ostream& out) {
  for (const FoldedDifference& one : comparison.flame)
    out << fmt::format("{} {} {}\n", one.stack, one.before_ns, one.after_ns);
}

Result<int> run_diff(DiffArguments& options) {
  if (auto checked = complete(options); !checked) return tl::unexpected(checked.error());
  auto comparison = run_compare(options.compare, progress_line());
  if (!comparison) return tl::unexpected(comparison.error());
  if (auto printed = print_result(*comparison, options); !printed)
    return tl::unexpected(printed.error());
  if (!options.flame.empty()) {
    const auto written =
        print_to(options.flame_output(), [&](std::ostream& out) { print_flame(*comparison, out); });
    if (!written) return tl::unexpected(written.error());
  }
  return check_conditions(*comparison, options.choice);
}

}  // namespace

void add_diff(CLI::App& app, int& status) {
  auto options = std::make_shared<DiffArguments>();
  CLI::App* command = app.add_subcommand(
      "diff", "Compare runs of two sides: what changed, and what of it is proven");
  command->add_option("recordings", options->paths,
                      "BEFORE AFTER: two recordings or session folders; join the files of one "
                      "recording (the host's, the guest's) with commas. Or the folder of a bench");
  const OptionGroup rest(*command, kRest), how(*command, kHow);
  rest.add("--before", options->compare.before, "FILE...",
           "The runs of the first side, a recording each: --before run/a-*");
  rest.add("--after", options->compare.after, "FILE...", "The runs of the second side");
  add_selection(*command, options->compare.which);
  add_compare_choice(*command, options->choice, options->compare, true);
  rest.rare()
      .add("--confidence", options->confidence, "",
           "Confidence of all tests and intervals together, in percent")
      ->transform(in_range(50.0, 99.99))
      ->capture_default_str();
  rest.rare()
      .add("--seed", options->compare.seed, "",
           "Seed of the splits, where there are too many to look at all")
      ->capture_default_str();
  rest.rare().add("--flame", options->flame, "FILE",
                  "Write stacks with their nanoseconds on both sides into this file, for "
                  "differential flame graphs");
  how.add("--symbols", options->compare.common.symbols, "FILE[@OFFSET]",
          "Guest symbols: ELF, kallsyms, System.map; repeatable");
  how.rare().add("--trace-events", options->compare.common.trace_events, "FILE",
                 "QEMU's trace-events-all (default: the session's)");
  add_time_units(how.rare(), options->compare.common);
  add_output(OptionGroup(*command, kOutput), options->output);
  on_run(*command, status, options, run_diff);
}

}  // namespace trapline::cli
