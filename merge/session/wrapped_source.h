// A source around another one, on the timeline's clock.
#pragma once

#include <memory>
#include <utility>

#include "merge/clock/clock_map.h"
#include "merge/source/forwarding_source.h"

namespace trapline {

class WrappedSource : public ForwardingSource {
 public:
  [[nodiscard]] const SourceInfo& info() const override { return info_; }
  [[nodiscard]] SourceCounters counters() const override {
    SourceCounters counters = source_->counters();
    counters.first = map_(counters.first);
    counters.last = map_(counters.last);
    return counters;
  }

 protected:
  WrappedSource(std::unique_ptr<Source> source, ClockMap map)
      : ForwardingSource(std::move(source)), info_(source_->info()), map_(std::move(map)) {}

  // The inner source's next event, at its time on the timeline.
  Read next_placed(Event& event) {
    const Read read = source_->next(event);
    if (read != Read::kEvent) return read;
    event.at = map_(event.at);
    if (auto* lost = std::get_if<Lost>(&event.payload)) {
      lost->from = map_(lost->from);
      lost->to = map_(lost->to);
    }
    return read;
  }

  SourceInfo info_;  // the wrapper's constructor says how the clock was related

 private:
  ClockMap map_;  // from the inner source's times to the timeline's
};

}  // namespace trapline
