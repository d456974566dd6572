// trapline export: the timeline's spans in the formats of other tools.
#include <fmt/format.h>

#include <limits>

#include "merge/cli/commands.h"
#include "merge/cli/common.h"
#include "merge/export/exporter.h"
#include "merge/report/aggregator.h"
#include "merge/report/feed.h"
#include "merge/report/options.h"
#include "merge/report/run.h"
#include "merge/report/window.h"

namespace trapline::cli {
namespace {

struct Options {
  InputOptions input;
  VcpuFilter filter;
  ExportOptions how;
  std::string from, to;
  bool list = false;
};

void print_formats() {
  for (const ExportFormat& format : export_formats()) {
    fmt::print("{:<9} {}\n", format.name, format.what);
  }
}

// The machine and the folder that rows are labelled with, where the user gives no other.
void complete_labels(Options& options, const Timeline& timeline) {
  if (options.how.session.empty()) options.how.session = options.input.paths.front();
  if (!options.how.host.empty()) return;
  for (const auto& [name, text] : timeline.source(0).facts()) {
    if (name != "host") continue;
    const auto start = text.find(' ');
    if (start == std::string::npos) continue;
    options.how.host = text.substr(start + 1, text.find(' ', start + 1) - start - 1);
  }
}

Result<void> run(Options& options) {
  if (options.how.output.empty()) {
    return fail(ErrorKind::kUsage, "-o: name the file to write, or - for the standard output");
  }
  PipelineOptions wanted;
  for (const auto& [text, name, place] : {std::tuple{&options.from, "--from", &wanted.from},
                                          std::tuple{&options.to, "--until", &wanted.to}}) {
    if (text->empty()) continue;
    auto time = parse_time_spec(name, *text);
    if (!time) return tl::unexpected(std::move(time).error());
    *place = *time;
  }
  ProgressLine progress;
  const Progress tell = progress.callback();
  if (!options.filter.empty()) {
    auto threads = matching_threads(options.input, options.filter, tell);
    if (!threads) return tl::unexpected(std::move(threads).error());
    wanted.threads = std::move(*threads);
  }
  auto input = open_input(options.input);
  if (!input) return tl::unexpected(std::move(input).error());
  Timeline timeline(std::move(input->sources));
  if (auto window = check_window(timeline, {"--from", wanted.from}, {"--until", wanted.to});
      !window) {
    return window;
  }
  complete_labels(options, timeline);
  auto exporter = make_exporter({timeline, input->notes}, options.how);
  if (!exporter) return tl::unexpected(std::move(exporter).error());
  PipelineOptions how = pipeline_options(timeline, *input);
  how.from = wanted.from;
  how.to = wanted.to;
  how.threads = std::move(wanted.threads);
  Pipeline pipeline(std::move(how), {exporter->get()});
  feed(timeline, pipeline, tell, [&] { return (*exporter)->failed(); });
  pipeline.finish();
  if (auto finished = (*exporter)->finish(pipeline); !finished) return finished;
  return timeline.status();
}

}  // namespace

void add_export(CLI::App& app, int& status) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("export", "Spans in the formats of other tools");
  add_input_options(*command, options->input);
  command->get_option("recording")->required(false);
  add_vcpu_options(*command, options->filter);
  command->add_option("--to", options->how.format, "The format: see --list")->type_name("FORMAT");
  command->add_flag("--list", options->list, "List the formats");
  command
      ->add_option("--rows", options->how.rows,
                   "Rows of jsonl and csv: exits, requests, interrupts, functions")
      ->capture_default_str();
  command
      ->add_option("--weight", options->how.weight,
                   "Of folded stacks: time, count, kernel, user, preempted, blocked")
      ->capture_default_str();
  command->add_option("--host", options->how.host, "Label of the rows; else the host's name");
  command->add_option("--session", options->how.session, "Label of the rows; else the path");
  command->add_flag("--events", options->how.events, "The kernel's events as well (perfetto)");
  command->add_option("--from", options->from, "Start here: seconds of the clock, or +TIME")
      ->type_name("TIME");
  command->add_option("--until", options->to, "Stop here")->type_name("TIME");
  command->add_option("-o,--output", options->how.output, "Write to this file; - is stdout")
      ->type_name("FILE");
  command->add_flag("--force", options->how.force, "Replace a file of that name");
  command->callback([options, &status] {
    if (options->list) return print_formats();
    if (options->input.paths.empty() || options->how.format.empty()) {
      status =
          fail_with({"export: name a recording and a format, as in: trapline export run --to "
                     "perfetto -o run.pftrace",
                     ErrorKind::kUsage});
      return;
    }
    if (auto done = run(*options); !done) status = fail_with(done.error());
  });
}

}  // namespace trapline::cli
