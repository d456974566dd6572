// --slower-than: the exits that lasted at least so long, one by one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "merge/model/exit_span.h"
#include "merge/pass/naming.h"
#include "merge/report/report.h"

namespace trapline {

// The exit in words; `function` is the guest's, kNoName where it is not known.
[[nodiscard]] ExitRow exit_row(const ExitSpan& span, NameId function, const Naming& naming);

class SlowExits {
 public:
  // So many are kept; of more, the slowest.
  static constexpr std::size_t kMost = 20'000;

  // `top`: the slowest of them; 0: all.
  SlowExits(std::optional<std::uint64_t> at_least_ns, std::size_t top)
      : at_least_ns_(at_least_ns), most_(top == 0 ? kMost : std::min(top, kMost)) {}

  [[nodiscard]] bool wants(const ExitSpan& span) const {
    return at_least_ns_ && span.total() >= *at_least_ns_;
  }
  // `function` is the guest's, as above.
  void add(const ExitSpan& span, NameId function);
  // In the order of time; nothing where the option was not given.
  void report(Report& report, const Naming& names) const;

 private:
  struct SlowExit {
    ExitSpan span;
    NameId function;
    std::uint64_t order;  // in which it ended
  };
  std::optional<std::uint64_t> at_least_ns_;
  std::size_t most_;
  std::vector<SlowExit> kept_;  // a heap with the fastest in front once it is full
  std::uint64_t added_ = 0;
};

}  // namespace trapline
