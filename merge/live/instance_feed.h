// Pages of an ftrace instance: one of our own, or one that somebody else has set up.
#pragma once

#include <memory>
#include <optional>

#include "merge/live/host_threads.h"
#include "merge/live/page_feed.h"
#include "merge/record/instance.h"
#include "merge/record/page_stream.h"
#include "merge/record/recorder.h"

namespace trapline::live {

// Guarantees: an instance of our own is gone when this object is, and after a SIGKILL with the next
// start; of somebody else's nothing is changed, but the pages that are read here are gone for it.
class InstanceFeed final : public PageFeed {
 public:
  // Recording as `options` say (clock, buffer_kb, events). Instances of dead recorders go first.
  [[nodiscard]] static Result<std::unique_ptr<InstanceFeed>> create(
      const record::RecordOptions& options);
  // Errors (kUsage): there is none of that name.
  [[nodiscard]] static Result<std::unique_ptr<InstanceFeed>> attach(const std::string& name);
  ~InstanceFeed() override;
  InstanceFeed(const InstanceFeed&) = delete;
  InstanceFeed& operator=(const InstanceFeed&) = delete;

  [[nodiscard]] const trace_dat::Layout& layout() const override { return layout_; }
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] std::size_t cpus() const override { return streams_.size(); }
  [[nodiscard]] std::size_t page_size() const override { return page_size_; }
  [[nodiscard]] Result<bool> begin_round() override { return true; }
  [[nodiscard]] Result<bool> next(std::size_t cpu, std::span<std::byte> page) override {
    return streams_[cpu].read_page(page);
  }
  [[nodiscard]] std::uint64_t latency_ns() const override { return 0; }
  [[nodiscard]] std::vector<int> polled() const override;
  void look_at_threads(std::span<const ThreadId> threads) override { threads_.look_at(threads); }
  [[nodiscard]] std::map<ThreadId, ThreadId> threads() const override { return threads_.threads(); }
  [[nodiscard]] std::map<ThreadId, std::string> vm_names() const override {
    return threads_.vm_names();
  }
  [[nodiscard]] std::string comm(ThreadId thread) const override { return threads_.comm(thread); }
  [[nodiscard]] Result<std::string> head() const override;
  [[nodiscard]] trace_dat::StartFacts start_facts() const override;
  [[nodiscard]] std::string cmdlines() const override { return threads_.cmdlines(); }

 private:
  InstanceFeed() = default;
  [[nodiscard]] Result<void> open();
  [[nodiscard]] std::string text_of(const std::string& file) const;

  std::optional<record::Instance> instance_;  // the streams hold it open: they go before it
  std::string name_;
  std::vector<record::EventName> events_;
  trace_dat::Layout layout_;
  std::size_t page_size_ = 4096;
  std::vector<record::PageStream> streams_;
  HostThreads threads_;
};

}  // namespace trapline::live
