// A snapshot of the flight recorder, written as a session of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "merge/record/flight_ring.h"
#include "merge/record/instance.h"
#include "merge/record/session.h"

namespace trapline::record {

struct FlightCut {
  std::uint64_t from = 0, to = 0;  // stamps, both included
};

struct FlightContent {
  const Instance& instance;
  const RecordOptions& options;  // but for the folder
  const FlightRing& ring;
  unsigned cpus = 0;
  std::string cmdlines;  // "TID NAME" lines
};

// Writes the folder STORE/NAME, which is not there yet: trace.dat with the events of `cut`, and
// session.json, closed. `session` gets what the kernel lost. After an Error it is not there.
[[nodiscard]] Result<void> write_flight_session(const Folder& store, const std::string& name,
                                                const FlightContent& content, const FlightCut& cut,
                                                Session& session);

}  // namespace trapline::record
