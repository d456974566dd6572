// --irq: interrupts by vector and by where they were raised.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "merge/analyze/irq_tracker.h"
#include "merge/report/report.h"

namespace trapline {

class IrqTable {
 public:
  static constexpr std::size_t kMostRows = 4096;

  void add(const IrqSpan& span);
  void report(Report& report, const IrqTracker& tracker) const;

 private:
  // By vector, origin and, for a line, pin.
  std::map<std::tuple<std::uint32_t, IrqSpan::Origin, std::uint32_t>, IrqRow> rows_;
};

}  // namespace trapline
