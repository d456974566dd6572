// The recorder's sync records: markers in the recording with readings of all clocks just before and
// after the marker. session.json gets the one of each series whose readings are closest together,
// and the kernel's stamp of its marker.
#pragma once

#include <cstdint>
#include <vector>

#include "backend_ftrace/sync.h"
#include "merge/record/page_sink.h"
#include "merge/session/session_json.h"

namespace trapline::record {

// The stamps are found in the pages that pass through this process. Pages that the kernel moves to
// the files itself are not searched: that would take a tenth of the recording's CPU time. So the
// recorder reads the pages behind a series itself.
//
// Guarantees: keeps at most kMostSyncs sync records, including the first and the last, thinned out
// evenly in a long recording (the recording itself contains all). A stamp that is not found stays
// unknown.
class SyncLog final : public PageSink {
 public:
  // Writes one series through the marker's descriptor; false if the kernel refused it.
  bool write_series(int marker_fd);
  // Takes the stamps of kept markers from the page, as long as the last one's is unknown.
  [[nodiscard]] Result<void> page(unsigned cpu, std::span<const std::byte> page) override;
  [[nodiscard]] const std::vector<SessionSync>& brackets() const { return brackets_; }

 private:
  void keep(const SessionSync& bracket);
  std::vector<SessionSync> brackets_;
  std::uint64_t stride_ = 1, seen_ = 0;
  bool last_is_extra_ = false;
};

}  // namespace trapline::record
