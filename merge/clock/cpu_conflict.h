// Two kernel recordings cannot be of one boot, or their clocks are not aligned, where they put
// different threads on one CPU at one time. Pure; a stream with bounded state for each CPU.
//
//   a   ── X ────────────── X ──   no switch in between: X was on the CPU all the time,
//   b   ─────────── Y ──────────   so Y was not: a conflict
//
// Exact where a recording has every sched_switch: two events of one thread that follow each other
// on a CPU are of one stay there. A recording was filtered where more than one of kMostJoined of
// its events does not join the last switch (X to Y, then Z to X): nothing is known of its stays,
// while its events still count against another one's. (exec of a thread changes its number; arm64
// saves a vCPU's timers once the switch is written.)
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "merge/model/event.h"

namespace trapline {

class CpuConflicts {
 public:
  struct Source {
    bool has_switches = false;  // it records sched_switch
    std::uint64_t error = 0;    // of its times, in the timeline's unit
  };
  // `from` to `to`: the first stay's two events, of the source `stays`; `at` is the event of
  // `other` that contradicts them.
  struct Conflict {
    Event from, to, at;  // without views
  };

  // By source of the timeline.
  explicit CpuConflicts(std::vector<Source> sources)
      : sources_(std::move(sources)), found_(sources_.size()) {}

  // Events of the host's kernel, in order of time.
  void on(const Event& event);
  // After the last event: the first conflict that a whole record of switches shows.
  [[nodiscard]] std::optional<Conflict> first() const;

  // ftrace's clock mono may step back when the kernel updates its timekeeper.
  static constexpr std::uint64_t kSlack = 20'000;
  static constexpr std::uint64_t kMostJoined = 1000;

 private:
  struct Lane {  // of a source, on one CPU
    std::optional<Event> last;
    std::optional<Event> foreign;  // the first event of another thread since `last`
    ThreadId thread{};             // after `last`: who has the CPU
    ThreadId leaving{};            // `last` took the CPU from it; its last events may come after
  };
  void stay(Lane& lane, const Event& event);
  [[nodiscard]] std::uint64_t slack(const Event& a, const Event& b) const {
    return sources_[a.source].error + sources_[b.source].error + kSlack;
  }

  std::vector<Source> sources_;
  std::map<std::uint32_t, std::vector<Lane>> cpus_;
  struct Found {
    std::optional<Conflict> first;
    std::uint64_t events = 0, unjoined = 0;
  };
  std::vector<Found> found_;  // by the source of the stay
};

}  // namespace trapline
