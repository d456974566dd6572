// The last seconds of a live view as a session of its own.
#pragma once

#include <string>

#include "merge/live/live_source.h"

namespace trapline::live {

struct Saved {
  Timestamp from, to;  // of what was saved
  std::uint64_t events = 0;
};

// Writes the events of [from, to], as far as they are still in memory, into `folder`, a session
// that every command reads. Errors: no events; those of making a session's folder.
[[nodiscard]] Result<Saved> save_session(const LiveSource& source, PageFeed& feed, Timestamp from,
                                         Timestamp to, const std::string& folder,
                                         const std::string& version);

}  // namespace trapline::live
