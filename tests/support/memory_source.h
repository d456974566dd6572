// Events in memory as a source: any events, those of KVM included, with a clock, losses, an error
// at the end, and times at which a live source has nothing yet.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "merge/source/source.h"

namespace trapline::test {

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::vector<Event> events = {}, Capabilities capabilities = {})
      : capabilities_(capabilities) {
    info_.path = "memory";
    info_.kind = "memory";
    info_.clock = "mono";
    for (Event& event : events) add(std::move(event));
  }
  // Verbs to fill it with; also between two calls of next().
  void add(Event event) { steps_.push_back({Read::kEvent, std::move(event)}); }
  void add_nothing_yet() { steps_.push_back({Read::kPending, {}}); }
  void fail_at_end(Error error) { error_ = std::move(error); }
  void set_cpus(std::uint32_t cpus) { cpus_ = cpus; }
  using Source::info;
  SourceInfo& info() { return info_; }

  Read take(Event& event) override {
    if (steps_.empty()) {
      if (error_) status_ = tl::unexpected(*error_);
      return Read::kEnd;
    }
    current_ = std::move(steps_.front());
    steps_.pop_front();
    if (current_.read == Read::kPending) return Read::kPending;
    event = current_.event;
    if (const auto* lost = std::get_if<Lost>(&event.payload)) {
      counters_.add_gap(lost->count);
    } else {
      counters_.add_event(event.at);
    }
    return Read::kEvent;
  }
  [[nodiscard]] Description describe() const override {
    Description is = Source::describe();
    is.machine.cpus = cpus_;
    return is;
  }
  [[nodiscard]] double progress() const override { return steps_.empty() ? 1 : 0; }
  [[nodiscard]] Capabilities capabilities() const override { return capabilities_; }
  [[nodiscard]] std::string event_name(const Event&) const override { return "memory:event"; }
  [[nodiscard]] std::string event_text(const Event&) const override { return {}; }
  [[nodiscard]] std::string reason_name(const ExitReason& exit) const override {
    return exit.isa == ExitReason::kIsaUserspace ? "" : "reason " + std::to_string(exit.reason);
  }

 private:
  struct Step {
    Read read = Read::kEvent;
    Event event;
  };
  std::deque<Step> steps_;
  Step current_;  // what the views of the event given out last may point into
  Capabilities capabilities_;
  std::optional<Error> error_;
  std::uint32_t cpus_ = 0;
};

}  // namespace trapline::test
