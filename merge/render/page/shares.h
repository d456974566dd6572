// How much time each vCPU spent in each state, by time bin. Intervals are cut at the edges of bins,
// so the bins sum exactly to the vCPU's totals.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/model/thread_table.h"
#include "merge/render/page/exits.h"

namespace trapline::page {

class Shares {
 public:
  static constexpr std::size_t kMostBins = 256, kMostVcpus = 1024;
  using Bin = std::array<std::uint64_t, kStates>;  // by State

  void event(const Event& event, const Pipeline& pipeline);
  void exit(const ExitSpan& exit, const Pipeline& pipeline);
  void states(std::span<const StateRun> runs, const Pipeline& pipeline);

  [[nodiscard]] const TimeBins& bins() const { return bins_; }
  // Returns the bins of a vCPU's thread; nullptr for other threads.
  [[nodiscard]] const std::vector<Bin>* of(ThreadId thread) const;
  void coarsen();
  void begin_at(std::uint64_t ns) { bins_.begin_at(ns); }

 private:
  void add(ThreadId thread, State state, Timestamp begin, Timestamp end, const Pipeline& pipeline);

  TimeBins bins_;
  mutable ThreadTable<std::vector<Bin>> threads_;
};

}  // namespace trapline::page
