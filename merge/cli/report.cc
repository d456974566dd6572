// trapline report: shows where the time of the VM exits went.
#include <fmt/format.h>

#include <sstream>

#include "backend_ftrace/base/text.h"
#include "merge/cli/browser.h"
#include "merge/cli/common.h"
#include "merge/cli/perfetto_ui.h"
#include "merge/explain/guest_spans.h"
#include "merge/render/page/page_data.h"
#include "merge/render/print.h"
#include "merge/report/notes.h"
#include "merge/report/report.h"
#include "merge/report/run.h"
#include "merge/report/table_kinds.h"

namespace trapline::cli {
namespace {

struct ReportArguments {
  PassOptions pass;
  ReportOptions report;
  std::string sort, guest_span;
  std::vector<std::string> spans;
  std::string format = "text";
  std::optional<std::size_t> budget_kb;
  Output output;
  bool strict = false;
  std::string open;  // "true": the page; "perfetto"
  const CLI::Option *by = nullptr, *format_option = nullptr;
};

bool wants_page(const ReportArguments& options) {
  return options.format == "html" || options.format == "page-data";
}

tl::unexpected<Error> no_guest_span() {
  return fail(ErrorKind::kUsage, "--by guest-span needs the intervals, for example --guest-span {}",
              example_guest_span());
}

// Prepares the intervals of --guest-span for the page, which shows them beside its other tables.
Result<void> complete_guest_spans(ReportArguments& options) {
  if (options.report.by_text == "guest-span") {
    if (options.guest_span.empty()) return no_guest_span();
    options.report.by_text = "reason";
  }
  if (options.guest_span.empty()) return {};
  if (!options.pass.which.vcpu_and_exit_words().empty()) {
    return fail(ErrorKind::kUsage,
                "--guest-span with {}: the guest's intervals are of all exits, and may end on any "
                "vCPU; give one without the other",
                options.pass.which.vcpu_and_exit_words().front());
  }
  return assign(options.pass.guest_intervals, parse_guest_span(options.guest_span));
}

// Refuses options that choose exits if a page is wanted: the page has all exits.
Result<void> check_page_words(const ReportArguments& options) {
  if (wants_page(options) && !options.pass.which.exits.empty()) {
    return fail(ErrorKind::kUsage, "{} needs --format text, json or csv; the page has all exits",
                options.pass.which.exits.text());
  }
  return options.format == "html" ? check_page() : Result<void>();
}

// Checks the options and parses those that are stored as text, before anything is read.
Result<void> complete(ReportArguments& options) {
  if (auto checked = check_page_words(options); !checked) return checked;
  if (options.budget_kb && options.format != "json")
    return fail(ErrorKind::kUsage, "--budget needs --format json");
  if (auto checked = complete_guest_spans(options); !checked) return checked;
  options.report.by_default = options.by->count() == 0;
  options.report.halts = !options.pass.which.exits.reason.empty();
  options.report.requests = options.report.by_text == "span";
  for (const std::string& text : options.spans) {
    auto spec = parse_request_spec(text);
    if (!spec) return tl::unexpected(std::move(spec).error());
    options.pass.requests.push_back(std::move(*spec));
  }
  if (!options.spans.empty() && !options.report.requests)
    return fail(ErrorKind::kUsage, "--span needs --by span");
  if (options.report.requests && !options.pass.which.exits.empty()) {
    return fail(ErrorKind::kUsage,
                "--by span with {}: requests are no exits; give one without the other",
                options.pass.which.exits.text());
  }
  if (!options.report.requests) {
    auto dimensions = parse_dimensions(options.report.by_text, "span or guest-span");
    if (auto parsed = assign(options.report.by, std::move(dimensions)); !parsed) return parsed;
  }
  if (!options.report.phases.empty()) options.report.tables["--phases"];
  if (options.report.asks("--phases") && !options.pass.which.exits.empty()) {
    return fail(ErrorKind::kUsage,
                "--phases with {}: an exit may begin a phase; give one without the other",
                options.pass.which.exits.text());
  }
  // Programs read JSON and CSV, so these keep the order of earlier versions, by total.
  const std::string order = options.format == "text" ? "share" : "total";
  auto sort = parse_sort(options.sort.empty() ? order : options.sort);
  if (auto parsed = assign(options.report.sort, sort); !parsed) return parsed;
  if (auto tables = make_tables(options.report); !tables)
    return tl::unexpected(std::move(tables).error());
  return {};
}

RecordingWords words_of(const ReportArguments& options) {
  std::vector<std::string> recording = recording_words(options.pass.input);
  for (std::string& word : options.pass.which.vcpu_and_exit_words())
    recording.push_back(std::move(word));
  const std::string interval = shell_text(options.pass.which.time_words());
  return {shell_text(recording), interval.empty() ? "" : " " + interval};
}

// Returns the command that prints all of the report's JSON.
std::string command_for_all(const ReportArguments& options) {
  const RecordingWords words = words_of(options);
  std::string command = fmt::format("trapline report {}{} --by {}", words.recording, words.interval,
                                    options.report.by_text);
  for (const auto& [option, value] : options.report.tables)
    command += ' ' + option + (value.empty() ? "" : ' ' + value);
  return command + " --format json";
}

// Prints the report in the format that was asked for. `recording`: the page's data, for a page.
Result<void> print_report(const ReportData& data, const std::string& recording,
                          const ReportArguments& options) {
  const Report report = make_report(data, words_of(options));
  std::string within;
  if (options.budget_kb) {
    auto text = report_within(report, command_for_all(options), *options.budget_kb * kKib);
    if (auto fits = assign(within, std::move(text)); !fits) return fits;
  }
  if (!wants_page(options) && !options.budget_kb)
    return print_as(options.format, report, options.output);
  return print_to(options.output, [&](std::ostream& out) {
    if (options.budget_kb) {
      out << within;
    } else if (options.format == "html") {
      print_page(page_json({&recording, 1}), out);
    } else {
      out << page_json({&recording, 1}) << '\n';
    }
  });
}

// Writes the page to -o or to a temporary file, prints the file's name, and opens it in the
// browser.
Result<void> open_page(const std::string& recording, const ReportArguments& options) {
  const std::string json = page_json({&recording, 1});
  std::string path = options.output.file;
  if (path.empty()) {
    std::ostringstream text;
    print_page(json, text);
    auto written = assign(path, write_temporary(text.str(), ".html"));
    if (!written) return written;
  } else if (auto printed =
                 print_to(options.output, [&](std::ostream& out) { print_page(json, out); });
             !printed) {
    return printed;
  }
  fmt::print("{}\n", path);
  if (const std::string reason = open_in_browser(path); !reason.empty())
    say(reason + "; open this file in a browser");
  return {};
}

// Parses the options of --by guest-span, which reports intervals that the guest recorded, instead
// of exits.
Result<GuestSpanSpec> guest_spans_of(const ReportArguments& options) {
  if (options.guest_span.empty()) return no_guest_span();
  if (options.report.by_text != "guest-span")
    return fail(ErrorKind::kUsage, "--guest-span needs --by guest-span, or --format html");
  const ReportOptions& report = options.report;
  if (!report.tables.empty() || !report.phases.empty() || !options.spans.empty() ||
      !options.pass.which.empty() || options.budget_kb) {
    return fail(ErrorKind::kUsage,
                "--by guest-span as text, JSON or CSV takes --guest-span and --top only; "
                "--format html has other tables beside it");
  }
  return parse_guest_span(options.guest_span);
}

Result<void> run_guest_spans(ReportArguments& options) {
  auto parsed = assign(options.pass.guest_intervals, guest_spans_of(options));
  if (!parsed) return parsed;
  auto spans = trapline::run_guest_spans(options.pass, 0, progress_line());
  if (!spans) return tl::unexpected(spans.error());
  return print_as(options.format, make_span_report(*spans, options.report.top), options.output);
}

Result<ReportRun> run_page(const ReportArguments& options, const Progress& progress) {
  ReportOptions about = page_options(options.pass);
  about.phases = options.report.phases;
  for (const TableKind& kind : table_kinds()) {
    const auto requested = options.report.tables.find(kind.option);
    if (kind.in_page != InPage::kIfRequested || requested == options.report.tables.end()) continue;
    about.tables.insert(*requested);
    // --phase alone asks for the table of phases.
    if (kind.option == "--phases" && !about.phases.empty()) continue;
    about.command.emplace_back(kind.option);
    if (!requested->second.empty()) about.command.push_back(requested->second);
  }
  for (const std::string& phase : about.phases)
    about.command.insert(about.command.end(), {"--phase", phase});
  return run_page(options.pass, about, progress);
}

Result<int> run_report(ReportArguments& options) {
  const bool opens = !options.open.empty();
  if (options.open == "perfetto") {
    if (options.format_option->count() != 0 || !options.output.file.empty())
      return fail(ErrorKind::kUsage, "--open=perfetto takes no --format and no -o");
    return open_in_perfetto(options.pass).map([] { return 0; });
  }
  if (opens) {
    if (options.open != "true")
      return fail(ErrorKind::kUsage, "--open={}: give --open, or --open=perfetto", options.open);
    if (options.format_option->count() != 0 && options.format != "html")
      return fail(ErrorKind::kUsage, "--open needs --format html");
    if (options.output.file == "-") {
      return fail(ErrorKind::kUsage,
                  "--open opens a file, and -o - names none; leave one of them out");
    }
    options.format = "html";
  }
  if (auto begun = begin_reading(options.pass.input, options.output, opens); !begun)
    return tl::unexpected(begun.error());
  const bool guest_spans = options.report.by_text == "guest-span" || !options.guest_span.empty();
  if (guest_spans && !wants_page(options)) return run_guest_spans(options).map([] { return 0; });
  if (auto checked = complete(options); !checked) return tl::unexpected(checked.error());
  options.output.verbose = options.pass.input.verbose;
  auto run = [&] {
    return wants_page(options) ? run_page(options, progress_line())
                               : run_report(options.pass, options.report, progress_line());
  }();
  if (!run) return tl::unexpected(run.error());
  if (auto printed = opens ? open_page(run->recording, options)
                           : print_report(run->report, run->recording, options);
      !printed)
    return tl::unexpected(printed.error());
  if (!run->status) return tl::unexpected(run->status.error());
  const ReportCounters& counters = run->report.counters;
  if (counters.gaps == 0 && run->report.missing.empty()) return 0;
  if (counters.gaps != 0) say(losses_note(counters));
  for (const std::string& sentence : run->report.missing) say(sentence);
  return options.strict ? static_cast<int>(ErrorKind::kDamaged) : 0;
}

}  // namespace

void add_report(CLI::App& app, int& status) {
  auto options = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand("report", "Print where the time of the VM exits went");
  add_input_options(*command, options->pass.input);
  const OptionGroup tables(*command, kTables), output(*command, kOutput);
  options->by =
      tables
          .add("--by", options->report.by_text, "LIST",
               "Rows (default: reason): " + dimension_names() + ", or span. detail: port, address")
          ->capture_default_str();
  tables.add("--span", options->spans, "SPEC", "Your requests (--by span): START:FIELD..END:FIELD");
  tables.rare().add("--guest-span", options->guest_span, "SPEC",
                    "With --by guest-span or --format html, the intervals: START:FIELD..END:FIELD "
                    "of the guest kernel's recorded events, function:NAME, or marker:TEXT");
  tables.add("--sort", options->sort, "COLUMN", "Column to sort by; \"key\" sorts by rows' names");
  tables.add("--top", options->report.top, "", "The first N rows of each long table");
  for (const TableKind& kind : table_kinds()) tables.table(kind, options->report.tables);
  tables.rare().add(
      "--phase", options->report.phases, "SPEC",
      "NAME=PATTERN: a phase of --phases begins where the guest's console or a marker "
      "says PATTERN, at function:NAME, or at an exit from a guest address in "
      "0xFIRST..0xLAST; repeatable");
  add_selection(*command, options->pass.which);
  options->format_option =
      output.choice("--format", options->format, {"text", "json", "csv", "html", "page-data"},
                    "html: a page for a browser; page-data: its JSON");
  output.rare().flag("--open", options->open,
                     "Open the page in a browser, without -o a temporary file; --open=perfetto: "
                     "in ui.perfetto.dev, which reads it from this machine");
  output.rare().size("--budget", options->budget_kb, kKib, 1, 1 << 20,
                     "With --format json: what matters most in so many bytes, and the command "
                     "for the rest");
  add_output(output, options->output, "Write to this file", true);
  output.rare().flag("--strict", options->strict, "Exit with status 3 when events were lost");
  on_run(*command, status, options, run_report);
}

}  // namespace trapline::cli
