// trapline timeline: kernel, QEMU and derived spans in order of time.
#include <fmt/format.h>

#include <limits>

#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/text.h"
#include "merge/cli/commands.h"
#include "merge/cli/common.h"
#include "merge/render/page/page_data.h"
#include "merge/render/page/timeline_page.h"
#include "merge/render/timeline_view.h"
#include "merge/report/exit_text.h"
#include "merge/report/feed.h"
#include "merge/report/window.h"

namespace trapline::cli {
namespace {

struct Options {
  InputOptions input;
  VcpuFilter filter;
  std::string from, to, around, context, reason, format = "text", output;
};

// The exit that --around max means: the longest that is no halt and has the wanted reason.
class Longest : public SpanSink {
 public:
  Longest(const Timeline& timeline, const std::string& reason)
      : timeline_(timeline), reason_(reason) {}
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kExits; }
  void exit(const ExitSpan& exit, const Pipeline&) override {
    if (span && exit.total() <= span->total()) return;
    if (reason_.empty()
            ? is_halt(exit.reason)
            : !matches(reason_, reason_text(timeline_.source(exit.source), exit.reason))) {
      return;
    }
    span = exit;
  }
  std::optional<ExitSpan> span;

 private:
  const Timeline& timeline_;
  const std::string& reason_;
};

struct Found {
  std::optional<ExitSpan> longest;
  std::optional<Timestamp> first;  // of the recording
};

// The times of --from, --to and --around, before they are resolved.
struct Window {
  std::optional<TimeSpec> from, to, around;
};

Result<Window> parse_window(const Options& options) {
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
  return window;
}

Result<void> check(const Timeline& timeline, const Window& window) {
  if (!window.around) return check_window(timeline, {"--from", window.from}, {"--to", window.to});
  return check_window(timeline, {"--around", window.around}, {"--around", window.around});
}

// Reads the recording: up to its first event, or to its end for the longest exit.
Result<Found> look(const Options& options, const std::optional<std::set<ThreadId>>& threads,
                   const Window& window, bool only_first, const Progress& progress) {
  InputOptions quiet = options.input;
  quiet.verbose = {};  // the pass that prints tells it
  auto input = open_input(quiet);
  if (!input) return tl::unexpected(std::move(input).error());
  Timeline timeline(std::move(input->sources));
  if (auto checked = check(timeline, window); !checked) {
    return tl::unexpected(std::move(checked).error());
  }
  Longest longest(timeline, options.reason);
  PipelineOptions how = pipeline_options(timeline, *input);
  how.threads = threads;
  Pipeline pipeline(std::move(how), {&longest});
  Found found;
  Event event;
  for (std::uint64_t events = 1; timeline.next(event) == Read::kEvent && pipeline.push(event);
       ++events) {
    if (!found.first && !std::holds_alternative<Lost>(event.payload)) {
      found.first = event.at;
      if (only_first) return found;
    }
    if (events % 65536 == 0 && progress) progress(timeline.progress());
  }
  pipeline.finish();
  if (!timeline.status()) return tl::unexpected(timeline.status().error());
  if (!input->capabilities.kvm_exit && !input->capabilities.kvm_userspace_exit) {
    return tl::unexpected(no_exits(timeline));
  }
  found.longest = longest.span;
  return found;
}

Timestamp moved(Timestamp at, std::uint64_t back) {
  return Timestamp(at.ns() > back ? at.ns() - back : 0);
}

// From --from, --to and --around to a window.
Result<void> find_window(const Options& options, const std::optional<std::set<ThreadId>>& threads,
                         TimelineOptions& view, const Progress& progress) {
  view.to = Timestamp(std::numeric_limits<std::uint64_t>::max());
  std::optional<std::uint64_t> context;
  if (!options.context.empty()) {
    auto margin = parse_duration("--context", options.context);
    if (!margin) return tl::unexpected(std::move(margin).error());
    context = *margin;
  }
  const bool max = options.around == "max";
  auto window = parse_window(options);
  if (!window) return tl::unexpected(std::move(window).error());
  auto longest = look(options, threads, *window, !max, progress);
  if (!longest) return tl::unexpected(std::move(longest).error());
  const Timestamp first = longest->first.value_or(Timestamp());
  if (max) {
    if (!longest->longest) return fail("{}: no exit matches", options.input.paths.front());
    const std::uint64_t margin = context.value_or(200'000);
    view.from = moved(longest->longest->start, margin);
    view.to = Timestamp(longest->longest->end.ns() + margin);
    return {};
  }
  if (window->around) {
    const Timestamp at = window->around->resolve(first);
    const std::uint64_t margin = context.value_or(1'000'000);
    view.from = moved(at, margin);
    view.to = Timestamp(at.ns() + margin);
    return {};
  }
  if (window->from) view.from = window->from->resolve(first);
  if (window->to) view.to = window->to->resolve(first);
  return {};
}

// The interval as a page. Exits that begin in it are drawn where they end soon after it.
Result<void> print_page_of(const Options& options, const TimelineOptions& view,
                           const std::optional<std::set<ThreadId>>& threads) {
  constexpr std::uint64_t kAfter = 100'000'000;
  auto input = open_input(options.input);
  if (!input) return tl::unexpected(std::move(input).error());
  Timeline timeline(std::move(input->sources));
  PageOptions about = page_options(options.input, options.filter, options.from, options.to);
  about.command.front() = "timeline";
  for (const auto& [name, text] :
       {std::pair{"--around", &options.around}, std::pair{"--context", &options.context}}) {
    if (!text->empty()) about.command.insert(about.command.end(), {name, *text});
  }
  page::TimelinePage page(timeline, {view.from, view.to, about.command, about.tool});
  PipelineOptions how = pipeline_options(timeline, *input);
  how.threads = threads;
  if (view.to.ns() < std::numeric_limits<std::uint64_t>::max() - kAfter) {
    how.to = TimeSpec{view.to.ns() + kAfter, false};
  }
  Pipeline pipeline(std::move(how), {&page});
  {
    ProgressLine progress;
    feed(timeline, pipeline, progress.callback());
  }
  pipeline.finish();
  const std::string json = page.json(pipeline);
  auto printed = print_to(options.output, [&](std::ostream& out) { print_page(json, out); });
  if (!printed) return printed;
  if (!timeline.status()) return timeline.status();
  if (page.empty()) fmt::print(stderr, "trapline: nothing lies in that part of the recording\n");
  return {};
}

Result<void> print_timeline(const Options& options) {
  if (options.format == "html") {
    if (!options.reason.empty()) {
      return fail(ErrorKind::kUsage, "--reason: goes with --format text; the page shows all exits");
    }
    if (auto checked = check_page(); !checked) return checked;
  }
  TimelineOptions view;
  view.reason = options.reason;
  std::optional<std::set<ThreadId>> threads;
  {
    ProgressLine progress;
    if (!options.filter.empty()) {
      auto matching = matching_threads(options.input, options.filter, progress.callback());
      if (!matching) return tl::unexpected(std::move(matching).error());
      threads = std::move(*matching);
    }
    if (auto window = find_window(options, threads, view, progress.callback()); !window)
      return window;
  }
  if (options.format == "html") return print_page_of(options, view, threads);
  auto input = open_input(options.input);
  if (!input) return tl::unexpected(std::move(input).error());
  Timeline timeline(std::move(input->sources));
  view.style = options.output.empty() ? stdout_style() : TextStyle{};
  std::uint64_t lines = 0;
  auto printed = print_to(options.output, [&](std::ostream& out) {
    TimelineView view_of(timeline, view, out);
    PipelineOptions how = pipeline_options(timeline, *input);
    how.threads = threads;
    how.to = TimeSpec{view.to.ns(), false};
    Pipeline pipeline(std::move(how), {&view_of});
    feed(timeline, pipeline, {}, [&out] { return !out; });
    lines = view_of.lines();
  });
  if (!printed) return printed;
  if (!timeline.status()) return timeline.status();
  if (lines == 0) fmt::print(stderr, "trapline: nothing lies in that part of the recording\n");
  return {};
}

}  // namespace

void add_timeline(CLI::App& app, int& status) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("timeline", "Kernel, QEMU and guest, line by line in order of time");
  add_input_options(*command, options->input);
  add_vcpu_options(*command, options->filter);
  auto* from = command->add_option("--from", options->from, "Start: seconds of the clock, or +TIME")
                   ->type_name("TIME");
  auto* to = command->add_option("--to", options->to, "Stop")->type_name("TIME");
  command
      ->add_option("--around", options->around,
                   "max: around the longest exit that is no halt; or around this time")
      ->type_name("max|TIME")
      ->excludes(from)
      ->excludes(to);
  command->add_option("--context", options->context, "How far --around looks to both sides")
      ->type_name("TIME");
  command->add_option("--reason", options->reason, "Only exits with this reason (* and ? match)");
  command->add_option("--format", options->format, "text, or html: a page to zoom in")
      ->check(CLI::IsMember({"text", "html"}))
      ->capture_default_str();
  command->add_option("-o,--output", options->output, "Write to this file")->type_name("FILE");
  command->callback([options, &status] {
    if (auto done = print_timeline(*options); !done) status = fail_with(done.error());
  });
}

}  // namespace trapline::cli
