// A child process that runs a function of ours: what crashes in it, or changes in it, stays in it.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <optional>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

// Guarantees: no child outlives its object but one that was let go; none is left as a zombie.
class Child {
 public:
  // `work` gets the writing end of a pipe and returns the child's exit status; it never returns to
  // the caller's code. Only async-signal-safe work where this process has several threads.
  [[nodiscard]] static Result<Child> start(const std::function<int(UniqueFd& output)>& work);

  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        output_(std::move(other.output_)),
        status_(std::exchange(other.status_, std::nullopt)),
        released_(other.released_) {}
  Child& operator=(Child&&) = delete;
  ~Child();  // kills it

  [[nodiscard]] pid_t pid() const { return pid_; }
  // What it writes; close it where nobody reads it.
  [[nodiscard]] UniqueFd& output() { return output_; }
  void send(int signal) const {
    if (!status_) (void)::kill(pid_, signal);
  }
  // Its exit status as a shell gives it (128 + signal): once it has ended; or waits until it has.
  // -1: it has ended and its status is not known, as where SIGCHLD is ignored.
  [[nodiscard]] std::optional<int> reap() { return status_ ? status_ : reap_now(false); }
  int wait() { return status_ ? *status_ : reap_now(true).value_or(-1); }
  // From here on it may outlive this object.
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
