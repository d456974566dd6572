// A source around another one: what a wrapper does not change is the inner source's.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "merge/source/source.h"

namespace trapline {

class WrappedSource : public Source {
 public:
  void select(EventClass events) override { source_->select(events); }
  [[nodiscard]] const Result<void>& status() const override { return source_->status(); }
  [[nodiscard]] const SourceInfo& info() const override { return info_; }
  [[nodiscard]] const SourceCounters& counters() const override { return counters_; }
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
  [[nodiscard]] std::string userspace_reason(std::uint32_t reason) const override {
    return source_->userspace_reason(reason);
  }

 protected:
  explicit WrappedSource(std::unique_ptr<Source> source)
      : source_(std::move(source)), info_(source_->info()) {}

  // The inner source's next event on another clock: `place` maps a Timestamp to a Timestamp.
  template <typename Place>
  Read next_placed(Event& event, Place&& place) {
    const Read read = source_->next(event);
    counters_ = source_->counters();
    counters_.first = place(counters_.first);
    counters_.last = place(counters_.last);
    if (read != Read::kEvent) return read;
    event.at = place(event.at);
    if (auto* lost = std::get_if<Lost>(&event.payload)) {
      lost->from = place(lost->from);
      lost->to = place(lost->to);
    }
    return read;
  }

  std::unique_ptr<Source> source_;
  SourceInfo info_;          // the wrapper's constructor says how the clock was related
  SourceCounters counters_;  // on the wrapper's clock
};

}  // namespace trapline
