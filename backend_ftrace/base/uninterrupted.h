// A system call that a signal interrupts is made again.
#pragma once

#include <cerrno>

namespace trapline {

// `call`: makes it and gives what it returned, negative where it failed.
template <typename Call>
auto uninterrupted(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace trapline
