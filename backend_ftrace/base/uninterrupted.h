#pragma once

#include <cerrno>

namespace trapline {

// Repeats a system call while a signal interrupts it. `call` makes the call and returns its result,
// negative on failure.
template <typename Call>
auto uninterrupted(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace trapline
