// A source around another one, on the timeline's clock. A wrapper inherits what it does not change
// from the inner source.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "merge/clock/clock_map.h"
#include "merge/source/source.h"

namespace trapline {

class WrappedSource : public Source {
 public:
  void select(EventClass events) override { source_->select(events); }
  [[nodiscard]] const Result<void>& status() const override { return source_->status(); }
  [[nodiscard]] const SourceInfo& info() const override { return info_; }
  [[nodiscard]] SourceCounters counters() const override {
    SourceCounters counters = source_->counters();
    counters.first = map_(counters.first);
    counters.last = map_(counters.last);
    return counters;
  }
  [[nodiscard]] double progress() const override { return source_->progress(); }
  [[nodiscard]] Capabilities capabilities() const override { return source_->capabilities(); }
  [[nodiscard]] Description describe() const override { return source_->describe(); }
  [[nodiscard]] std::optional<std::pair<Timestamp, Timestamp>> range() const override {
    return source_->range();
  }
  [[nodiscard]] std::string reader() const override { return source_->reader(); }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override {
    return source_->facts();
  }
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> event_counts() const override {
    return source_->event_counts();
  }
  [[nodiscard]] std::string event_name(const Event& event) const override {
    return source_->event_name(event);
  }
  [[nodiscard]] std::string event_text(const Event& event) const override {
    return source_->event_text(event);
  }
  [[nodiscard]] std::string comm(ThreadId thread) const override { return source_->comm(thread); }
  [[nodiscard]] std::string exit_reason(std::uint32_t isa, std::uint32_t reason,
                                        std::uint32_t exception_class) const override {
    return source_->exit_reason(isa, reason, exception_class);
  }
  [[nodiscard]] std::string kernel_function(std::uint64_t address) const override {
    return source_->kernel_function(address);
  }
  [[nodiscard]] std::string kernel_symbol(std::uint64_t address) const override {
    return source_->kernel_symbol(address);
  }
  [[nodiscard]] std::string userspace_reason(std::uint32_t reason) const override {
    return source_->userspace_reason(reason);
  }

 protected:
  WrappedSource(std::unique_ptr<Source> source, ClockMap map)
      : source_(std::move(source)), info_(source_->info()), map_(std::move(map)) {}

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

  std::unique_ptr<Source> source_;
  SourceInfo info_;  // the wrapper's constructor says how the clock was related

 private:
  ClockMap map_;  // from the inner source's times to the timeline's
};

}  // namespace trapline
