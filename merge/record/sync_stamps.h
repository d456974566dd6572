// The kernel's stamps of sync records, read back from the pages that were just written. Looking at
// every page for them would cost a tenth of the recording; where they are is nearly known.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "merge/record/snapshot/trigger_matcher.h"

namespace trapline::record {

class PageFiles;

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
