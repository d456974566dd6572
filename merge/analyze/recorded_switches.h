// Whether a recording holds each sched_switch, or only those of some threads, as of `record --pid`
// and `trace-cmd record -P`. Then nothing tells how long another thread ran that came after one of
// them, nor who came after it:
//
//   recorded        A ──> X                          Y ──> A
//   what happened   A ──> X ──> idle ──> Z ──> Y ──> idle ──> Y ──> A
//
// Known from the session, or where the switches of a CPU do not follow each other time and again:
// other than in those of the recorder, which leaves itself out, and of a CPU that goes offline: its
// way from the stopper thread to the idle one has no event. Of a thread each switch is recorded
// where it is of the session's process, or where one between it and an idle thread is recorded,
// which is of no process.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "merge/analyze/threads.h"
#include "merge/model/processes.h"

namespace trapline {

class RecordedSwitches {
 public:
  // Each thread that a CPU switches to, in order.
  void on_run(const ThreadChange& change, const Processes& processes);
  // What the CPU switched to last is not known any more.
  void on_lost(std::uint32_t cpu);

  // The thread that the last event's CPU had switched to, where another one left it: one whose
  // switches are not recorded.
  [[nodiscard]] const std::optional<ThreadId>& skipped() const { return skipped_; }
  // Whether each switch of the thread is recorded.
  [[nodiscard]] bool has_all_of(ThreadId thread) const {
    return !selected_ || whole_.contains(thread);
  }

 private:
  static constexpr std::size_t kMostThreads = 1u << 12;
  static constexpr std::uint32_t kMostCpus = 1u << 12;
  // Tracing that is switched off and on skips some, and so does a thread that takes its process's
  // id when it executes a program.
  static constexpr std::uint64_t kLeastSkips = 2, kMostBetweenSkips = 1000;
  struct Skip {
    ThreadId to{}, from{};
  };
  struct Cpu {
    std::optional<ThreadId> thread;
    bool stopper = false;  // `thread` is the CPU's migration/N
    std::uint64_t switches = 0, skips = 0;
    Skip first;
  };
  static bool is_stopper(std::string_view comm, std::uint32_t cpu);
  void note_skip(Cpu& cpu, const Skip& skip);
  void note(ThreadId thread, bool surely, const Processes& processes);

  std::vector<Cpu> cpus_;
  std::optional<ThreadId> skipped_;
  bool selected_ = false;
  std::unordered_set<ThreadId> whole_;
};

}  // namespace trapline
