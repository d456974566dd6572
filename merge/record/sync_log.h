// The recorder's sync records: markers in the recording with readings of all clocks just before and
// after the marker. session.json gets the one of each series whose readings are closest together,
// and the kernel's stamp of its marker.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "backend_ftrace/sync.h"
#include "merge/record/page_files.h"
#include "merge/session/session_json.h"

namespace trapline::record {

// The marker of a sync record, with the kernel's stamp.
struct SyncStamp {
  std::uint64_t series = 0;
  std::uint32_t index = 0;
  std::uint64_t stamp = 0;
};

// Guarantees: keeps at most kMostSyncs sync records, including the first and the last, thinned out
// evenly in a long recording (the recording itself contains all).
class SyncLog {
 public:
  // Writes one series through the marker's descriptor; false if the kernel refused it.
  bool write_series(int marker_fd);
  // Takes the kernel's stamp of a marker that was read back; ignores markers of sync records that
  // are not kept.
  void stamp(const SyncStamp& sync);
  [[nodiscard]] const std::vector<SessionSync>& brackets() const { return brackets_; }

 private:
  void keep(const SessionSync& bracket);
  std::vector<SessionSync> brackets_;
  std::uint64_t stride_ = 1, seen_ = 0;
  bool last_is_extra_ = false;
};

// Reads the kernel's stamps of sync records back from the pages that were just written. Searching
// every page would take a tenth of the recording's CPU time, and their place is approximately
// known.
//
// Guarantees: at most kMostAtOnce bytes of a file are read at a time; stamps that are not found
// stay unknown.
class SyncStamps {
 public:
  static constexpr std::uint64_t kMostAtOnce = 16u << 20;

  // Call it after a series was written, which began on `first_cpu` and ended on `last_cpu`: find()
  // then looks for its markers after what the files of both CPUs contain now.
  void expect(const PageFiles& files, std::uint64_t series, int first_cpu, int last_cpu);
  // Searches the pages written since expect() or the last call, and returns the stamps in them.
  [[nodiscard]] std::vector<SyncStamp> find(const PageFiles& files);

 private:
  std::map<unsigned, std::uint64_t> places_;  // by CPU: offset in its file
  std::uint64_t last_series_ = 0;
};

}  // namespace trapline::record
