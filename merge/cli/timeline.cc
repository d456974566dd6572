// trapline timeline: kernel, QEMU and derived spans in order of time.

#include <algorithm>

#include "backend_ftrace/base/duration.h"
#include "merge/cli/common.h"
#include "merge/pass/pass.h"
#include "merge/render/page/page_data.h"
#include "merge/render/page/timeline_page.h"
#include "merge/render/timeline_view.h"

namespace trapline::cli {
namespace {

struct TimelineArguments {
  PassOptions pass;
  std::string around, context, format = "text";
  Output output;
};

// The times to print, both included.
struct Interval {
  TimeSpec from;
  std::optional<TimeSpec> to;
};

Interval around(TimeSpec first, TimeSpec last, std::uint64_t margin) {
  first.ns -= std::min(first.ns, margin);
  last.ns += margin;
  return {first, last};
}

// Parses --around and --context.
Result<std::optional<std::uint64_t>> parse_window(TimelineArguments& options) {
  if (!options.around.empty() && options.around != "max") {
    auto time = parse_time_spec("--around", options.around);
    if (!time) return tl::unexpected(std::move(time).error());
    options.pass.which.from = options.pass.which.to = {"--around", *time};
  }
  if (options.context.empty()) return std::nullopt;
  return parse_duration("--context", options.context);
}

// Returns the interval. With --around max, `pass` has the longest exit.
Result<Interval> interval_of(const TimelineArguments& options, const Pass& pass,
                             std::optional<std::uint64_t> context) {
  const auto& [from, to] = std::pair{options.pass.which.from.time, options.pass.which.to.time};
  if (options.around == "max") {
    const std::optional<ExitSpan>& longest = pass.found().longest;
    if (!longest) return fail("{}: no exit matches", options.pass.input.paths.front());
    return around({longest->start.ns(), false}, {longest->end.ns(), false},
                  context.value_or(200'000));
  }
  if (!options.around.empty()) return around(*from, *to, context.value_or(1'000'000));
  return Interval{from.value_or(TimeSpec{}), to};
}

// Says that no line was printed. Returns an Error if the user named an interval that has no events;
// if it has some, the selection of vCPUs or exits left them out.
Result<void> nothing_printed(const TimelineArguments& options, const PassEnd& pass,
                             bool has_events) {
  const bool named =
      !options.around.empty() || options.pass.which.from.time || options.pass.which.to.time;
  if (named && !has_events)
    return fail(ErrorKind::kUsage, "{}", nothing_in_window(pass.timeline()));
  say(nothing_in_window(pass.timeline()));
  return {};
}

// Prints the interval as a page. Exits that begin in it are drawn if they end soon after it.
Result<void> print_page_of(const TimelineArguments& options, Pass pass, const Interval& interval) {
  constexpr std::uint64_t kAfter = 100'000'000;
  const auto& [from, to] = interval;
  ReportOptions about = page_options(options.pass);
  about.command.front() = "timeline";
  for (const auto& [name, text] :
       {std::pair{"--around", &options.around}, std::pair{"--context", &options.context}}) {
    if (!text->empty()) about.command.insert(about.command.end(), {name, *text});
  }
  page::TimelinePage page(pass.timeline(), about, from, to);
  // Events before the interval show where the vCPUs are at its beginning.
  pass.look_at({}, to ? std::optional(TimeSpec{to->ns + kAfter, to->relative}) : std::nullopt);
  const auto end = std::move(pass).run({&page}, progress_line());
  if (!end) return tl::unexpected(end.error());
  if (page.empty() && end->status()) {
    if (auto none = nothing_printed(options, *end, false); !none) return none;
  }
  const std::string json = page.json(end->pipeline());
  auto printed = print_to(options.output, [&](std::ostream& out) { print_page(json, out); });
  return printed ? end->status() : printed;
}

Result<void> print_text(const TimelineArguments& options, Pass pass, const Interval& interval) {
  const ChosenExits* const only = options.pass.chosen ? &pass.found().chosen : nullptr;
  bool has_lines = false, has_events = false;
  Result<PassEnd> end = fail("");
  auto printed = print_to(options.output, [&](std::ostream& out) {
    TimelineView view_of(pass.timeline(), interval.from, only, style_of(options.output),
                         pass.input().capabilities.vcpus, out);
    pass.look_at({}, interval.to);
    end = std::move(pass).run({&view_of}, {}, [&out] { return !out; });
    has_lines = view_of.lines() != 0;
    has_events = view_of.has_events();
  });
  if (!printed) return printed;
  if (!end) return tl::unexpected(end.error());
  if (!end->status() || has_lines) return end->status();
  return nothing_printed(options, *end, has_events);
}

Result<void> print_timeline(TimelineArguments& options) {
  if (auto begun = begin_reading(options.pass.input, options.output); !begun) return begun;
  if (options.format == "html") {
    if (!options.pass.which.exits.empty()) {
      return fail(ErrorKind::kUsage, "{} needs --format text; the page shows all exits",
                  options.pass.which.exits.text());
    }
    if (auto checked = check_page(); !checked) return checked;
  }
  auto context = parse_window(options);
  if (!context) return tl::unexpected(std::move(context).error());
  options.pass.longest = options.around == "max";
  options.pass.chosen = !options.pass.which.exits.empty();
  auto pass = Pass::open(options.pass, progress_line());
  if (!pass) return tl::unexpected(std::move(pass).error());
  auto interval = interval_of(options, *pass, *context);
  if (!interval) return tl::unexpected(std::move(interval).error());
  const std::vector<std::string> missing = pass->input().missing;
  auto printed = options.format == "html" ? print_page_of(options, std::move(*pass), *interval)
                                          : print_text(options, std::move(*pass), *interval);
  for (const std::string& sentence : missing) say(sentence);
  return printed;
}

}  // namespace

void add_timeline(CLI::App& app, int& status) {
  auto options = std::make_shared<TimelineArguments>();
  CLI::App* command =
      app.add_subcommand("timeline", "Print the events of kernel, QEMU and guest in order of time");
  add_input_options(*command, options->pass.input);
  const OptionGroup which(*command, kWhich), output(*command, kOutput);
  add_selection(*command, options->pass.which);
  which
      .add("--around", options->around, "max|TIME",
           "max: around the longest exit, halts excepted; or around this time")
      ->excludes("--from")
      ->excludes("--to");
  which.add("--context", options->context, "TIME",
            "How much --around shows before and after (default: 200us for max, 1ms for a time)");
  output.choice("--format", options->format, {"text", "html"}, "html is a page in which to zoom");
  add_output(output, options->output);
  on_run(*command, status, options, print_timeline);
}

}  // namespace trapline::cli
