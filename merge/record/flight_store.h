// The folder of a flight recorder: its snapshots, each a session of its own.
//
//   flight.trapline/
//     lock                 held by the recorder as long as it lives
//     control              its socket (flight_control.h)
//     20261121T224510Z/    a session, named after the time at which it was asked for (UTC)
//
// Guarantees: the snapshots never take more than the budget: the oldest are removed before a new
// one is written. Nothing but folders with such names is ever removed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend_ftrace/base/folder.h"

namespace trapline::record {

inline constexpr const char* kDefaultFlightFolder = "flight.trapline";

class FlightStore {
 public:
  // Makes the folder (0700) where it is not there. Errors: it holds something else, another flight
  // recorder uses it.
  [[nodiscard]] static Result<FlightStore> open(const std::string& folder, std::uint64_t budget);
  // Removes what a recorder that was killed has written of a snapshot; their names.
  [[nodiscard]] std::vector<std::string> remove_halves() const;

  // The snapshots, the oldest first.
  [[nodiscard]] std::vector<std::string> snapshots() const;
  // Removes the oldest until `bytes` more fit; their names. An Error: they never can.
  [[nodiscard]] Result<std::vector<std::string>> make_room(std::uint64_t bytes) const;
  // The name of a new one.
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
