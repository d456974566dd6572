// How much time each vCPU spent in each state, and each thread of the host on CPUs, by time bin.
// Intervals are cut at the edges of bins, so the bins sum exactly to the totals.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/model/thread_table.h"
#include "merge/render/page/exits.h"

namespace trapline::page {

// Times of at most kMostThreads threads, each in kSlots kinds.
template <std::size_t kSlots, std::size_t kMostThreads>
class BinnedTimes {
 public:
  static constexpr std::size_t kMostBins = 256;
  using Bin = std::array<std::uint64_t, kSlots>;

  [[nodiscard]] const TimeBins& bins() const { return bins_; }
  // Returns the bins of a thread; nullptr if it has none.
  [[nodiscard]] const std::vector<Bin>* of(ThreadId thread) const { return threads_.find(thread); }
  void coarsen() {
    for (auto& [thread, times] : threads_.entries()) {
      times = bins_.doubled(times, [](Bin& to, const Bin& from) {
        for (std::size_t slot = 0; slot < kSlots; ++slot) to[slot] += from[slot];
      });
    }
    ++bins_.shift;
  }
  void begin_at(std::uint64_t ns) { bins_.begin_at(ns); }

 protected:
  void add(ThreadId thread, std::size_t slot, Timestamp begin, Timestamp end,
           const Pipeline& pipeline) {
    if (!bins_.started) bins_.start(pipeline.begin().value_or(begin));
    if (end <= begin) return;
    while (bins_.bin(end.ns() - 1) >= kMostBins) coarsen();
    std::vector<Bin>* times = threads_.get(thread, kMostThreads);
    if (times == nullptr) return;
    bins_.each(begin, end, [&](std::size_t bin, std::uint64_t ns) {
      if (times->size() <= bin) times->resize(bin + 1);
      (*times)[bin][slot] += ns;
    });
  }

 private:
  TimeBins bins_;
  ThreadTable<std::vector<Bin>> threads_;
};

// Shares are times of vCPUs by State.
class Shares : public BinnedTimes<kStates, 1024> {
 public:
  void guest_run(const GuestRun& run, const Pipeline& pipeline);
  void exit(const ExitSpan& exit, const Pipeline& pipeline);
  void states(std::span<const StateRun> runs, const Pipeline& pipeline);
};

// HostTime is the time that each thread of the host ran.
class HostTime : public BinnedTimes<1, 4096> {
 public:
  void event(const Pipeline& pipeline) {
    const HostRuns* runs = pipeline.host_runs();
    if (runs == nullptr || runs->ended() == ended_) return;
    ended_ = runs->ended();
    const HostRuns::Run& run = runs->last_ended();
    add(run.thread, 0, run.begin, run.end, pipeline);
  }
  // Adds the runs that are open at the end.
  void finish(const Pipeline& pipeline);

 private:
  std::uint64_t ended_ = 0;  // HostRuns::ended() at the last event
};

}  // namespace trapline::page
