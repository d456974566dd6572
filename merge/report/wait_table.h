// --waits: who kept the vCPUs waiting inside their exits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "merge/analyze/culprit.h"
#include "merge/pass/naming.h"
#include "merge/report/wait_report.h"

namespace trapline {

// Sums by culprit. At most `most` culprits; the time of further ones is unknown (Missing::kRoom).
class CulpritSums {
 public:
  static constexpr std::size_t kMost = 4096;

  void add(const WaitShare& share, std::size_t most = kMost);
  [[nodiscard]] std::size_t size() const { return sums_.size(); }
  // Of preempted time: the thread that ran for most of it. Nothing where that is no thread, where
  // another may have run longer, or where events of a CPU were lost or not recorded.
  struct Runner {
    ThreadId thread{};
    std::uint64_t ns = 0, others_at_most_ns = 0;
  };
  [[nodiscard]] std::optional<Runner> runner() const;
  [[nodiscard]] WaitRows rows(const Naming& names) const;

 private:
  struct Sum {
    std::uint64_t ns = 0, count = 0, max_ns = 0;
    ThreadId root{};  // of Culprit::root; of several none
  };
  std::map<Culprit, Sum> sums_;
};

class WaitTable {
 public:
  void add(std::span<const WaitShare> shares) {
    for (const WaitShare& share : shares)
      (share.part == Part::kPreempted ? preempted_
       : share.part == Part::kBlocked ? blocked_
                                      : halted_)
          .add(share);
  }
  [[nodiscard]] WaitReport report(const Naming& names) const;

 private:
  CulpritSums preempted_, blocked_, halted_;
};

}  // namespace trapline
