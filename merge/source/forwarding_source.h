// A source around another one, which inherits from the inner source what it does not change.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "merge/source/source.h"

namespace trapline {

class ForwardingSource : public Source {
 public:
  explicit ForwardingSource(std::unique_ptr<Source> source) : source_(std::move(source)) {}

  void select(EventClass events) override { source_->select(events); }
  bool keep_buffers(KeptBuffers& kept) override { return source_->keep_buffers(kept); }
  [[nodiscard]] const Result<void>& status() const override { return source_->status(); }
  [[nodiscard]] const SourceInfo& info() const override { return source_->info(); }
  [[nodiscard]] SourceCounters counters() const override { return source_->counters(); }
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
  [[nodiscard]] std::string userspace_reason(std::uint32_t reason) const override {
    return source_->userspace_reason(reason);
  }

 protected:
  std::unique_ptr<Source> source_;
};

}  // namespace trapline
