// Shows who kept the vCPUs waiting: --waits inside their exits, --steal whenever they could run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/pass/naming.h"
#include "merge/report/grouping.h"
#include "merge/report/table.h"

namespace trapline {

struct WaitRow {
  std::string culprit;
  CulpritKind kind = CulpritKind::kUnknown;
  std::int32_t tid = -1;      // -1: not a thread
  std::int32_t process = -1;  // -1: not known
  std::string vm;             // the VM of the thread; empty: none, or not known
  std::string vm_name;        // the VM's name, given by its owner; empty: none
  std::uint64_t ns = 0;
  std::uint64_t count = 0;   // number of pieces of waits
  std::uint64_t max_ns = 0;  // the longest piece
};

// The rows' times sum to total_ns.
struct WaitRows {
  std::uint64_t total_ns = 0;
  std::vector<WaitRow> rows;  // the largest first
};

struct WaitReport {
  WaitRows preempted, blocked;
  WaitRows halted;  // the sleeps of halts, by what ended them
  // The thread that ran longest in the preempted time, even if another one ran in all of the time
  // for which the runner is unknown; empty if there is none. others_at_most_ns: the longest that
  // any other thread can have run.
  std::string ran_most{};
  std::uint64_t ran_most_ns = 0, others_at_most_ns = 0;
};

// Sums by culprit. After `most` culprits, the time of further ones is unknown (Missing::kRoom).
class CulpritSums {
 public:
  static constexpr std::size_t kMost = 4096;

  void add(const WaitShare& share, std::size_t most = kMost);
  [[nodiscard]] std::size_t size() const { return sums_.size(); }
  // The thread that ran longest in the preempted time. Nullopt if the largest culprit is no thread,
  // if another may have run longer, or if events of a CPU were lost or not recorded.
  struct Runner {
    ThreadId thread{};
    std::uint64_t ns = 0, others_at_most_ns = 0;
  };
  [[nodiscard]] std::optional<Runner> runner() const;
  [[nodiscard]] WaitRows rows(const Naming& names) const;

 private:
  struct Sum {
    std::uint64_t ns = 0, count = 0, max_ns = 0;
    ThreadId root{};  // the thread of Culprit::root; none if there are several
  };
  std::map<Culprit, Sum> sums_;
};

class WaitSums {
 public:
  void add(std::span<const WaitShare> shares) {
    for (const WaitShare& share : shares) sums_[static_cast<std::size_t>(share.part)].add(share);
  }
  [[nodiscard]] WaitReport report(const Naming& names) const;

 private:
  std::array<CulpritSums, kParts> sums_;
};

struct ReportData;
// Returns the tables of --waits: preempted, blocked and halted, each with at most `top` rows (0:
// all). Text has a sentence if there are no rows.
[[nodiscard]] std::vector<Table> wait_tables(const WaitReport& waits, const ReportData& report,
                                             std::size_t top);

}  // namespace trapline
