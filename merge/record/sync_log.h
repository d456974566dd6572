// The recorder's sync records: markers in the recording, and the best brackets in session.json.
#pragma once

#include <cstdint>
#include <vector>

#include "merge/session/session_json.h"

namespace trapline::record {

// Guarantees: at most kMostSyncs brackets, the first and the last among them, evenly thinned out
// when a recording is long (all of them are in the recording itself).
class SyncLog {
 public:
  // Writes one series through the marker's descriptor; false when the kernel refused it.
  bool write_series(int marker_fd);
  // The kernel's stamp of a marker that was read back; others than those kept are passed over.
  void stamp(std::uint64_t series, std::uint32_t index, std::uint64_t stamp);
  [[nodiscard]] const std::vector<SessionSync>& brackets() const { return brackets_; }

 private:
  void keep(const SessionSync& bracket);
  std::vector<SessionSync> brackets_;
  std::uint64_t stride_ = 1, seen_ = 0;
  bool last_is_extra_ = false;
};

}  // namespace trapline::record
