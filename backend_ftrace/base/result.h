// A function that can fail returns Result<T>. An Error is a sentence for the user: what failed, on
// what, and, after "; ", what to do next. The Error's kind decides the exit status.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace trapline {

// The error kinds, with the exit status that a command ends with.
enum class ErrorKind : int {
  kRuntime = 1,  // a file cannot be opened, a system call failed
  kUsage = 2,    // the command line is wrong
  kDamaged = 3,  // the input is damaged or incomplete
  // Failures to start a program that the user named, with a shell's statuses; otherwise like
  // kRuntime.
  kCannotExecute = 126,
  kNoSuchProgram = 127,
};

struct Error {
  std::string message;
  ErrorKind kind = ErrorKind::kRuntime;
};

template <typename T>
using Result = tl::expected<T, Error>;

template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorKind kind, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected(Error{fmt::format(format, std::forward<Args>(args)...), kind});
}

template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorKind::kRuntime, format, std::forward<Args>(args)...);
}

// Moves the value of `given` to `place`, or returns the error of `given`.
template <typename Place, typename T>
[[nodiscard]] Result<void> assign(Place& place, Result<T> given) {
  if (!given) return tl::unexpected(std::move(given).error());
  place = std::move(*given);
  return {};
}

}  // namespace trapline
