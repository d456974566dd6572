#include "merge/render/page/shares.h"

namespace trapline::page {

void Shares::add(ThreadId thread, State state, Timestamp begin, Timestamp end,
                 const Pipeline& pipeline) {
  if (!bins_.started) bins_.start(pipeline.begin().value_or(begin));
  if (end <= begin) return;
  while (bins_.bin(end.ns() - 1) >= kMostBins) coarsen();
  std::vector<Bin>* shares = threads_.get(thread, kMostVcpus);
  if (shares == nullptr) return;
  bins_.each(begin, end, [&](std::size_t bin, std::uint64_t ns) {
    if (shares->size() <= bin) shares->resize(bin + 1);
    (*shares)[bin][static_cast<std::size_t>(state)] += ns;
  });
}

void Shares::event(const Event&, const Pipeline& pipeline) {
  const GuestRun* run = pipeline.exits().guest_run();
  if (run == nullptr || !pipeline.counts(run->thread)) return;
  add(run->thread, State::kGuest, run->begin, run->end, pipeline);
}

void Shares::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  for (const PartInterval& interval : exit.intervals)
    add(exit.thread, static_cast<State>(interval.part), interval.begin, interval.end, pipeline);
}

void Shares::states(std::span<const StateRun> runs, const Pipeline& pipeline) {
  for (const StateRun& run : runs)
    if (pipeline.counts(run.thread)) add(run.thread, run.state, run.begin, run.end, pipeline);
}

const std::vector<Shares::Bin>* Shares::of(ThreadId thread) const { return threads_.find(thread); }

void Shares::coarsen() {
  for (auto& [thread, shares] : threads_.entries()) {
    shares = bins_.doubled(shares, [](Bin& to, const Bin& from) {
      for (std::size_t state = 0; state < kStates; ++state) to[state] += from[state];
    });
  }
  ++bins_.shift;
}

}  // namespace trapline::page
