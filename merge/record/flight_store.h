// The folder of a flight recorder: its snapshots, each a session of its own.
//
//   flight.trapline/
//     lock                 held by the recorder as long as it lives
//     control              its socket (flight_control.h)
//     20261121T224510Z/    a session, named after the time of the request (UTC)
//
// Guarantees: the snapshots never take more than the budget: the oldest are removed before a new
// one is written. Only folders whose names have a snapshot's form are ever removed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend_ftrace/base/folder.h"

namespace trapline::record {

inline constexpr const char* kDefaultFlightFolder = "flight.trapline";

// Returns the names of the snapshots in a flight recorder's folder, the oldest first.
[[nodiscard]] std::vector<std::string> snapshots_in(const Folder& folder);

class FlightStore {
 public:
  // Opens the folder; makes it (0700) if it does not exist. Errors: it contains something else;
  // another flight recorder uses it.
  [[nodiscard]] static Result<FlightStore> open(const std::string& folder, std::uint64_t budget);
  // Removes unfinished snapshots of a recorder that was killed. Returns their names.
  [[nodiscard]] std::vector<std::string> remove_halves() const;

  // Removes the oldest snapshots until `bytes` more fit, and returns the names of those that it
  // removed. The Error: `bytes` are more than the whole budget.
  [[nodiscard]] Result<std::vector<std::string>> make_room(std::uint64_t bytes) const;
  // Returns an unused name for a snapshot that was requested at this wall-clock time.
  [[nodiscard]] std::string name_for(std::uint64_t real_ns) const;
  [[nodiscard]] const Folder& folder() const { return folder_; }
  void follow_rename() { folder_.follow_rename(); }

 private:
  FlightStore(Folder folder, std::uint64_t budget, UniqueFd lock)
      : folder_(std::move(folder)), budget_(budget), lock_(std::move(lock)) {}

  Folder folder_;
  std::uint64_t budget_ = 0;
  UniqueFd lock_;
};

}  // namespace trapline::record
