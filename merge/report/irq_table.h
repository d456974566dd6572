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

  // `process` is that of the event's thread.
  void on(const Event& event, ThreadId process) {
    if (const IrqSpan* span = tracker_.on(event, process)) take(*span);
  }
  // Call once, after the last event.
  void report(Report& report);

 private:
  void take(const IrqSpan& span);
  void report_events(Report& report) const;

  IrqTracker tracker_;
  // By vector, origin and, for a line, pin.
  std::map<std::tuple<std::uint32_t, IrqSpan::Origin, std::uint32_t>, IrqRow> rows_;
};

}  // namespace trapline
