// Reads the pages of a feed as a source, and keeps the last pages in memory so that they can be
// saved.
//
//   feed ──> per CPU: pages ──────────────┐  merged by time, up to where every CPU is complete
//            walked ··· ^ next ··· newest └─> Event
//
// Guarantees: at most `ring_bytes` of pages in memory (and a few per CPU). The oldest pages that
// were read are removed first, and only a few are fetched ahead: the kernel keeps the others, and
// counts what it drops.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "merge/live/page_feed.h"
#include "merge/record/page_ring.h"
#include "merge/record/page_sink.h"
#include "merge/source/kernel_events/kernel_event_source.h"

namespace trapline::live {

class LiveSource final : public kernel_events::KernelEventSource, private record::PageSink {
 public:
  [[nodiscard]] static Result<std::unique_ptr<LiveSource>> open(std::unique_ptr<PageFeed> feed,
                                                                std::size_t ring_bytes);

  // Fetches the pages that are ready. Returns whether there may be more. Afterwards call next()
  // until it returns kPending.
  [[nodiscard]] Result<bool> fetch();
  // Returns a time before which no further event will come.
  [[nodiscard]] Timestamp complete() const;
  [[nodiscard]] PageFeed& feed() { return *feed_; }

  [[nodiscard]] Read take(Event& event) override;
  [[nodiscard]] double progress() const override { return 0; }
  // Returns what the source can show, judged by the events so far.
  [[nodiscard]] Capabilities capabilities() const override;
  [[nodiscard]] std::string name_of(ThreadId thread) const override;

  // Returns the pages that are still in memory.
  [[nodiscard]] const record::PageRing& ring() const { return ring_; }

 private:
  LiveSource(kernel_events::Formats formats, SourceInfo info, Capabilities capabilities,
             std::unique_ptr<PageFeed> feed, std::size_t ring_bytes);
  // Returns how many more of a CPU's pages may be fetched now; further pages wait in the kernel, or
  // on disk.
  [[nodiscard]] std::size_t room(unsigned cpu) const override;
  [[nodiscard]] Result<void> page(unsigned cpu, std::span<const std::byte> page) override;
  void drained(unsigned cpu) override;
  // Returns a predicate: true for an event at which the walk stops; other events are counted.
  [[nodiscard]] auto wants() {
    return [this](const kernel_events::RecordedEvent& event) {
      if (event.size < sizeof(std::uint16_t) || !is_unwanted(event)) return true;
      count_unwanted(event, Timestamp(event.time));
      return false;
    };
  }

  static constexpr std::size_t kLeastAhead = 4, kMostAhead = 64;

  std::unique_ptr<PageFeed> feed_;
  std::size_t ring_bytes_, pages_ahead_ = kLeastAhead;  // pages_ahead_: unread pages per CPU
  record::PageRing ring_;
  std::vector<bool> drained_;  // in this round, by CPU
  std::vector<std::byte> buffer_;
  std::uint64_t complete_ = 0, drained_to_ = 0;
  bool ended_ = false;
};

// The last seconds of a live view, saved as a session.
struct Saved {
  Timestamp from, to;  // of what was saved
  std::uint64_t events = 0;
};

// Writes the events of [from, to] that are still in memory into `folder`, as a session that every
// command can read. Errors: no events; those of making a session's folder.
[[nodiscard]] Result<Saved> save_session(const LiveSource& source, PageFeed& feed, Timestamp from,
                                         Timestamp to, const std::string& folder,
                                         const std::string& version);

}  // namespace trapline::live
