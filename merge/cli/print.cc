// trapline print: the events of a simpletrace file.
#include <fmt/format.h>

#include <string>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/simpletrace/reader.h"
#include "backend_ftrace/tracetool/event_text.h"
#include "backend_ftrace/tracetool/trace_events.h"
#include "merge/cli/common.h"

namespace trapline::cli {
namespace {

struct PrintArguments {
  std::string file;
  std::string events = tracetool::kInstalledTraceEvents;
  std::string format = "fields";
};

std::string text_line(const simpletrace::Record& record) {
  std::string line = fmt::format("{} {} ", seconds_text(record.timestamp), record.pid);
  if (record.dropped) return line + fmt::format("{} events dropped", record.count);
  line += record.name.empty() ? fmt::format("event_{}", record.id)
                              : std::string(record.name.substr(0, tracetool::kMostEventText));
  line += ' ';
  if (record.event != nullptr)
    tracetool::append_text(*record.event, record.values, line, tracetool::kMostEventText);
  return printable(line);
}

Result<void> print_records(simpletrace::Reader& reader, const PrintArguments& options,
                           std::ostream& out) {
  simpletrace::Record record;
  std::optional<std::uint64_t> previous;
  while (out) {
    auto more = reader.next(record);
    if (!more) return tl::unexpected(more.error());
    if (!*more) break;
    out << (options.format == "text" ? text_line(record) : simpletrace::line_of(record, previous))
        << '\n';
    previous = record.timestamp;
  }
  return {};
}

Result<void> print(const PrintArguments& options) {
  if (auto given = give_up_root({{options.file, options.events}, {}}); !given) return given;
  auto declarations = tracetool::read_trace_events(options.events);
  if (!declarations) return tl::unexpected(declarations.error());
  auto reader = simpletrace::Reader::open(options.file, *declarations);
  if (!reader) return tl::unexpected(reader.error());
  Result<void> read;
  auto printed =
      print_to({}, [&](std::ostream& out) { read = print_records(*reader, options, out); });
  if (!read) return read;
  if (!printed) return printed;
  if (reader->undecoded() != 0) {
    say(fmt::format(
        "{} events are not declared in {} as they were recorded; give the trace-events-all of the "
        "program that wrote the file",
        reader->undecoded(), options.events));
  }
  if (reader->cut_bytes() != 0) {
    return fail(ErrorKind::kDamaged, "{}: cut off: the last {} bytes are not a complete record",
                options.file, reader->cut_bytes());
  }
  return {};
}

}  // namespace

void add_print(CLI::App& app, int& status) {
  auto options = std::make_shared<PrintArguments>();
  CLI::App* command = app.add_subcommand("print", "Print a simpletrace file");
  command
      ->add_option("file", options->file,
                   "A file written by QEMU's simple backend, or by Trapline's")
      ->required();
  const OptionGroup rest(*command, kRest);
  rest.add("--events", options->events, "FILE",
           "The trace-events-all that the program was built with")
      ->capture_default_str();
  OptionGroup(*command, kOutput)
      .choice("--format", options->format, {"fields", "text"},
              "text: each event with its own format string");
  on_run(*command, status, options, print);
}

}  // namespace trapline::cli
