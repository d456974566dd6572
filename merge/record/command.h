// The command that is recorded: a child process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/child.h"
#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline::record {

struct User {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
};
[[nodiscard]] Result<User> find_user(const std::string& name);

// The file that a shell would run for this word; an Error that says why there is none, with a
// shell's status.
[[nodiscard]] Result<std::string> find_program(const std::string& word);

struct CommandOptions {
  std::vector<std::string> words;
  std::optional<User> user;
  int marker_fd = -1;  // inherited, and named in TRAPLINE_FTRACE_FD
  // For a program that writes into the top-level marker: what it finds there, in a mount namespace
  // of its own. Empty: the top-level one.
  std::string shown_marker;
  // The recording's ftrace instance: its name and folder, and where tracefs is mounted. The command
  // finds the name in TRAPLINE_FTRACE_INSTANCE and the marker's path in TRAPLINE_FTRACE_MARKER.
  std::string instance_name, instance, tracefs;
  mode_t umask = 022;
};

// Guarantees: the child exists, and so has a pid to filter for, before a single instruction of the
// command runs; it runs only after start(); when the recorder dies before, it ends. The command
// gets the caller's signals and limits, and no descriptor of ours but the marker.
//
//   fork ── waits at the gate ── start() ── exec ── runs ── reap()
class Command {
 public:
  [[nodiscard]] static Result<Command> fork(const CommandOptions& options);
  Command(Command&&) noexcept = default;
  Command& operator=(Command&&) = delete;

  // An Error: it cannot be executed; with a shell's status where the program is the cause.
  [[nodiscard]] Result<void> start();
  void signal(int number) const { child_.send(number); }
  // The exit status as a shell gives it (128 + signal), once it has ended.
  [[nodiscard]] std::optional<int> reap() { return child_.reap(); }

  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }  // readable once it ended

 private:
  explicit Command(Child child) : child_(std::move(child)) {}

  Child child_;  // its output is a Verdict, where it cannot run
  UniqueFd pidfd_, gate_;
  std::string program_;
};

// What a program prints, both outputs, at most 1 MiB, within 10 s; empty when it cannot be run.
// `inherited`: a descriptor that it gets as well; -1: none.
[[nodiscard]] std::string output_of(const std::vector<std::string>& words,
                                    const std::optional<User>& user, int inherited = -1);

}  // namespace trapline::record
