// trapline timeline: kernel, QEMU and derived spans in order of time.
#include <fmt/format.h>

#include <limits>

#include "backend_ftrace/base/text.h"
#include "merge/cli/commands.h"
#include "merge/cli/common.h"
#include "merge/render/timeline_view.h"
#include "merge/report/exit_text.h"

namespace trapline::cli {
namespace {

struct Options {
  InputOptions input;
  VcpuFilter filter;
  std::string from, to, around, context, reason, output;
};

// The exit that --around max means: the longest that is no halt and has the wanted reason.
struct Longest {
  std::optional<ExitSpan> span;
  std::optional<Timestamp> first;  // of the recording
};

Result<Longest> find_longest(const Options& options,
                             const std::optional<std::set<ThreadId>>& threads, bool only_first,
                             const Progress& progress) {
  auto input = open_input(options.input);
  if (!input) return tl::unexpected(std::move(input).error());
  Names names;
  QemuEventReader reader(names);
  ExitTracker tracker(choose_exit_model(input->traits), reader);
  Timeline timeline(std::move(input->sources));
  Longest longest;
  Event event;
  for (std::uint64_t events = 1; timeline.next(event); ++events) {
    if (!longest.first && !std::holds_alternative<Lost>(event.payload)) {
      longest.first = event.at;
      if (only_first) return longest;
    }
    if (events % 65536 == 0 && progress) progress(timeline.progress());
    const ExitSpan* span = tracker.on(event);
    if (span == nullptr || (threads && !threads->contains(span->thread))) continue;
    if (options.reason.empty()
            ? is_halt(span->reason)
            : !matches(options.reason, reason_text(timeline.source(span->source), span->reason))) {
      continue;
    }
    if (!longest.span || span->total() > longest.span->total()) longest.span = *span;
  }
  if (!timeline.status()) return tl::unexpected(timeline.status().error());
  if (!input->traits.kvm_exit && !input->traits.kvm_userspace_exit) {
    return tl::unexpected(no_exits(timeline));
  }
  return longest;
}

Timestamp moved(Timestamp at, std::uint64_t back) {
  return Timestamp(at.ns() > back ? at.ns() - back : 0);
}

// From --from, --to and --around to a window.
Result<void> find_window(const Options& options, TimelineOptions& view, const Progress& progress) {
  view.to = Timestamp(std::numeric_limits<std::uint64_t>::max());
  std::optional<std::uint64_t> context;
  if (!options.context.empty()) {
    context = parse_time(options.context);
    if (!context) return fail(ErrorKind::kUsage, "--context: '{}' is no time", options.context);
  }
  const bool max = options.around == "max";
  auto longest = find_longest(options, view.threads, !max, progress);
  if (!longest) return tl::unexpected(std::move(longest).error());
  const Timestamp first = longest->first.value_or(Timestamp());
  if (max) {
    if (!longest->span) return fail("{}: no exit matches", options.input.paths.front());
    const std::uint64_t margin = context.value_or(200'000);
    view.from = moved(longest->span->start, margin);
    view.to = Timestamp(longest->span->end.ns() + margin);
    return {};
  }
  if (!options.around.empty()) {
    auto time = parse_time_spec("--around", options.around);
    if (!time) return tl::unexpected(std::move(time).error());
    const Timestamp at = time->resolve(first);
    const std::uint64_t margin = context.value_or(1'000'000);
    view.from = moved(at, margin);
    view.to = Timestamp(at.ns() + margin);
    return {};
  }
  for (const auto& [text, name, place] : {std::tuple{&options.from, "--from", &view.from},
                                          std::tuple{&options.to, "--to", &view.to}}) {
    if (text->empty()) continue;
    auto time = parse_time_spec(name, *text);
    if (!time) return tl::unexpected(std::move(time).error());
    *place = time->resolve(first);
  }
  return {};
}

Result<void> print_timeline(const Options& options) {
  TimelineOptions view;
  view.reason = options.reason;
  {
    ProgressLine progress;
    if (!options.filter.empty()) {
      auto threads = matching_threads(options.input, options.filter, progress.callback());
      if (!threads) return tl::unexpected(std::move(threads).error());
      view.threads = std::move(*threads);
    }
    if (auto window = find_window(options, view, progress.callback()); !window) return window;
  }
  auto input = open_input(options.input);
  if (!input) return tl::unexpected(std::move(input).error());
  Timeline timeline(std::move(input->sources));
  view.style = options.output.empty() ? stdout_style() : TextStyle{};
  std::uint64_t lines = 0;
  auto printed = print_to(options.output, [&](std::ostream& out) {
    TimelineView lines_of(timeline, *input, view, out);
    Event event;
    while (timeline.next(event) && lines_of.on(event) && out) {
    }
    lines = lines_of.lines();
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
  command->add_option("-o,--output", options->output, "Write to this file")->type_name("FILE");
  command->callback([options, &status] {
    if (auto done = print_timeline(*options); !done) status = fail_with(done.error());
  });
}

}  // namespace trapline::cli
