// A child process that runs a function of this program, to confine crashes and changed state to the
// child.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <optional>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

// Guarantees: no child outlives its object, except after let_go(); none is left as a zombie.
class Child {
 public:
  // Forks and runs `work` in the child with the writing end of a pipe; its result is the child's
  // exit status. The child never returns to the caller's code. If this process has several threads,
  // `work` must be async-signal-safe.
  [[nodiscard]] static Result<Child> start(const std::function<int(UniqueFd& output)>& work);

  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        output_(std::move(other.output_)),
        status_(std::exchange(other.status_, std::nullopt)),
        released_(other.released_) {}
  Child& operator=(Child&&) = delete;
  ~Child();  // kills the child

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Returns the reading end of the child's output. Close it if nobody reads it.
  [[nodiscard]] UniqueFd& output() { return output_; }
  void send(int signal) const {
    if (pid_ > 0 && !status_) (void)::kill(pid_, signal);  // -1, of a moved-from object, is all
  }
  // Return the exit status as a shell gives it (128 + signal). reap() returns nullopt while the
  // child runs; wait() waits for its end. -1: the child has ended with a status that is not known,
  // for example because SIGCHLD is ignored.
  [[nodiscard]] std::optional<int> reap() { return status_ ? status_ : reap_now(false); }
  int wait() { return status_ ? *status_ : reap_now(true).value_or(-1); }
  // Lets the child outlive this object from now on.
  void let_go() { released_ = true; }

 private:
  Child(pid_t pid, UniqueFd output) : pid_(pid), output_(std::move(output)) {}
  std::optional<int> reap_now(bool block);

  pid_t pid_ = -1;
  UniqueFd output_;
  std::optional<int> status_;
  bool released_ = false;
};

}  // namespace trapline
