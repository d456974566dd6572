// A source of events that a test holds in memory.
#pragma once

#include <utility>
#include <vector>

#include "merge/source/source.h"

namespace trapline::test {

class EventsSource final : public Source {
 public:
  // `events` outlives it.
  explicit EventsSource(const std::vector<Event>& events) : events_(events) {
    info_.clock = "mono";
  }
  Read next(Event& event) override {
    if (at_ == events_.size()) return Read::kEnd;
    event = events_[at_++];
    return Read::kEvent;
  }
  const Result<void>& status() const override { return status_; }
  const SourceInfo& info() const override { return info_; }
  SourceCounters counters() const override { return counters_; }
  double progress() const override { return 1; }
  std::string event_name(const Event&) const override { return ""; }
  std::string event_text(const Event&) const override { return ""; }

 private:
  const std::vector<Event>& events_;
  std::size_t at_ = 0;
  Result<void> status_;
  SourceInfo info_;
  SourceCounters counters_;
};

}  // namespace trapline::test
