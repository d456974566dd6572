// Sums up who kept the vCPUs waiting inside their exits, as report --waits does, also by time bin.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/pass/naming.h"
#include "merge/render/page/exits.h"
#include "merge/report/table.h"

namespace trapline::page {

class Waits {
 public:
  static constexpr std::size_t kMostCulprits = 4096, kMostBins = 256, kMostRows = 30;

  void exit(const ExitSpan& exit, const Pipeline& pipeline);

  [[nodiscard]] const TimeBins& bins() const { return bins_; }
  void coarsen();
  // Returns "preempted" and "blocked": docs/formats/page.md.
  [[nodiscard]] std::vector<Table> tables(const Naming& names) const;

 private:
  struct Sum {
    std::uint64_t ns = 0, count = 0, max_ns = 0;
    std::vector<std::uint64_t> time;  // ns by bin
  };
  void add(const WaitShare& share);
  [[nodiscard]] static Table table(const char* key, const std::map<Culprit, Sum>& sums,
                                   const Naming& names);

  TimeBins bins_;
  std::map<Culprit, Sum> preempted_, blocked_;
};

}  // namespace trapline::page
