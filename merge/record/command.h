// Runs the command that is recorded, as a child process.
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

// Returns the file that a shell would run for this word. The Error says why there is none, and its
// kind is the exit status that a shell would give, 126 or 127.
[[nodiscard]] Result<std::string> find_program(const std::string& word);

struct CommandOptions {
  std::vector<std::string> words;
  std::optional<User> user;
  int marker_fd = -1;  // the child inherits it; TRAPLINE_FTRACE_FD names it
  // The file that the command finds in place of the top-level trace_marker, in its own mount
  // namespace. Empty: the command sees the top-level marker.
  std::string shown_marker;
  // The recording's ftrace instance: its name and folder, and where tracefs is mounted. The command
  // gets the name in TRAPLINE_FTRACE_INSTANCE and the marker's path in TRAPLINE_FTRACE_MARKER.
  std::string instance_name, instance, tracefs;
  mode_t umask = 022;
};

// Guarantees: the child exists before the first instruction of the command runs, so its pid can be
// used as a filter. The command runs only after start(); if the recorder dies before, the child
// ends. The command gets the caller's signals and limits, and no descriptor of ours but the marker.
//
//   fork ── waits at the gate ── start() ── exec ── runs ── reap()
class Command {
 public:
  [[nodiscard]] static Result<Command> fork(const CommandOptions& options);
  Command(Command&&) noexcept = default;
  Command& operator=(Command&&) = delete;

  // Executes the command. The Error says why that failed; if the program is the cause, the Error's
  // kind is the exit status that a shell would give.
  [[nodiscard]] Result<void> start();
  void signal(int number) const { child_.send(number); }
  // Returns the exit status as a shell does (128 + signal), once the command has ended.
  [[nodiscard]] std::optional<int> reap() { return child_.reap(); }

  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }  // readable when the command has ended

 private:
  explicit Command(Child child) : child_(std::move(child)) {}

  Child child_;  // its output says why the command cannot be executed, or is empty
  UniqueFd pidfd_, gate_;
  std::string program_;
};

// Returns everything that a program prints on both outputs, at most 1 MiB, within 10 s; empty if it
// cannot be run. `inherited`: a descriptor that the program inherits; -1: none.
[[nodiscard]] std::string output_of(const std::vector<std::string>& words,
                                    const std::optional<User>& user, int inherited = -1);

}  // namespace trapline::record
