// trapline bench: records the same work again and again under two settings, and shows what differs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <random>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "merge/cli/common.h"
#include "merge/cli/compare_options.h"
#include "merge/record/recorder.h"
#include "merge/session/session_folder.h"
#include "merge/session/session_json.h"

namespace trapline::cli {
namespace {

struct BenchArguments {
  record::RecordOptions record;
  std::string a, b, folder = "bench.trapline", functions;
  std::vector<std::string> command;
  int ok_status = 0;
  std::uint64_t pairs = 5, warm_up = 1, seed = 1;
  bool no_qemu_events = false;
  Output terminal;
  CompareOptions compare;
  CompareChoice choice;
};

// One recording to be made.
struct Run {
  bool is_b = false, warm_up = false;
  std::string name;  // name of its session
};

// Returns the command to run: COMMAND with the setting's words in place of {}, or after it. Without
// COMMAND, the setting is the whole command.
std::vector<std::string> command_of(const BenchArguments& options, const std::string& setting) {
  const std::vector<std::string> words = CLI::detail::split_up(setting);
  std::vector<std::string> command;
  bool placed = false;
  for (const std::string& word : options.command) {
    if (word != "{}") {
      command.push_back(word);
      continue;
    }
    command.insert(command.end(), words.begin(), words.end());
    placed = true;
  }
  if (!placed) command.insert(command.end(), words.begin(), words.end());
  return command;
}

// Returns pairs of a and b, each in an order that the seed draws, so that drift over time affects
// both sides.
std::vector<Run> plan(const BenchArguments& options) {
  std::mt19937_64 random(options.seed);
  std::vector<Run> runs;
  for (std::uint64_t pair = 0; pair < options.warm_up + options.pairs; ++pair) {
    const bool warm_up = pair < options.warm_up;
    const bool b_first = (random() >> 63) != 0;
    const std::uint64_t number = warm_up ? pair + 1 : pair - options.warm_up + 1;
    for (const bool is_b : {b_first, !b_first}) {
      runs.push_back(
          {is_b, warm_up,
           fmt::format("{}{}-{:02}", warm_up ? "warm-up-" : "", is_b ? 'b' : 'a', number)});
    }
  }
  return runs;
}

Result<void> write_json(const Folder& folder, const nlohmann::ordered_json& json) {
  const std::string text =
      json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return folder.replace("bench.json", text + "\n", 0644, Durable::kYes);
}

Result<void> write_plan(const BenchArguments& options, const Folder& folder,
                        const std::vector<Run>& runs) {
  nlohmann::ordered_json order = nlohmann::ordered_json::array();
  for (const Run& run : runs) {
    order.push_back(
        {{"session", run.name}, {"side", run.is_b ? "b" : "a"}, {"warm_up", run.warm_up}});
  }
  const nlohmann::ordered_json plan = {{"version", 1},
                                       {"seed", options.seed},
                                       {"a", command_of(options, options.a)},
                                       {"b", command_of(options, options.b)},
                                       {"order", std::move(order)}};
  return write_json(folder, plan);
}

// Writes a session's side and its place among the runs to a file beside session.json, so that both
// are still known after the session is moved.
Result<void> write_place(const BenchArguments& options, const Folder& folder,
                         const std::vector<Run>& runs, std::size_t index) {
  const Run& run = runs[index];
  const nlohmann::ordered_json place = {
      {"version", 1},
      {"side", run.is_b ? "b" : "a"},
      {"warm_up", run.warm_up},
      {"number", index + 1},
      {"of", runs.size()},
      {"seed", options.seed},
      {"command", command_of(options, run.is_b ? options.b : options.a)}};
  const auto session = folder.open_folder(run.name);
  if (!session) return tl::unexpected(session.error());
  return write_json(*session, place);
}

// Checks the options and parses those that are stored as text, before anything is recorded.
Result<void> complete(BenchArguments& options) {
  record::RecordOptions& record = options.record;
  if (!options.functions.empty()) {
    auto functions = record::parse_functions(options.functions);
    if (auto parsed = assign(record.functions, functions); !parsed) return parsed;
  }
  if (!options.no_qemu_events && record.qemu_events.empty())
    record.qemu_events.emplace_back(record.kDefaultQemuEvents);
  record.trapline_version = TRAPLINE_VERSION;
  record.say = [](const std::string& line) {
    if (line.starts_with("warning:")) say(line);
  };
  return complete(options.choice, options.compare);
}

// Checks the options, then makes the sessions' folder: last, so that an error leaves no folder.
Result<Folder> check(const BenchArguments& options) {
  if (auto checked = check_runs(options.choice, options.pairs, options.pairs); !checked)
    return tl::unexpected(std::move(checked).error());
  if (options.a.empty() && options.b.empty()) {
    return fail(ErrorKind::kUsage,
                "give the two settings: --a WORDS --b WORDS; one of them may be empty");
  }
  if (options.a == options.b) return fail(ErrorKind::kUsage, "--a and --b are the same");
  if (command_of(options, options.a).empty() || command_of(options, options.b).empty())
    return fail(ErrorKind::kUsage, "give a COMMAND after --, or whole commands with --a and --b");
  if (is_there(options.folder))
    return fail(ErrorKind::kUsage, "{} exists; choose another folder with -o", options.folder);
  return open_own_folder(options.folder);
}

Result<void> record_one(const BenchArguments& options, const Run& run) {
  record::RecordOptions record = options.record;
  record.folder = options.folder + "/" + run.name;
  record.command = command_of(options, run.is_b ? options.b : options.a);
  const auto status = record::record(record);
  if (!status) return tl::unexpected(status.error());
  const auto session = read_session_json(record.folder);
  if (session && session->ended_by == "signal")
    return fail("{}: ended by a signal; nothing is compared", record.folder);
  if (*status != options.ok_status) {
    return fail(
        "{}: the command ended with status {}; nothing is compared: run it by hand, or give "
        "--ok-status {} if that status means success",
        record.folder, *status, *status);
  }
  return {};
}

// Compares the first run of each side before the other runs are made, so that a comparison that
// fails is noticed early.
Result<void> try_pair(const BenchArguments& options, const std::vector<Run>& runs) {
  CompareOptions pair = options.compare;
  pair.before = {options.folder + "/" + runs[runs[0].is_b ? 1 : 0].name};
  pair.after = {options.folder + "/" + runs[runs[0].is_b ? 0 : 1].name};
  const auto compared = run_compare(pair, {});
  if (compared) return {};
  return tl::unexpected(
      Error{compared.error().message + "; no more runs were made", compared.error().kind});
}

// Returns the exit status, which --fail-if decides.
Result<int> run_bench(BenchArguments& options) {
  if (auto completed = complete(options); !completed) return tl::unexpected(completed.error());
  const auto folder = check(options);
  if (!folder) return tl::unexpected(folder.error());
  const std::vector<Run> runs = plan(options);
  if (auto written = write_plan(options, *folder, runs); !written)
    return tl::unexpected(written.error());
  CompareOptions& sides = options.compare;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    say(fmt::format("{} of {}: {}{}", i + 1, runs.size(), runs[i].name,
                    runs[i].warm_up ? ", which is discarded" : ""));
    if (auto recorded = record_one(options, runs[i]); !recorded)
      return tl::unexpected(recorded.error());
    if (auto written = write_place(options, *folder, runs, i); !written)
      return tl::unexpected(written.error());
    if (!runs[i].warm_up)
      (runs[i].is_b ? sides.after : sides.before).push_back(options.folder + "/" + runs[i].name);
    if (i != 1) continue;
    if (auto tried = try_pair(options, runs); !tried) return tl::unexpected(tried.error());
  }
  const auto comparison = run_compare(sides, {});
  if (!comparison) return tl::unexpected(comparison.error());
  Report report = make_report(*comparison);
  report.after.push_back(
      {.text = fmt::format("before is --a, after is --b; seed {}, order in {}/bench.json",
                           options.seed, printable(options.folder))});
  const auto printed = print_as(options.choice.format, report, options.terminal);
  if (!printed) return tl::unexpected(printed.error());
  return check_conditions(*comparison, options.choice);
}

}  // namespace

void add_bench(CLI::App& app, int& status) {
  auto options = std::make_shared<BenchArguments>();
  record::RecordOptions& record = options->record;
  CLI::App* command =
      app.add_subcommand("bench", "Record a command under two settings, and compare them");
  const OptionGroup rest(*command, kRest);
  // Does without OptionGroup::add(), which refuses an empty value: one setting may be empty.
  command->add_option("--a", options->a, "The first setting: words for {} in COMMAND, or after it")
      ->type_name("WORDS")
      ->group(std::string(kRest));
  command->add_option("--b", options->b, "The second setting; one of them may be empty")
      ->type_name("WORDS")
      ->group(std::string(kRest));
  rest.add("-n,--pairs", options->pairs, "", "How often each setting is recorded")
      ->transform(in_range(1, 1000))
      ->capture_default_str();
  rest.add("--warm-up", options->warm_up, "",
           "Recordings of each setting made first and not compared")
      ->capture_default_str();
  rest.add("--ok-status", options->ok_status, "", "COMMAND's exit status when it succeeds")
      ->transform(in_range(0, 255))
      ->capture_default_str();
  rest.add("--seed", options->seed, "", "Seed of the random order within the pairs")
      ->capture_default_str();
  OptionGroup(*command, kOutput)
      .add("-o,--output", options->folder, "DIR", "The sessions' folder")
      ->capture_default_str();
  add_compare_choice(*command, options->choice, options->compare);
  add_color(OptionGroup(*command, kOutput), options->terminal.color);
  rest.flag("--sched", record.events.sched, "Scheduler events: blocked and preempted time");
  add_qemu_events(*command, kRest, record.qemu_events, options->no_qemu_events);
  rest.flag("--functions{uftrace}", options->functions,
            "Record guest functions, as trapline record does");
  rest.flag("--kvm,!--no-kvm", record.events.kvm, "KVM's events (on unless --no-kvm)");
  rest.add("--user", record.user, "NAME", "Run COMMAND as this user");
  rest.add("--clock", record.clock, "NAME", "The recordings' clock")->capture_default_str();
  command->add_option("COMMAND", options->command,
                      "What to run and record, after --; must end by itself");
  on_run(*command, status, options, run_bench);
}

}  // namespace trapline::cli
