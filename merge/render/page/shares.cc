#include "merge/render/page/shares.h"

namespace trapline::page {

void Shares::guest_run(const GuestRun& run, const Pipeline& pipeline) {
  add(run.thread, static_cast<std::size_t>(State::kGuest), run.begin, run.end, pipeline);
}

void Shares::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  for (const PartInterval& interval : exit.intervals)
    add(exit.thread, static_cast<std::size_t>(interval.part), interval.begin, interval.end,
        pipeline);
}

void Shares::states(std::span<const StateRun> runs, const Pipeline& pipeline) {
  for (const StateRun& run : runs)
    if (pipeline.counts(run.thread))
      add(run.thread, static_cast<std::size_t>(run.state), run.begin, run.end, pipeline);
}

void HostTime::finish(const Pipeline& pipeline) {
  if (const HostRuns* runs = pipeline.host_runs())
    for (const HostRuns::Run& run : runs->open(pipeline.end()))
      add(run.thread, 0, run.begin, run.end, pipeline);
}

}  // namespace trapline::page
