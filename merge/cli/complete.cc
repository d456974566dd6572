// trapline complete: for the shells' completions, not for people, so --help does not list it.
// Without words it prints the options of all commands as a table, which
// scripts/packaging/completions.py reads. With COMMAND OPTION WORDS... it prints the values that
// depend on this machine or on a recording among the words.
#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <set>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/events/client.h"
#include "backend_ftrace/tracetool/trace_events.h"
#include "merge/cli/commands.h"
#include "merge/cli/help.h"
#include "merge/export/exporter.h"
#include "merge/record/threads.h"
#include "merge/report/dimensions.h"
#include "merge/report/run.h"
#include "merge/session/open.h"
#include "merge/source/timeline.h"

namespace trapline::cli {
namespace {

using Values = std::vector<std::string>;

constexpr const char* kTracing = "/sys/kernel/tracing";

Values lines_of(const std::string& path) {
  std::ifstream in(path);
  Values lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Splits "reason, detail, …".
Values values_of(std::string_view list) {
  Values values;
  for (const std::string_view value : split(list, ',')) values.emplace_back(trimmed(value));
  return values;
}

std::string format_names() {
  std::string names;
  for (const ExportFormat& format : export_formats())
    names += (names.empty() ? "" : ",") + std::string(format.name);
  return names;
}

// An option's values that depend only on the program; `command` is empty if all commands have them.
struct Fixed {
  std::string_view command, option;
  std::string values;
};
const std::vector<Fixed>& fixed() {
  static const std::vector<Fixed> kFixed = {
      {"", "--by", "span," + dimension_names()},
      {"", "--sort", fmt::format("{}", fmt::join(kSortNames, ","))},
      {"explain", "--around", "max"},
      {"timeline", "--around", "max"},
      {"export", "--rows", rows_values()},
      {"export", "--weight", std::string(kWeightValues)},
      {"export", "--format", format_names()},
      {"events", "--trace-file", "on,off,flush,status,layout=qemu,layout=rfc"}};
  return kFixed;
}

Values fixed_values(const std::string& command, const std::string& option,
                    const std::string& argument) {
  for (const Fixed& one : fixed()) {
    if (one.option == option && (one.command.empty() || one.command == command))
      return values_of(one.values);
  }
  const auto values = split(argument, '|');
  return values.size() == 1 ? Values() : Values(values.begin(), values.end());
}

InputOptions recordings_among(const Values& words) {
  Needs needs;
  for (const std::string& word : words)
    if (!word.starts_with('-') && is_there(word)) needs.inputs.push_back(word);
  InputOptions input;
  if (!give_up_root(needs)) return input;
  for (const std::string& path : needs.inputs)
    if (recognise(path)) input.paths.push_back(path);
  return input;
}

// Makes the report of the recordings among the words. Returns the values that `row` takes from the
// report.
Values of_report(const Values& words, const std::function<void(const ReportData&, Values&)>& row) {
  PassOptions what;
  what.input = recordings_among(words);
  if (what.input.paths.empty()) return {};
  const auto run = run_report(what, ReportOptions(), {});
  Values values;
  if (run) row(run->report, values);
  return values;
}

Values reasons(const Values& words) {
  return of_report(words, [](const ReportData& report, Values& values) {
    for (const GroupRow& row : report.rows) values.push_back(row.key);
  });
}

Values vcpus(const Values& words) {
  return of_report(words, [](const ReportData& report, Values& values) {
    for (const VcpuRow& vcpu : report.vcpus) values.push_back(std::to_string(vcpu.vcpu));
  });
}

Values vms(const Values& words) {
  return of_report(words, [](const ReportData& report, Values& values) {
    for (const VcpuRow& vcpu : report.vcpus) values.push_back(vcpu.vm);
  });
}

// Returns whether the text may be the name of an event of QEMU, and not another program's marker.
bool is_event_name(std::string_view text) {
  return text.find('_') != std::string_view::npos &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

// Returns QEMU's events in the recordings, as the start of a request.
Values request_starts(const Values& words) {
  const InputOptions named = recordings_among(words);
  if (named.paths.empty()) return {};
  auto input = open_input(named);
  if (!input) return {};
  Timeline timeline(std::move(input->sources));
  std::set<std::string> names;
  Event event;
  while (timeline.next(event) == Read::kEvent) {
    if (const auto* marker = std::get_if<Marker>(&event.payload)) {
      const std::string_view name = marker->text.substr(0, marker->text.find_first_of(" :("));
      if (is_event_name(name)) names.insert(std::string(name) + ':');
    }
  }
  return {names.begin(), names.end()};
}

Values clocks(const Values&) {
  Values values;
  for (std::string& line : lines_of(std::string(kTracing) + "/trace_clock")) {
    std::erase_if(line, [](char c) { return c == '[' || c == ']'; });
    for (const std::string_view word : split(line, ' '))
      if (!word.empty()) values.emplace_back(word);
  }
  return values;
}

Values qemu_events(const Values&) {
  Values values;
  const auto file = tracetool::read_trace_events(tracetool::kInstalledTraceEvents);
  if (!file) return values;
  for (const tracetool::Event& event : file->events) values.push_back(event.name);
  return values;
}

Values users(const Values&) {
  Values values;
  for (const std::string& line : lines_of("/etc/passwd"))
    values.push_back(line.substr(0, line.find(':')));
  return values;
}

Values processes(const Values&) {
  Values values;
  for (const pid_t process : record::numbers_in("/proc")) values.push_back(std::to_string(process));
  return values;
}

// Returns the events of the program whose socket --monitor or --qmp names.
Values events_of_program(const Values& words) {
  Values values{"on", "off"};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const bool qmp = words[i] == "--qmp";
    if (!qmp && words[i] != "--monitor") continue;
    auto program = qmp ? connect_qmp(words[i + 1]) : connect_monitor(words[i + 1]);
    const auto events = program ? (*program)->list("*") : fail("none");
    for (std::size_t at = 0; events && at < events->size(); ++at)
      values.push_back((*events)[at].name);
  }
  return values;
}

// A function that finds the values of an option or, if `option` is "", of a command's words.
struct Completed {
  std::string_view command, option;
  Values (*values)(const Values& words);
};
constexpr Completed kCompleted[] = {
    {"record", "--events",
     [](const Values&) { return lines_of(std::string(kTracing) + "/available_events"); }},
    {"record", "--clock", clocks},
    {"record", "--qemu-events", qemu_events},
    {"record", "--user", users},
    {"", "--pid", processes},
    {"", "--reason", reasons},
    {"", "--vcpu", vcpus},
    {"", "--vm", vms},
    {"", "--span", request_starts},
    {"events", "", events_of_program}};

const Completed* completed(const std::string& command, const std::string& option) {
  for (const Completed& one : kCompleted)
    if (one.option == option && (one.command.empty() || one.command == command)) return &one;
  return nullptr;
}

bool names_a_file(const std::string& argument) {
  return argument.starts_with("FILE") || argument.starts_with("DIR") || argument == "SOCKET" ||
         argument == "DEVICE" || argument == "PROGRAM";
}

// Prints COMMAND, names separated by commas, argument, how its values are found, values, text;
// separated by tabs.
void print_table(const CLI::App& app) {
  std::string helped;
  for (const Topic& topic : topics()) helped += std::string(topic.name) + ' ';
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty()) helped += command->get_name() + ' ';
  const auto print_options = [&helped](const CLI::App& command, const std::string& name) {
    fmt::print("{}\t\t\t{}\t{}\t{}\n", name, completed(name, "") != nullptr ? "ask" : "files",
               name == "help" ? helped : "", command.get_description());
    for (const CLI::Option* option : command.get_options()) {
      if (!option->nonpositional() || option->get_group().empty()) continue;
      const std::string argument = argument_of(*option),
                        long_name = "--" + option->get_single_name();
      const Values values = fixed_values(name, long_name, argument);
      const char* how = argument.empty()                        ? "none"
                        : !values.empty()                       ? "list"
                        : completed(name, long_name) != nullptr ? "ask"
                        : names_a_file(argument)                ? "files"
                                                                : "any";
      fmt::print("{}\t{}\t{}\t{}\t{}\t{}\n", name, names_of(*option), argument, how,
                 fmt::join(values, " "), option->get_description());
    }
  };
  print_options(app, "");
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty()) print_options(*command, command->get_name());
}

}  // namespace

void add_complete(CLI::App& app, int&) {
  auto words = std::make_shared<Values>();
  CLI::App* command = app.add_subcommand("complete", "For the completions of shells")->group("");
  command->add_option("WORDS", *words, "COMMAND OPTION WORDS...");
  command->callback([&app, words] {
    if (words->size() < 2) return print_table(app);
    const Completed* one = completed((*words)[0], (*words)[1]);
    if (one == nullptr) return;
    const Values values = one->values(Values(words->begin() + 2, words->end()));
    for (const std::string& value : std::set(values.begin(), values.end()))
      fmt::print("{}\n", printable(value));
  });
}

}  // namespace trapline::cli
