// Keeps, of all pages that stream by, the seconds around each hit.
//
//   pages of a CPU ─> ring in memory ─> watched for hits, in order of time over all CPUs ─┐
//                          │                                      windows <────── hits ───┘
//                          └─> once no hit can reach them: in a window? written : left out
//
// What is written is cut at the windows' edges to the event: inside a window the events of every
// CPU are there, between windows those of none. On every CPU a window begins with an empty page of
// the time of its edge that has the kernel's mark for events lost before it, and ends with an empty
// page without: readers know the loss exactly, however long a CPU was idle before and after. The
// first page with events has the mark once more, for readers that pass over empty ones (trace-cmd).
//
// An exit that is open for long is written while it goes on, its first minute at most: that it is a
// hit is certain before it ends.
//
// Guarantees: at most `ring_bytes` of pages in memory, but never less than four for each CPU; where
// they do not suffice, the oldest go, and the hits whose time before was shortened by it are
// counted. Pages reach the sink in order. After the sink's first error nothing more is given to it,
// and what would have been is counted.
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

// The pieces of time that are kept: closed intervals, apart from each other and in order.
using Window = SessionWindow;

class Windows {
 public:
  // Joins those that it touches. `from` must not be after `to`.
  void add(Window window) {
    const auto first = std::find_if(windows_.begin(), windows_.end(),
                                    [&](const Window& w) { return w.to_ns >= window.from_ns; });
    auto last = first;
    for (; last != windows_.end() && last->from_ns <= window.to_ns; ++last) {
      window = {std::min(window.from_ns, last->from_ns), std::max(window.to_ns, last->to_ns)};
    }
    windows_.insert(windows_.erase(first, last), window);
  }
  // Takes away those that end before `time`.
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

struct SnapshotOptions {
  std::uint64_t around_ns = 0;
  std::size_t ring_bytes = 0;  // of all CPUs
  std::size_t page_size = 4096;
  unsigned cpus = 1;
};

// What a session keeps of it, and what only the recorder asks for.
struct SnapshotFacts : SessionSnapshot {
  static constexpr std::size_t kMost = 1000;  // of each list

  std::uint64_t still_open = 0;
  Hit latest;
  std::uint64_t certain = 0;  // that were hits before they ended
  Hit latest_certain;
};

class Snapshot final : public PageSink {
 public:
  using Sink = std::function<Result<void>(unsigned cpu, std::span<const std::byte> page)>;

  Snapshot(const SnapshotOptions& options, TriggerMatcher watch, Alive alive, Sink sink);

  // A round that brings no more than room() of each CPU leaves all of the ring's time to the hits.
  // Events of a CPU that was drained are older than this round or come in a later one.
  [[nodiscard]] std::size_t room(unsigned) const override { return round_pages_; }
  void begin_round() override { newest_before_ = ring_.newest(); }
  [[nodiscard]] Result<void> page(unsigned cpu, std::span<const std::byte> page) override;
  void drained(unsigned cpu) override;
  [[nodiscard]] Result<void> end_round() override;
  // After the last page, or after an error, so that what is in memory is written or counted.
  [[nodiscard]] Result<void> finish();

  // The expression, and what else the session says of it: its facts begin with that.
  void begin_with(const SessionSnapshot& told) { static_cast<SessionSnapshot&>(facts_) = told; }
  [[nodiscard]] const SnapshotFacts& facts() const { return facts_; }
  [[nodiscard]] std::vector<SyncStamp> take_stamps() { return watch_.take_stamps(); }
  [[nodiscard]] std::size_t held_bytes() const { return ring_.held_bytes(); }
  // Pages that were to be written after the sink's error.
  [[nodiscard]] std::uint64_t unwritten_pages(unsigned cpu) const { return cpus_[cpu].unwritten; }

 private:
  static constexpr std::uint64_t kNoWindow = ~std::uint64_t{0};
  struct Cpu {
    std::uint64_t complete = 0;  // no older event comes any more
    std::uint64_t missing = 0;   // events left out or lost since the last window
    bool missing_unknown = false;
    std::uint64_t begun = kNoWindow;  // where the last window that has its first page begins
    std::uint64_t ended = kNoWindow;  // and that of the last one that has its last page
    std::int64_t fresh = 0;  // the mark of the first page, while no page with events followed it
    std::uint64_t unwritten = 0;  // pages
  };
  [[nodiscard]] std::uint64_t complete_to() const;
  void watch_to(std::uint64_t time);
  void take_hits();
  void keep_certain(std::uint64_t complete);
  void decide(std::uint64_t before);
  void write(unsigned cpu, const HeldPage& page);
  void write_edges(unsigned cpu, std::uint64_t to);
  void write_empty(unsigned cpu, std::uint64_t time, std::int64_t lost);
  void sink(unsigned cpu, std::span<const std::byte> page, std::uint32_t events);
  void make_room(std::size_t bytes);
  [[nodiscard]] Result<void> result() const;

  SnapshotOptions options_;
  TriggerMatcher watch_;
  Alive alive_;
  Sink sink_;
  std::optional<Error> broken_;  // the sink's
  unsigned round_pages_ = 0;
  PageRing ring_;
  std::vector<Cpu> cpus_;
  Windows windows_;
  OpenExits told_;  // of facts_.certain
  SnapshotFacts facts_;
  std::vector<std::byte> out_, empty_;
  std::uint64_t newest_before_ = 0;  // the newest stamp before this round
  std::uint64_t decided_ = 0;        // what is older was written or left out
};

}  // namespace trapline::record
