// Tests that need something of the machine (root, tracefs, QEMU) say so here. Without it they skip
// with the reason; where TRAPLINE_REQUIRE_SYSTEM=1 (CI), a skip is a failure.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

namespace trapline::test {

inline bool system_required() {
  const char* value = std::getenv("TRAPLINE_REQUIRE_SYSTEM");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace trapline::test

#define TRAPLINE_REQUIRE(condition, reason)                                           \
  do {                                                                                \
    if (!(condition)) {                                                               \
      if (trapline::test::system_required()) FAIL() << "required here: " << (reason); \
      GTEST_SKIP() << (reason);                                                       \
    }                                                                                 \
  } while (false)
