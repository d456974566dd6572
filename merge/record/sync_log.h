// The recorder's sync records: markers in the recording, and the best brackets in session.json.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend_ftrace/sync.h"

namespace trapline::record {

struct SyncBracket {
  std::uint64_t series = 0;
  std::uint32_t index = 0;  // of the marker that lies between the two readings
  ClockReadings before, after;
  std::optional<std::uint64_t>
      stamp;  // the marker's own, on the recording's clock, once it is known
  std::optional<ClockAdjustment> adjustment = std::nullopt;
};

// Guarantees: at most kMost brackets, the first and the last among them, evenly thinned out when a
// recording is long (all of them are in the recording itself).
class SyncLog {
 public:
  static constexpr std::size_t kMost = 64;

  // Writes one series through the marker's descriptor; false when the kernel refused it.
  bool write_series(int marker_fd);
  // The kernel's stamp of a marker that was read back; others than those kept are passed over.
  void stamp(std::uint64_t series, std::uint32_t index, std::uint64_t stamp);
  [[nodiscard]] const std::vector<SyncBracket>& brackets() const { return brackets_; }

 private:
  void keep(const SyncBracket& bracket);
  std::vector<SyncBracket> brackets_;
  std::uint64_t stride_ = 1, seen_ = 0;
  bool last_is_extra_ = false;
};

}  // namespace trapline::record
