// The recorder's sync records: markers in the recording, the best brackets in session.json, and the
// kernel's stamps of them.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "backend_ftrace/sync.h"
#include "merge/record/page_files.h"
#include "merge/session/session_json.h"

namespace trapline::record {

// A sync record's marker, with the stamp that the kernel gave it.
struct SyncStamp {
  std::uint64_t series = 0;
  std::uint32_t index = 0;
  std::uint64_t stamp = 0;
};

// Guarantees: at most kMostSyncs brackets, the first and the last among them, evenly thinned out
// when a recording is long (all of them are in the recording itself).
class SyncLog {
 public:
  // Writes one series through the marker's descriptor; false when the kernel refused it.
  bool write_series(int marker_fd);
  // The kernel's stamp of a marker that was read back; others than those kept are passed over.
  void stamp(const SyncStamp& sync);
  [[nodiscard]] const std::vector<SessionSync>& brackets() const { return brackets_; }

 private:
  void keep(const SessionSync& bracket);
  std::vector<SessionSync> brackets_;
  std::uint64_t stride_ = 1, seen_ = 0;
  bool last_is_extra_ = false;
};

// The kernel's stamps of sync records, read back from the pages that were just written. Looking at
// every page for them would cost a tenth of the recording; where they are is nearly known.
//
// Guarantees: at most kMostAtOnce of a file is read at a time; what is not found stays unknown.
class SyncStamps {
 public:
  static constexpr std::uint64_t kMostAtOnce = 16u << 20;

  // A series was just written, by a thread that was first on this CPU and then on that: its pages
  // come after what their files hold by now.
  void expect(const PageFiles& files, std::uint64_t series, int first_cpu, int last_cpu);
  // What has come of it.
  [[nodiscard]] std::vector<SyncStamp> find(const PageFiles& files);

 private:
  std::map<unsigned, std::uint64_t> places_;  // CPU, offset in its file
  std::uint64_t last_series_ = 0;
};

}  // namespace trapline::record
