// The pages of a feed as a source; the last of them stay in memory, to be saved.
//
//   feed ──> per CPU: pages ──────────────┐  merged by time, up to where every CPU is complete
//            walked ··· ^ next ··· newest └─> Event
//
// Guarantees: at most `ring_bytes` of pages in memory (and a few of each CPU), whatever comes: the
// oldest that were read go first, and few are fetched before they are read: the kernel, which keeps
// the others, counts what it drops.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "merge/live/page_feed.h"
#include "merge/record/snapshot/page_cut.h"
#include "merge/source/kernel_events/kernel_event_source.h"
#include "merge/source/merge_heap.h"
#include "merge/source/trace_dat/ring_page.h"

namespace trapline::live {

class LiveSource final : public kernel_events::KernelEventSource {
 public:
  [[nodiscard]] static Result<std::unique_ptr<LiveSource>> open(std::unique_ptr<PageFeed> feed,
                                                                std::size_t ring_bytes);

  // Fetches what is ready; whether there may be more. Then next() until kPending.
  [[nodiscard]] Result<bool> fetch();
  // No event older than this comes any more.
  [[nodiscard]] Timestamp complete() const;
  [[nodiscard]] bool has_ended() const { return ended_; }
  [[nodiscard]] PageFeed& feed() { return *feed_; }

  [[nodiscard]] Read next(Event& event) override;
  [[nodiscard]] double progress() const override { return 0; }
  // By the events that came so far.
  [[nodiscard]] Capabilities capabilities() const override;
  [[nodiscard]] std::string comm(ThreadId thread) const override;

  // The pages that are still there, in their order. The time of the first event that all CPUs
  // still have.
  using PageSink = std::function<Result<void>(std::size_t cpu, std::span<const std::byte> page,
                                              const record::PageFacts& facts)>;
  [[nodiscard]] Result<void> for_each_page(const PageSink& sink) const;
  [[nodiscard]] Timestamp kept_from() const { return Timestamp(kept_from_); }

 private:
  struct Cpu {
    std::deque<record::HeldPage> pages;
    std::size_t next_page = 0;  // the first that was not walked
    trace_dat::RingPage walk;
    kernel_events::RecordedEvent next;
    std::uint64_t lost_to = 0;   // where the loss ends that `next` stands for, without data
    std::int64_t lost = 0;       // its number
    std::uint64_t seen = 0;      // the last stamp of the pages walked
    std::uint64_t complete = 0;  // no older event comes
    bool in_heap = false;
  };
  LiveSource(kernel_events::Formats formats, SourceInfo info, Capabilities capabilities,
             std::unique_ptr<PageFeed> feed, std::size_t ring_bytes);
  [[nodiscard]] Result<bool> fetch_cpu(std::size_t cpu);
  void make_room();
  [[nodiscard]] bool to_next(std::size_t cpu);
  [[nodiscard]] bool choose();
  void drop_oldest(std::size_t cpu);

  static constexpr std::size_t kNone = ~std::size_t{0};
  static constexpr std::size_t kLeastAhead = 4, kMostAhead = 64;

  std::unique_ptr<PageFeed> feed_;
  std::size_t ring_bytes_, held_ = 0,
                           pages_ahead_ = kLeastAhead;  // pages of a CPU before they are read
  std::vector<Cpu> cpus_;
  std::vector<std::byte> buffer_;
  MergeHeap heap_;
  std::size_t current_ = kNone;  // the CPU whose event was handed out
  std::uint64_t complete_ = 0, newest_ = 0, kept_from_ = 0;
  bool ended_ = false;
};

// The last seconds of a live view as a session of its own.
struct Saved {
  Timestamp from, to;  // of what was saved
  std::uint64_t events = 0;
};

// Writes the events of [from, to], as far as they are still in memory, into `folder`, a session
// that every command reads. Errors: no events; those of making a session's folder.
[[nodiscard]] Result<Saved> save_session(const LiveSource& source, PageFeed& feed, Timestamp from,
                                         Timestamp to, const std::string& folder,
                                         const std::string& version);

}  // namespace trapline::live
