#include "tests/plugin/qemu_run.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "backend_ftrace/base/text.h"
#include "plugin/format/directory.h"

extern char** environ;

namespace trapline::test {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

int Output::exit_code() const { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }

Output run(const std::vector<std::string>& command, unsigned seconds) {
  TemporaryFolder folder;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, (folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, (folder / "err").c_str(), O_WRONLY | O_CREAT, 0600);
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  Output output;
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return output;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (::waitpid(pid, &output.status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) ::kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  output.out = text_of(folder / "out");
  output.err = text_of(folder / "err");
  return output;
}

std::string fetched(const std::string& name) {
  const Output output = run({std::string(TRAPLINE_SOURCE_DIR) + "/scripts/fetch", name}, 300);
  return output.exit_code() == 0 ? std::string(trimmed(output.out)) : "";
}

std::string qemu_folder(const std::string& version) { return fetched("qemu" + version); }

std::string guest_path(const std::string& arch, const std::string& variant) {
  return std::string(TRAPLINE_BINARY_DIR) + "/tests/guest/plugin/" + arch + "-" + variant + ".elf";
}

std::string plugin_path() {
  return std::string(TRAPLINE_BINARY_DIR) + "/plugin/libtrapline_plugin.so";
}

std::vector<std::string> guest_command(const std::string& version, const std::string& arch,
                                       const std::string& variant,
                                       const std::string& plugin_options) {
  std::vector<std::string> command{qemu_folder(version) + "/bin/qemu-system-" + arch,
                                   "-accel",
                                   "tcg",
                                   "-m",
                                   "64",
                                   "-smp",
                                   "2",
                                   "-display",
                                   "none",
                                   "-nodefaults",
                                   "-no-reboot",
                                   "-kernel",
                                   guest_path(arch, variant)};
  const auto add = [&command](std::initializer_list<const char*> more) {
    command.insert(command.end(), more.begin(), more.end());
  };
  if (arch == "x86_64") add({"-device", "isa-debug-exit,iobase=0x501"});
  if (arch == "aarch64") add({"-M", "virt", "-cpu", "cortex-a57"});
  if (arch == "riscv64") add({"-M", "virt", "-bios", "none"});
  if (!plugin_options.empty()) {
    command.push_back("-plugin");
    command.push_back(plugin_path() + "," + plugin_options);
  }
  return command;
}

std::map<std::string, std::uint64_t> reported_calls(const std::string& directory) {
  // Without -D uftrace counts nothing below a depth of 1024.
  const Output output = run({"uftrace", "report", "--no-pager", "-f", "call", "-s", "func", "-D",
                             "60000", "-d", directory});
  std::map<std::string, std::uint64_t> calls;
  std::istringstream lines(output.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::uint64_t count = 0;
    std::string name;
    if (words >> count >> name) calls[name] += count;
  }
  return calls;
}

std::vector<std::string> imbalances(const std::string& path, bool may_be_cut_off) {
  std::vector<std::string> faults;
  auto directory = DataDirectory::open(path);
  if (!directory) return {directory.error().message};
  if (directory->tids().empty()) faults.push_back("no task has records");
  for (const std::uint32_t tid : directory->tids()) {
    auto reader = directory->records(tid);
    if (!reader) return {reader.error().message};
    std::vector<std::uint64_t> open;
    std::uint64_t last = 0;
    for (;;) {
      auto next = reader->next();
      if (!next) return {next.error().message};
      if (!*next) break;
      const Record record = **next;
      if (record.time() < last) faults.push_back(fmt::format("{}: time goes back", tid));
      last = record.time();
      if (record.type() == RecordType::kEntry) {
        open.push_back(record.address());
      } else if (record.type() == RecordType::kExit) {
        if (open.empty() || open.back() != record.address())
          return {fmt::format("{}: exit of 0x{:x} without its entry", tid, record.address())};
        open.pop_back();
      }
    }
    if (reader->dropped_bytes() != 0) faults.push_back(fmt::format("{}: damaged bytes", tid));
    if (!open.empty() && !may_be_cut_off)
      faults.push_back(fmt::format("{}: {} functions never left", tid, open.size()));
  }
  return faults;
}

}  // namespace trapline::test
