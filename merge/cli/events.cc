// trapline events: lists and switches the events of a running program, through its monitor socket
// or, for QEMU, through QMP.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/events/client.h"
#include "merge/cli/common.h"

namespace trapline::cli {
namespace {

struct EventsArguments {
  std::string monitor;
  std::string qmp;
  std::string pattern;
  std::string state;
  std::string trace_file;
};

Result<std::unique_ptr<EventControl>> connect(const EventsArguments& options) {
  if (options.monitor.empty() == options.qmp.empty())
    return fail(ErrorKind::kUsage, "give one of --monitor SOCKET and --qmp SOCKET");
  return options.qmp.empty() ? connect_monitor(options.monitor) : connect_qmp(options.qmp);
}

// Interprets --trace-file and the words after it. Returns the action or, for "set PATH" (the words
// of QEMU's monitor), the path.
Result<std::string> trace_file_action(const EventsArguments& options) {
  const bool set = options.trace_file == "set";
  const std::string& left_over = set ? options.state : options.pattern;
  if (!left_over.empty()) {
    return fail(ErrorKind::kUsage, "--trace-file {}: '{}' is one word too many",
                set ? "set " + options.pattern : options.trace_file, left_over);
  }
  if (!set) {
    constexpr std::string_view kActions[] = {"on", "off", "flush", "status"};
    const std::string& action = options.trace_file;
    if (action.find('/') == std::string::npos && !action.starts_with("layout=") &&
        std::ranges::find(kActions, action) == std::end(kActions)) {
      return fail(ErrorKind::kUsage,
                  "--trace-file {}: expected on, off, flush, status, layout=qemu|rfc, or set and "
                  "the path of the new file",
                  action);
    }
    return action;
  }
  if (options.pattern.empty()) {
    return fail(ErrorKind::kUsage,
                "--trace-file set: give the path of the new file; for one that is called set: "
                "--trace-file ./set");
  }
  // A path without "/" could have the name of an action.
  return options.pattern.find('/') == std::string::npos ? "./" + options.pattern : options.pattern;
}

Result<void> control(const EventsArguments& options) {
  std::string action;
  if (!options.trace_file.empty()) {
    if (auto named = assign(action, trace_file_action(options)); !named) return named;
  }
  auto program = connect(options);
  if (!program) return tl::unexpected(program.error());
  if (!action.empty()) {
    auto answer = (*program)->trace_file(action);
    if (!answer) return tl::unexpected(answer.error());
    if (const auto text = trimmed(*answer); !text.empty()) fmt::print("{}\n", printable(text));
    return {};
  }
  if (!options.state.empty()) {
    if (options.state != "on" && options.state != "off") {
      return fail(ErrorKind::kUsage, "expected on or off after the pattern, not '{}'",
                  options.state);
    }
    return (*program)->set(options.pattern, options.state == "on");
  }
  auto states = (*program)->list(options.pattern.empty() ? "*" : options.pattern);
  if (!states) return tl::unexpected(states.error());
  return print_to({}, [&](std::ostream& out) {
    for (const EventState& event : *states)
      out << fmt::format("{} : state {}\n", printable(event.name), event.on ? 1 : 0);
  });
}

}  // namespace

void add_events(CLI::App& app, int& status) {
  auto options = std::make_shared<EventsArguments>();
  CLI::App* command =
      app.add_subcommand("events", "List and switch the trace events of a running program");
  command->add_option("pattern", options->pattern, "Names to list or switch (* and ?)");
  command->add_option("state", options->state, "on or off; without it the events are listed");
  const OptionGroup rest(*command, kRest);
  rest.add("--monitor", options->monitor, "SOCKET",
           "Monitor socket of a program with Trapline's backend");
  rest.add("--qmp", options->qmp, "SOCKET", "QEMU's QMP socket");
  rest.add("--trace-file", options->trace_file, "ACTION",
           "Control the trace file: on, off, flush, status, layout=qemu|rfc (docs/backend.md), "
           "or set PATH, a new one");
  on_run(*command, status, options, control);
}

}  // namespace trapline::cli
