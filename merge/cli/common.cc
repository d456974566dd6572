#include "merge/cli/common.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/message.h"
#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "merge/export/output_file.h"
#include "merge/record/flight_store.h"
#include "merge/record/recorder.h"
#include "merge/record/vm_names.h"
#include "merge/render/ordered_json.h"
#include "merge/source/stream_copy.h"

namespace trapline::cli {

void say(std::string_view message) { trapline::say("trapline", message); }

int fail_with(const Error& error) {
  const char* form = std::getenv("TRAPLINE_ERRORS");
  if (form == nullptr || std::string_view(form) != "json") {
    say(error.message);
    return static_cast<int>(error.kind);
  }
  const std::string_view kind = error.kind == ErrorKind::kUsage     ? "usage"
                                : error.kind == ErrorKind::kDamaged ? "damaged"
                                                                    : "runtime";
  const Json json = {
      {"error",
       {{"kind", kind}, {"status", static_cast<int>(error.kind)}, {"message", error.message}}}};
  std::fputs((json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n').c_str(), stderr);
  return static_cast<int>(error.kind);
}

void add_time_units(const OptionGroup& group, InputOptions& options) {
  group.add("--tsc-khz", options.tsc_khz, "", "The TSC's frequency in kHz, for x86-tsc recordings");
  group.choice("--unit", options.unit, {"ns", "cycles"},
               "Unit of times in a text that are whole numbers");
}

void add_input_options(CLI::App& command, InputOptions& options) {
  const OptionGroup how(command, kHow), seldom = how.rare();
  refuse_empty(*command.add_option(
      "recording", options.paths,
      fmt::format("Session, trace.dat, perf.data, text, uftrace folder, QEMU log, simpletrace, - "
                  "(stdin); else {}",
                  record::kDefaultFolder)));
  how.add("--symbols", options.symbols, "FILE[@OFFSET]",
          "Guest symbols: ELF, kallsyms, System.map; repeatable");
  how.rare().add("--trace-events", options.trace_events, "FILE",
                 "QEMU's trace-events-all (default: the session's)");
  seldom.add("--offset", options.offsets, "SOURCE=NS",
             "Add NS to the times of recording SOURCE; repeatable");
  seldom
      .add("--rate-change", options.rate_change_ppm, "PPM",
           "Assume that clocks' rates change by at most PPM")
      ->transform(in_range(0.0, 1e5));
  seldom
      .add("--without", options.without, "PART",
           "Read a session without its recording PART (trace.dat, qemu.log, …); repeatable")
      ->allow_extra_args(false);
  add_time_units(seldom, options);
  how.flag("-v,--verbose", options.verbose, "Print the readers, clock evidence and symbols used");
}

void add_qemu_events(CLI::App& command, std::string_view group, std::vector<std::string>& patterns,
                     bool& none) {
  const OptionGroup qemu(command, group);
  CLI::Option* events =
      qemu.add("--qemu-events", patterns, "PATTERN",
               "QEMU's events, in place of memory_region_ops_*, which name the devices")
          ->delimiter(',')
          ->allow_extra_args(false);
  qemu.flag("--no-qemu-events", none, "Record none of QEMU's events")->excludes(events);
}

ReportOptions page_options(const PassOptions& pass) {
  ReportOptions options;
  options.by_default = options.page = true;
  for (const TableKind& kind : table_kinds())
    if (kind.in_page == InPage::kAlways) options.tables[std::string(kind.option)];
  options.tool = "trapline " TRAPLINE_VERSION;
  std::vector<std::string> words = recording_words(pass.input);
  for (std::string& word : pass.which.words()) words.push_back(std::move(word));
  options.recording = shell_text(words);
  options.command = std::move(words);
  options.command.insert(options.command.begin(), "report");
  return options;
}

std::vector<std::string> recording_words(const InputOptions& input) {
  std::vector<std::string> words = input.paths;
  const auto add = [&words](const char* name, const std::string& text) {
    if (!text.empty()) words.insert(words.end(), {name, text});
  };
  for (const std::string& symbols : input.symbols) add("--symbols", symbols);
  for (const std::string& offset : input.offsets) add("--offset", offset);
  if (input.rate_change_ppm) add("--rate-change", fmt::format("{}", *input.rate_change_ppm));
  add("--trace-events", input.trace_events);
  if (input.tsc_khz) add("--tsc-khz", std::to_string(*input.tsc_khz));
  add("--unit", input.unit);
  return words;
}

Progress progress_line() {
  if (::isatty(STDERR_FILENO) == 0) return {};
  struct Line {
    std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
    bool shown = false;
    ~Line() {
      if (shown) (void)std::fputs("\r\x1b[K", stderr);
    }
  };
  return [line = std::make_shared<Line>()](double share) {
    const auto now = std::chrono::steady_clock::now();
    if (now - line->last < std::chrono::seconds(1)) return;
    line->last = now;
    line->shown = true;
    const std::string text = fmt::format("\rtrapline: {:3.0f}% read", share * 100);
    (void)std::fputs(text.c_str(), stderr);
  };
}

namespace {

bool is_terminal() { return ::isatty(STDOUT_FILENO) != 0; }

// Returns the path of the flight recorder's last snapshot; empty if there is none.
std::string newest_snapshot() {
  const auto folder = Folder::open_to_read(record::kDefaultFlightFolder);
  const auto names = folder ? record::snapshots_in(*folder) : std::vector<std::string>();
  return names.empty() ? "" : folder->path() + '/' + names.back();
}

std::size_t stdout_width() {
  constexpr std::uint64_t kLeast = 40;
  const char* columns = std::getenv("COLUMNS");
  winsize size{};
  if (const auto wanted = columns == nullptr ? std::nullopt : parse_number(columns);
      wanted.value_or(0) >= kLeast) {
    return *wanted;
  }
  if (is_terminal() && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= kLeast)
    return size.ws_col;
  return TextStyle().width;
}

}  // namespace

void add_output(const OptionGroup& group, Output& output, const std::string& text, bool rare) {
  group.add("-o,--output", output.file, "FILE", text);
  (rare ? group.rare() : group).flag("--force", output.force, "Replace the file if it exists");
  add_color(group, output.color);
}

void add_color(const OptionGroup& group, std::string& color) {
  group.rare().choice("--color", color, {"auto", "always", "never"},
                      "Colours: auto: on a terminal, without NO_COLOR");
}

bool takes_colours(const std::string& color) {
  if (color != "auto") return color == "always";
  const char* terminal = std::getenv("TERM");
  return is_terminal() && terminal != nullptr && *terminal != '\0' &&
         std::string_view(terminal) != "dumb";
}

TextStyle style_of(const Output& output) {
  TextStyle style;
  style.verbose = output.verbose;
  if (output.file.empty()) {
    style.legend = is_terminal();
    style.width = stdout_width();
    style.colours = takes_colours(output.color);
  }
  return style;
}

Result<void> name_recording(std::vector<std::string>& paths) {
  if (!paths.empty()) return {};
  // Returns the user's own command with the recording inserted after the subcommand.
  const auto with = [](const std::string& recording) {
    std::vector<std::string> words = record::command_line_of(::getpid());
    if (words.size() < 2) return recording;
    words.front() = "trapline";
    words.insert(words.begin() + 2, recording);
    return shell_text(words);
  };
  struct stat input {};
  const bool stream =
      ::fstat(STDIN_FILENO, &input) == 0 && (S_ISFIFO(input.st_mode) || S_ISREG(input.st_mode));
  const bool is_here = is_there(record::kDefaultFolder);
  if (stream) {
    return fail(ErrorKind::kUsage, "no recording was given; to read stdin: {}{}",
                with(std::string(kStandardInput)),
                is_here ? fmt::format("; to read {}: {}", record::kDefaultFolder,
                                      with(record::kDefaultFolder))
                        : "");
  }
  if (is_here) {
    say(fmt::format("no recording was given; reading {}", record::kDefaultFolder));
    paths.emplace_back(record::kDefaultFolder);
    return {};
  }
  std::string command =
      is_there(record::kDefaultFlightFolder) ? "trapline snapshot" : "trapline record";
  for (const std::string& other :
       {newest_snapshot(), std::string("perf.data"), std::string("trace.dat")})
    if (is_there(other)) command = with(other);
  return fail(ErrorKind::kUsage, "no recording was given and {} does not exist here; try: {}",
              record::kDefaultFolder, command);
}

void add_needs(const InputOptions& input, Needs& needs) {
  for (const std::string& path : input.paths)
    if (path != kStandardInput) needs.inputs.push_back(path);
  for (const std::string& symbols : input.symbols)
    if (const auto spec = parse_symbol_file_spec(symbols)) needs.inputs.push_back(spec->path);
  if (!input.trace_events.empty()) needs.inputs.push_back(input.trace_events);
}

Result<void> begin_reading(InputOptions& input, const Output& output, bool browser) {
  if (auto named = name_recording(input.paths); !named) return named;
  if (auto checked = check_output(output.file, output.force, input.paths); !checked) return checked;
  Needs needs{{}, {output.file}, browser};
  add_needs(input, needs);
  return give_up_root(needs);
}

Result<void> print_to(const Output& output, const std::function<void(std::ostream&)>& print) {
  if (output.file.empty()) {
    print(std::cout);
    std::cout.flush();
    if (!std::cout) return fail("stdout: cannot write: {}", std::strerror(errno));
    return {};
  }
  auto file = OutputFile::create(output.file, output.force);
  if (!file) return tl::unexpected(std::move(file).error());
  OutputBuffer buffer(*file);
  std::ostream out(&buffer);
  print(out);
  return file->commit();
}

Result<void> print_as(const std::string& format, const Report& report, const Output& output) {
  return print_to(output, [&](std::ostream& out) {
    if (format == "json") return print_json(report, out);
    if (format == "csv") return print_csv(report, out);
    print_text(report, out, style_of(output));
  });
}

}  // namespace trapline::cli
