// Counts the page faults of the guests for the page's picture: by address, time and cause.
//
// Memory is bounded: the regions of memory, or the bins of time, double in length when there are
// too many of them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/pass/naming.h"
#include "merge/render/page/exits.h"
#include "merge/report/table.h"

namespace trapline::page {

class FaultMap {
 public:
  static constexpr std::size_t kMostBins = 256, kMostRegions = 128, kMostVms = 64,
                               kMostCells = 6000;
  static constexpr unsigned kMostRegionBits = 63;

  void exit(const ExitSpan& exit, const Pipeline& pipeline);

  [[nodiscard]] const TimeBins& bins() const { return bins_; }
  void coarsen();
  // Returns "fault_map": docs/formats/page.md.
  [[nodiscard]] Table table(const Naming& names);

 private:
  using Place = std::pair<std::uint64_t, FaultCause>;  // time bin, cause
  using Region = std::map<Place, FaultTotal>;
  using Key = std::pair<ThreadId, std::uint64_t>;  // VM's process, number of the region
  void widen();
  [[nodiscard]] std::size_t cells() const;

  TimeBins bins_;
  unsigned region_bits_ = 12;
  std::map<Key, Region> regions_;
  std::map<ThreadId, ThreadId> vms_;         // a thread of each process
  std::map<FaultCause, FaultTotal> causes_;  // all faults
  std::uint64_t unplaced_ = 0;               // faults without an address, or of further VMs
};

}  // namespace trapline::page
