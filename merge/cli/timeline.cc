// trapline timeline: kernel, QEMU and derived spans in order of time.
#include <fmt/format.h>

#include <algorithm>

#include "backend_ftrace/base/duration.h"
#include "merge/cli/commands.h"
#include "merge/cli/common.h"
#include "merge/render/page/page_data.h"
#include "merge/render/page/timeline_page.h"
#include "merge/render/timeline_view.h"
#include "merge/report/feed.h"
#include "merge/report/first_look.h"
#include "merge/report/placement.h"
#include "merge/report/window.h"

namespace trapline::cli {
namespace {

struct TimelineArguments {
  InputOptions input;
  VcpuFilter filter;
  std::string from, to, around, context, reason, format = "text", output;
};

// The times of --from, --to and --around, and how far --around looks.
struct Window {
  std::optional<TimeSpec> from, to, around;
  std::optional<std::uint64_t> context;
};

Result<Window> parse_window(const TimelineArguments& options) {
  Window window;
  const std::string around = options.around == "max" ? "" : options.around;
  for (const auto& [text, name, place] : {std::tuple{&options.from, "--from", &window.from},
                                          std::tuple{&options.to, "--to", &window.to},
                                          std::tuple{&around, "--around", &window.around}}) {
    if (text->empty()) continue;
    auto time = parse_time_spec(name, *text);
    if (!time) return tl::unexpected(std::move(time).error());
    *place = *time;
  }
  if (!options.context.empty()) {
    auto context = parse_duration("--context", options.context);
    if (!context) return tl::unexpected(std::move(context).error());
    window.context = *context;
  }
  return window;
}

Result<void> check(const Timeline& timeline, const Window& window) {
  if (!window.around) return check_window(timeline, {"--from", window.from}, {"--to", window.to});
  return check_window(timeline, {"--around", window.around}, {"--around", window.around});
}

// What is printed, both included.
struct Interval {
  TimeSpec from;
  std::optional<TimeSpec> to;
};

Interval around(TimeSpec first, TimeSpec last, std::uint64_t margin) {
  first.ns -= std::min(first.ns, margin);
  last.ns += margin;
  return {first, last};
}

// Of --from, --to and --around; the longest exit is there where --around max asked for it.
Result<Interval> interval_of(const TimelineArguments& options, const Window& window,
                             const std::optional<ExitSpan>& longest) {
  if (options.around == "max") {
    if (!longest) return fail("{}: no exit matches", options.input.paths.front());
    return around({longest->start.ns(), false}, {longest->end.ns(), false},
                  window.context.value_or(200'000));
  }
  if (window.around)
    return around(*window.around, *window.around, window.context.value_or(1'000'000));
  return Interval{window.from.value_or(TimeSpec{}), window.to};
}

// The recording on its way to be printed.
struct Reading {
  Timeline timeline;
  PipelineOptions how;
  Interval interval;
};

// The interval as a page. Exits that begin in it are drawn where they end soon after it.
Result<void> print_page_of(const TimelineArguments& options, Reading& reading) {
  constexpr std::uint64_t kAfter = 100'000'000;
  const auto& [from, to] = reading.interval;
  PageOptions about = page_options(options.input, options.filter, options.from, options.to);
  about.command.front() = "timeline";
  for (const auto& [name, text] :
       {std::pair{"--around", &options.around}, std::pair{"--context", &options.context}}) {
    if (!text->empty()) about.command.insert(about.command.end(), {name, *text});
  }
  page::TimelinePage page(reading.timeline, {from, to, about.command, about.tool});
  if (to) reading.how.to = TimeSpec{to->ns + kAfter, to->relative};
  Pipeline pipeline(std::move(reading.how), {&page});
  {
    ProgressLine progress;
    feed(reading.timeline, pipeline, progress.callback());
  }
  finish(reading.timeline, pipeline);
  const std::string json = page.json(pipeline);
  auto printed = print_to(options.output, [&](std::ostream& out) { print_page(json, out); });
  if (!printed) return printed;
  if (!reading.timeline.status()) return reading.timeline.status();
  if (auto placed = check_placement(reading.timeline, pipeline); !placed) return placed;
  if (page.empty()) say(nothing_in_window(reading.timeline));
  return {};
}

Result<void> print_text(const TimelineArguments& options, Reading& reading) {
  const TimelineOptions view{reading.interval.from, options.reason,
                             options.output.empty() ? stdout_style() : TextStyle{}};
  std::uint64_t lines = 0;
  Result<void> placed;
  auto printed = print_to(options.output, [&](std::ostream& out) {
    TimelineView view_of(reading.timeline, view, out);
    reading.how.to = reading.interval.to;
    Pipeline pipeline(std::move(reading.how), {&view_of});
    feed(reading.timeline, pipeline, {}, [&out] { return !out; });
    lines = view_of.lines();
    placed = check_placement(reading.timeline, pipeline);
  });
  if (!printed) return printed;
  if (!reading.timeline.status()) return reading.timeline.status();
  if (!placed) return placed;
  if (lines == 0) say(nothing_in_window(reading.timeline));
  return {};
}

Result<void> print_timeline(const TimelineArguments& options) {
  if (options.format == "html") {
    if (!options.reason.empty()) {
      return fail(ErrorKind::kUsage, "--reason needs --format text; the page shows all exits");
    }
    if (auto checked = check_page(); !checked) return checked;
  }
  auto window = parse_window(options);
  if (!window) return tl::unexpected(std::move(window).error());
  const LookFor wanted{options.filter, options.around == "max", options.reason};
  auto opened = [&] {
    ProgressLine progress;
    return open_and_look(options.input, wanted, progress.callback());
  }();
  if (!opened) return tl::unexpected(std::move(opened).error());
  auto interval = interval_of(options, *window, opened->found.longest);
  if (!interval) return tl::unexpected(std::move(interval).error());
  Reading reading{Timeline(std::move(opened->input.sources)), {}, *interval};
  if (auto checked = check(reading.timeline, *window); !checked) return checked;
  reading.how = pipeline_options(reading.timeline, opened->input);
  reading.how.threads = std::move(opened->found.threads);
  return options.format == "html" ? print_page_of(options, reading) : print_text(options, reading);
}

}  // namespace

void add_timeline(CLI::App& app, int& status) {
  auto options = std::make_shared<TimelineArguments>();
  CLI::App* command =
      app.add_subcommand("timeline", "Print the events of kernel, QEMU and guest in order of time");
  add_input_options(*command, options->input);
  add_vcpu_options(*command, options->filter,
                   "Only this vCPU (html: also other threads' events, and requests)",
                   "Only this VM: its name or process id (html: as for --vcpu)");
  auto* from =
      command
          ->add_option(
              "--from", options->from,
              "From this time on: seconds of the recording's clock, or +TIME after its first event")
          ->type_name("TIME");
  auto* to = command->add_option("--to", options->to, "Up to this time, given in the same way")
                 ->type_name("TIME");
  command
      ->add_option("--around", options->around,
                   "max: around the longest exit, halts excepted; or around this time")
      ->type_name("max|TIME")
      ->excludes(from)
      ->excludes(to);
  command
      ->add_option(
          "--context", options->context,
          "How much --around shows before and after (default: 200us for max, 1ms for a time)")
      ->type_name("TIME");
  command->add_option("--reason", options->reason, "Only exits with this reason (* and ? match)")
      ->type_name("PATTERN");
  command->add_option("--format", options->format, "html is a page in which to zoom")
      ->check(CLI::IsMember({"text", "html"}))
      ->capture_default_str();
  command->add_option("-o,--output", options->output, "Write to this file")->type_name("FILE");
  command->callback([options, &status] {
    if (auto done = print_timeline(*options); !done) status = fail_with(done.error());
  });
}

}  // namespace trapline::cli
