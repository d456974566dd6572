// Finds two kernel recordings that put different threads on one CPU at the same time: they cannot
// be of one boot, or their clocks are not aligned. Pure; processes a stream with bounded state for
// each CPU.
//
//   a   ── X ────────────── X ──   no switch in between: X was on the CPU all the time,
//   b   ─────────── Y ──────────   so Y was not: a conflict
//
// This is exact if a recording has every sched_switch: two consecutive events of one thread on a
// CPU belong to one stay on the CPU. A recording counts as filtered if more than one in kMostJoined
// of its events does not fit the last switch (X to Y, then Z to X). Its stays are then not known,
// but its events still count against the stays of another recording. (A few events never fit: exec
// of a thread changes its number, and arm64 saves a vCPU's timers after the switch is written.)
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
    bool has_switches = false;  // the source records sched_switch
    std::uint64_t error = 0;    // error bound of its times, in the timeline's unit
  };
  // A contradiction. `from` and `to` are two events of one source between which a thread stayed on
  // the CPU; `at` is an event of another source that contradicts this.
  struct Conflict {
    Event from, to, at;  // without views into records
  };

  // `sources` are indexed like those of the timeline.
  explicit CpuConflicts(std::vector<Source> sources)
      : sources_(std::move(sources)), found_(sources_.size()) {}

  // Takes an event of a host's kernel; events come in order of time.
  void on(const Event& event);
  // Returns the first conflict with a recording that has every switch; call it after the last
  // event.
  [[nodiscard]] std::optional<Conflict> first() const;

  // How far, in ns, ftrace's clock mono may step back when the kernel updates its timekeeper.
  static constexpr std::uint64_t kSlack = 20'000;
  static constexpr std::uint64_t kMostJoined = 1000;

 private:
  struct Lane {  // one source on one CPU
    std::optional<Event> last;
    std::optional<Event> foreign;  // the first event of another thread since `last`
    ThreadId thread{};             // the thread that has the CPU after `last`
    ThreadId leaving{};  // the thread that lost the CPU by `last`; its last events may come later
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
  std::vector<Found> found_;  // indexed by the source of the stay
};

}  // namespace trapline
