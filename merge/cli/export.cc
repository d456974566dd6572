// trapline export: the timeline's spans in the formats of other tools.
#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "merge/cli/browser.h"
#include "merge/cli/common.h"
#include "merge/cli/perfetto_ui.h"
#include "merge/explain/guest_spans.h"
#include "merge/export/exporter.h"
#include "merge/pass/pass.h"
#include "merge/report/options.h"
#include "merge/session/host_facts.h"

namespace trapline::cli {
namespace {

struct ExportArguments {
  PassOptions pass;
  ExportOptions how;
  bool list = false, allow_empty = false;
  UniqueFd perfetto;  // listens for Perfetto's UI; unset: a file is written
};

Result<void> print_formats() {
  for (const ExportFormat& format : export_formats())
    fmt::print("{:<9} {}\n", format.name, format.what);
  return {};
}

// Sets the machine and the folder that rows are labelled with, if the user gives no others.
void complete_labels(ExportArguments& options, const Timeline& timeline) {
  if (options.how.session.empty()) options.how.session = options.pass.input.paths.front();
  if (!options.how.host.empty()) return;
  for (const auto& [name, text] : timeline.source(0).facts()) {
    if (name != "host") continue;
    const auto start = text.find(' ');
    if (start == std::string::npos) continue;
    options.how.host = text.substr(start + 1, text.find(' ', start + 1) - start - 1);
  }
}

// Checks that uftrace's folder does not have the name of a file or a device, which --force would
// not replace.
Result<void> check_folder(const std::string& output) {
  std::error_code none;
  const auto there = std::filesystem::status(output, none);
  if (output == "-" || !std::filesystem::exists(there) || std::filesystem::is_directory(there))
    return {};
  return fail(ErrorKind::kUsage,
              "{} is not a folder, and uftrace's format is one; choose another name with -o",
              output);
}

// Checks the options and parses those that are stored as text, before anything is read.
Result<void> complete_export(ExportArguments& options) {
  if (const auto format = find_export_format(options.how.format); !format)
    return tl::unexpected(format.error());
  if (options.how.output.empty() && !options.perfetto)
    return fail(ErrorKind::kUsage, "-o: name the file to write, or - for the standard output");
  if (options.how.format == "uftrace") {
    if (auto checked = check_folder(options.how.output); !checked) return checked;
  }
  if (auto begun = begin_reading(options.pass.input, {options.how.output, options.how.force},
                                 static_cast<bool>(options.perfetto));
      !begun)
    return begun;
  if (options.perfetto) {
    auto made = assign(options.how.output, write_temporary("", ".pftrace"));
    if (!made) return made;
  }
  if (options.how.kernel && (options.how.format != "folded" || options.how.weight != "time"))
    return fail(ErrorKind::kUsage, "--kernel needs --format folded, and takes no --weight");
  const std::string& format_name = options.how.format;
  const bool rows = format_name == "jsonl" || format_name == "arrays" || format_name == "csv";
  const bool guest_rows = rows && options.how.rows == "guest-spans";
  if (rows && options.how.rows != "exits" && options.how.rows != "faults" &&
      options.how.rows != "working-set" && !options.pass.which.exits.empty()) {
    return fail(ErrorKind::kUsage, "--rows {} with {}: these rows are no exits; give one of them",
                options.how.rows, options.pass.which.exits.text());
  }
  if (options.how.guest_span.empty()) {
    if (!guest_rows) return {};
    return fail(ErrorKind::kUsage,
                "--rows guest-spans needs the intervals, for example --guest-span {}",
                example_guest_span());
  }
  if (!guest_rows && options.how.format != "perfetto") {
    return fail(
        ErrorKind::kUsage,
        "--guest-span needs --format perfetto, or jsonl, arrays or csv with --rows guest-spans");
  }
  return assign(options.pass.guest_intervals, parse_guest_span(options.how.guest_span));
}

Result<void> run_export(ExportArguments& options) {
  if (options.list) return print_formats();
  if (options.how.format.empty()) {
    return fail(ErrorKind::kUsage,
                "export: name a format, as in: trapline export run --format perfetto -o "
                "run.pftrace");
  }
  if (auto named = name_recording(options.pass.input.paths); !named) return named;
  if (auto checked = complete_export(options); !checked) return checked;
  const Progress progress = progress_line();
  auto pass = Pass::open(options.pass, progress);
  if (!pass) return tl::unexpected(std::move(pass).error());
  const Timeline& timeline = pass->timeline();
  complete_labels(options, timeline);
  HostFacts host = host_facts_of(timeline.source(0));
  std::vector<std::string> notes = pass->input().notes;
  for (const auto& [name, text] : host.of_session) notes.push_back(name + ": " + text);
  auto exporter = make_exporter(
      {timeline, std::move(notes), std::move(host.wall_clock), std::move(host.boot_id)},
      options.how);
  if (!exporter) return tl::unexpected(std::move(exporter).error());
  const auto end =
      std::move(*pass).run({exporter->get()}, progress, [&] { return (*exporter)->failed(); });
  if (!end) return tl::unexpected(end.error());
  if (options.pass.guest_intervals) {
    if (auto found = check_guest_intervals(*end); !found) return found;
  }
  if (auto found = end->check_names(); !found) return found;
  if (end->status() && (*exporter)->is_empty(end->naming()) && !options.allow_empty) {
    return fail(
        end->pipeline().is_window() ? ErrorKind::kUsage : ErrorKind::kRuntime,
        "{0}: nothing to export: there are no {1}, or none that was asked for; see what was "
        "recorded: trapline info {0}; --allow-empty writes the file all the same",
        options.pass.input.paths.front(),
        options.how.format == "folded" ? "exits" : "rows of " + options.how.rows);
  }
  if (auto finished = (*exporter)->finish(end->naming()); !finished) return finished;
  if (!options.perfetto) return end->status();
  auto shown = show_in_perfetto(options.how.output, std::move(options.perfetto));
  return shown ? end->status() : shown;
}

void add_row_options(CLI::App& command, ExportArguments& options) {
  const OptionGroup rest(command, kRest);
  rest.add("--rows", options.how.rows, "ROWS",
           fmt::format("With --format jsonl, arrays or csv, the rows: {}", rows_values()))
      ->capture_default_str();
  OptionGroup(command, kTables)
      .add("--guest-span", options.how.guest_span, "SPEC",
           "Export these intervals of the guest as well, with what the host did in each: "
           "START:FIELD..END:FIELD, function:NAME or marker:TEXT, as for report");
  rest.add("--weight", options.how.weight, "WEIGHT",
           fmt::format("With --format folded, what the numbers are: {}", kWeightValues))
      ->capture_default_str();
  rest.rare().flag("--kernel", options.how.kernel,
                   "With --format folded, only the kernel's time in exits: reason, its functions "
                   "and handlers one in the other, untraced");
  rest.add("--host", options.how.host, "NAME",
           "Name of the host in the rows (default: that of the recorded host)");
  rest.add("--session", options.how.session, "NAME",
           "The session's name in rows (default: the path)");
}

}  // namespace

Result<void> open_in_perfetto(const PassOptions& pass) {
  auto listening = listen_for_perfetto();
  if (!listening) return tl::unexpected(std::move(listening).error());
  ExportArguments options;
  options.pass = pass;
  options.how.format = "perfetto";
  options.how.force = true;
  options.perfetto = std::move(*listening);
  auto done = run_export(options);
  std::error_code is_gone;  // show_in_perfetto() may already have removed the file
  std::filesystem::remove(options.how.output, is_gone);
  return done;
}

void add_export(CLI::App& app, int& status) {
  auto options = std::make_shared<ExportArguments>();
  CLI::App* command =
      app.add_subcommand("export", "Write exits and other spans in the formats of other tools");
  add_input_options(*command, options->pass.input);
  add_selection(*command, options->pass.which);
  const OptionGroup rest(*command, kRest), output(*command, kOutput);
  output.add("--format", options->how.format, "FORMAT", "The format: see --list");
  rest.flag("--list", options->list, "List the formats");
  add_row_options(*command, *options);
  rest.flag("--events", options->how.events, "Export the kernel's events too (--format perfetto)");
  output.add("-o,--output", options->how.output, "FILE", "Write to this file; - is stdout");
  output.flag("--allow-empty", options->allow_empty,
              "Write a file without rows where there is nothing to export; else that is an error");
  output.flag("--force", options->how.force, "Replace the file if it exists");
  on_run(*command, status, options, run_export);
}

}  // namespace trapline::cli
