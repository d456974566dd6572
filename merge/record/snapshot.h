// Keeps only the seconds around each hit, of all pages that stream by.
//
//   pages of a CPU ─> ring in memory ─> watched for hits, in order of time over all CPUs ─┐
//                          │                                      windows <────── hits ───┘
//                          └─> once no hit can reach them: in a window? written : left out
//
// Pages are cut at the edges of windows, exactly between events: inside a window the events of
// every CPU are complete, between windows there are none. On every CPU a window begins with an
// empty page that has the time of the window's edge and the kernel's mark for lost events, and ends
// with an empty page without the mark. So readers know the loss exactly, however long a CPU was
// idle before and after. The first page with events repeats the mark, for readers that skip empty
// pages (trace-cmd).
//
// An exit that is open for long is certainly a hit before it ends, so it is written while it goes
// on, but at most its first minute.
//
// Guarantees: at most `ring_bytes` of pages in memory, but at least four per CPU. If they do not
// suffice, the oldest are dropped, and the hits whose time before them is shortened are counted.
// Pages reach the sink in order. After the sink's first error it gets no more pages, and the
// missing ones are counted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "merge/record/page_ring.h"
#include "merge/record/page_sink.h"
#include "merge/record/trigger_matcher.h"
#include "merge/session/session_json.h"

namespace trapline::record {

// A time range that is kept, including both ends. Windows keeps several, disjoint and in order.
using Window = SessionWindow;

class Windows {
 public:
  // Adds a window and joins it with those that it touches. `from` must not be after `to`.
  void add(Window window) {
    const auto first = std::find_if(windows_.begin(), windows_.end(),
                                    [&](const Window& w) { return w.to_ns >= window.from_ns; });
    auto last = first;
    for (; last != windows_.end() && last->from_ns <= window.to_ns; ++last) {
      window = {std::min(window.from_ns, last->from_ns), std::max(window.to_ns, last->to_ns)};
    }
    windows_.insert(windows_.erase(first, last), window);
  }
  // Removes and returns the windows that end before `time`.
  [[nodiscard]] std::vector<Window> take_before(std::uint64_t time) {
    const auto end = std::find_if(windows_.begin(), windows_.end(),
                                  [&](const Window& w) { return w.to_ns >= time; });
    std::vector<Window> taken(windows_.begin(), end);
    windows_.erase(windows_.begin(), end);
    return taken;
  }
  [[nodiscard]] const std::vector<Window>& all() const { return windows_; }

 private:
  std::vector<Window> windows_;
};

// Adds facts that only the recorder uses to those that a session stores about hits.
struct SnapshotFacts : SessionSnapshot {
  static constexpr std::size_t kMost = 1000;  // of each list

  SessionHit latest;
  std::uint64_t certain = 0;  // exits that were hits before they ended
  SessionHit latest_certain;
};

class Snapshot final : public PageSink {
 public:
  using Sink = std::function<Result<void>(unsigned cpu, std::span<const std::byte> page)>;

  // `limits.keep_ns`: the time that is kept before and after each hit.
  Snapshot(const RingLimits& limits, TriggerMatcher watch, Alive alive, Sink sink);

  // Returns how many pages a round may bring from each CPU. They fit into a quarter of the ring, so
  // that a round does not push out older pages around a hit.
  [[nodiscard]] std::size_t room(unsigned) const override { return round_pages_; }
  // Notes the newest stamp: a CPU that is drained in this round has no unread event up to it.
  void begin_round() override { newest_before_ = ring_.newest(); }
  [[nodiscard]] Result<void> page(unsigned cpu, std::span<const std::byte> page) override;
  void drained(unsigned cpu) override { ring_.set_complete(cpu, newest_before_); }
  [[nodiscard]] Result<void> end_round() override;
  // Call it after the last page, or after an error: writes or counts what is in memory.
  [[nodiscard]] Result<void> finish();

  // Sets the facts that are known before the first page: the expression, --around, and the other
  // recordings in the session, such as uftrace.data, that contain the whole run.
  void begin_with(const SessionSnapshot& facts) { static_cast<SessionSnapshot&>(facts_) = facts; }
  [[nodiscard]] const SnapshotFacts& facts() const { return facts_; }
  [[nodiscard]] std::size_t held_bytes() const { return ring_.held_bytes(); }
  // Returns how many pages could not be written after the sink's error.
  [[nodiscard]] std::uint64_t unwritten_pages(unsigned cpu) const { return cpus_[cpu].unwritten; }

 private:
  static constexpr std::uint64_t kNoWindow = ~std::uint64_t{0};
  struct Cpu {
    std::uint64_t missing = 0;  // events left out or lost since the last window
    bool missing_unknown = false;
    std::uint64_t begun = kNoWindow;  // beginning of the last window whose first page was written
    std::uint64_t ended = kNoWindow;  // beginning of the last window whose last page was written
    std::int64_t fresh = 0;       // the loss before the window, until a page with events repeats it
    std::uint64_t unwritten = 0;  // pages
  };
  void watch_to(std::uint64_t time);
  void take_hits();
  void keep_certain(std::uint64_t complete);
  void decide(std::uint64_t before);
  void write(unsigned cpu, const KeptPage& page);
  void write_edges(unsigned cpu, std::uint64_t to);
  void write_empty(unsigned cpu, std::uint64_t time, std::int64_t lost);
  void sink(unsigned cpu, std::span<const std::byte> page, std::uint32_t events);
  void make_room(std::size_t bytes);
  [[nodiscard]] Result<void> result() const;

  RingLimits options_;
  TriggerMatcher watch_;
  Alive alive_;
  Sink sink_;
  std::optional<Error> broken_;  // of the sink
  unsigned round_pages_ = 0;
  PageRing ring_;
  std::vector<Cpu> cpus_;
  Windows windows_;
  OpenExits told_;  // exits counted in facts_.certain
  SnapshotFacts facts_;
  std::vector<std::byte> out_, empty_;
  std::uint64_t newest_before_ = 0;  // the newest stamp before this round
  std::uint64_t decided_ = 0;        // older pages were written or left out
};

}  // namespace trapline::record
