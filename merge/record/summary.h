// What the user is told when a recording has ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "merge/record/session.h"

namespace trapline::record {

struct Outcome {
  const Folder& folder;
  std::uint64_t written = 0;  // bytes of pages
  std::uint64_t went_by = 0;  // bytes of pages that were read
  bool whole = true;          // nothing cut the recording short
  std::uint64_t took_ns = 0;  // by a clock that nobody sets
};

// The command that shows the session; empty where nothing is in it.
[[nodiscard]] std::string next_command(const Session& session, const Outcome& outcome);

// A line each: how much, what was lost, what to type next.
[[nodiscard]] std::vector<std::string> summary(const Session& session, const Outcome& outcome);

}  // namespace trapline::record
