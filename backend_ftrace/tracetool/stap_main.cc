// trapline-stap: lists the probes of a program that was built with the dtrace backend, and prints
// selected ones with their formats through SystemTap.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "backend_ftrace/base/message.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/usage_text.h"
#include "backend_ftrace/tracetool/sdt_notes.h"

namespace {

using namespace trapline;
namespace fs = std::filesystem;

constexpr std::string_view kProgram = "trapline-stap";

struct Command {
  std::string binary;
  std::vector<std::string> patterns;
  std::string pid;
  std::string tapset;
  std::string prefix;
  bool dry_run = false;
};

// Finds a program as a shell does.
Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  for (std::string_view rest = path != nullptr ? path : ""; !rest.empty();) {
    const auto colon = rest.find(':');
    const fs::path candidate = fs::path(rest.substr(0, colon)) / name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate.string();
    rest.remove_prefix(colon == std::string_view::npos ? rest.size() : colon + 1);
  }
  return fail("{}: no such program in PATH", name);
}

Result<std::vector<std::string>> matching(const Command& command) {
  auto path = find_program(command.binary);
  if (!path) return tl::unexpected(path.error());
  auto probes = tracetool::read_sdt_probes(*path);
  if (!probes) return tl::unexpected(probes.error());
  std::set<std::string> names;
  for (const auto& probe : *probes) names.insert(probe.name);
  if (names.empty()) {
    return fail("{}: has no SDT probes; build it with the dtrace backend", *path);
  }
  std::vector<std::string> found;
  std::vector<std::string> patterns = command.patterns;
  if (patterns.empty()) patterns.emplace_back("*");
  for (const std::string& pattern : patterns) {
    std::size_t hits = 0;
    for (const std::string& name : names) {
      if (!matches(pattern, name)) continue;
      ++hits;
      if (std::find(found.begin(), found.end(), name) == found.end()) found.push_back(name);
    }
    if (hits != 0) continue;
    const std::vector<std::string_view> all(names.begin(), names.end());
    const std::string_view near = nearest(pattern, all);
    return fail("{}: no probe matches '{}'{}{}{}", *path, pattern,
                near.empty() ? "" : "; did you mean ", near, near.empty() ? "" : "?");
  }
  return found;
}

Result<void> list(const Command& command) {
  auto names = matching(command);
  if (!names) return tl::unexpected(names.error());
  for (const std::string& name : *names) fmt::print("{}\n", printable(name));
  return {};
}

Result<void> run(const Command& command) {
  auto names = matching(command);
  if (!names) return tl::unexpected(names.error());
  auto path = find_program(command.binary);
  std::string tapset = command.tapset;
  if (tapset.empty()) {  // packages install it beside the program
    tapset = (fs::weakly_canonical(*path).parent_path() / "../share/systemtap/tapset")
                 .lexically_normal()
                 .string();
  }
  std::string prefix = command.prefix;
  if (prefix.empty()) {
    prefix = fs::path(*path).filename();
    std::replace(prefix.begin(), prefix.end(), '-', '.');
  }
  std::string script;
  for (const std::string& name : *names) {
    script += fmt::format("probe {}.log.{} {{}}\n", prefix, name);
  }
  // 8 MiB of buffer: bursts of events overflow the default of 1 MiB.
  std::vector<std::string> words{"stap", "-s", "8", "-I", tapset, "-e", script};
  if (!command.pid.empty()) words.insert(words.end(), {"-x", command.pid});
  if (command.dry_run) {
    fmt::print("{}", script);
    return {};
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp("stap", arguments.data());
  return fail("stap cannot be started: {}; install systemtap", std::strerror(errno));
}

}  // namespace

int main(int argc, char** argv) {
  Command command;
  CLI::App app{"Lists and prints the SDT probes of a program, as qemu-trace-stap does."};
  app.name(std::string(kProgram));
  app.require_subcommand(1);
  CLI::App* list_command = app.add_subcommand("list", "Print the names of the probes");
  CLI::App* run_command = app.add_subcommand("run", "Print probes as they fire (needs SystemTap)");
  for (CLI::App* each : {list_command, run_command}) {
    each->add_option("binary", command.binary, "The program")->required();
    each->add_option("probes", command.patterns, "Names or patterns (default: all)");
  }
  run_command->add_option("--pid,-p", command.pid, "Only this process");
  run_command->add_option(
      "--tapset", command.tapset,
      "Folder of the tapsets (default: ../share/systemtap/tapset, from the program's folder)");
  run_command->add_option("--probe-prefix", command.prefix,
                          "Prefix of the probes (default: the program's name with . for -)");
  run_command->add_flag("--dry-run", command.dry_run, "Print the script instead of running it");
  try {
    app.parse(argc, argv);
    const auto done = list_command->parsed() ? list(command) : run(command);
    if (done) return 0;
    say(kProgram, done.error().message);
    return static_cast<int>(done.error().kind);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    say(kProgram, usage_text(kProgram, argc > 1 ? argv[1] : "", error.what()));
    return static_cast<int>(ErrorKind::kUsage);
  } catch (const std::exception& error) {
    say(kProgram, error.what());
    return 1;
  }
}
