// --steal: how long each vCPU's thread was runnable and did not run, and who ran instead.
#pragma once

#include <map>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/analyze/wait_tracker.h"
#include "merge/report/wait_table.h"

namespace trapline {

class StealTable {
 public:
  void add(const EndedWait& wait);
  // A row of each vCPU thread that counts, in order of VM and vCPU.
  [[nodiscard]] std::vector<StealRow> rows(const Naming& names) const;

 private:
  struct Vcpu {
    CulpritSums sums;
    std::uint64_t waits = 0;
  };
  static constexpr std::size_t kMostSums = 1u << 15;  // of all vCPUs

  std::map<ThreadId, Vcpu> vcpus_;
  std::size_t sums_ = 0;
};

}  // namespace trapline
