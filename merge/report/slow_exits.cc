#include "merge/report/slow_exits.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/pass/exit_text.h"

namespace trapline {

void SlowExits::add(const ExitSpan& span, NameId function) {
  const auto faster_last = [](const SlowExit& a, const SlowExit& b) {
    return a.span.total() > b.span.total();
  };
  ++added_;
  if (kept_.size() >= kMost) {
    if (kept_.front().span.total() >= span.total()) return;
    std::pop_heap(kept_.begin(), kept_.end(), faster_last);
    kept_.pop_back();
  }
  kept_.push_back({span, function, added_});
  kept_.back().span.intervals = {};  // they end with the call
  kept_.back().span.handlers = {};
  std::push_heap(kept_.begin(), kept_.end(), faster_last);
}

void SlowExits::report(Report& report, const Naming& naming) const {
  if (!at_least_ns_) return;
  report.slower_than_ns = *at_least_ns_;
  report.slow_left_out = added_ - kept_.size();
  std::vector<SlowExit> kept = kept_;
  std::sort(kept.begin(), kept.end(), [](const SlowExit& a, const SlowExit& b) {
    return std::tuple(a.span.start, a.order) < std::tuple(b.span.start, b.order);
  });
  auto& rows = report.slow_exits.emplace();
  for (const SlowExit& slow : kept) {
    const ExitSpan& span = slow.span;
    const Source& source = naming.timeline.source(span.source);
    ExitRow row{span,
                naming.vcpus.vcpu(span.thread, true),
                function_text(naming.names, slow.function),
                printable(reason_text(source, span.reason)),
                detail_text(span.detail),
                name_or_dash(naming.names, span.device),
                "-"};
    if (span.preempted_by != ThreadId{}) {
      row.preempted_by = fmt::format("{}-{}", printable(source.comm(span.preempted_by)),
                                     static_cast<std::int32_t>(span.preempted_by));
    }
    rows.push_back(std::move(row));
  }
}

}  // namespace trapline
