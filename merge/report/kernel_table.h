// --kernel: what the kernel's time in exits went to, by reason.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>

#include "merge/analyze/kernel_tracker.h"
#include "merge/pass/naming.h"
#include "merge/report/kernel_report.h"

namespace trapline {

class KernelTable {
 public:
  // Of reasons and their sub-parts; what comes then is one row, "[other]".
  static constexpr std::size_t kMost = 4096;

  void add(const ExitSpan& exit, const KernelTracker& kernel);
  [[nodiscard]] KernelReport report(const Naming& names, std::size_t top) const;

 private:
  // Source and reason, and the sub-part.
  using Key = std::tuple<std::uint16_t, ExitReason, KernelWork, NameId>;
  struct Sum {
    std::uint64_t ns = 0, count = 0, max_ns = 0, total_ns = 0;
    void add(const Sum& other);
  };
  Sum& sum_of(const ExitSpan& exit, KernelWork work, NameId name);

  std::map<Key, Sum> sums_;
  Sum other_;
};

}  // namespace trapline
