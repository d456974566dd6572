// A snapshot of the flight recorder, written as a session of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "merge/record/flight_ring.h"
#include "merge/record/instance.h"
#include "merge/record/owner.h"
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
  std::optional<Owner> owner;
};

// Writes FOLDER, which is not there yet: trace.dat with the events of `cut`, and session.json,
// closed. `session` gets what the kernel lost. After an Error there is no FOLDER.
[[nodiscard]] Result<void> write_flight_session(const std::string& folder,
                                                const FlightContent& content, const FlightCut& cut,
                                                Session& session);

}  // namespace trapline::record
