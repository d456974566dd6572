// What the exits that have not ended yet spent their time on: ExitTracker sums it up as well, and
// hands it out with their end; a frame that ends before wants it now.
#pragma once

#include "merge/analyze/pipeline.h"
#include "merge/model/thread_table.h"

namespace trapline::live {

// Guarantees: at the end of an exit its parts are those of its ExitSpan.
class OpenParts {
 public:
  // Every event, after the pipeline took it.
  void on(const Event& event, const Pipeline& pipeline);
  // What the vCPU's time went to, the exit or the guest's run that is open at `now` included.
  [[nodiscard]] VcpuTotals at(Timestamp now, const VcpuTotalsOf& ended,
                              const Pipeline& pipeline) const;

 private:
  struct Thread {
    Timestamp begin, mark;  // of the open exit; up to where it is summed up
    Part part = Part::kKernel;
    Parts parts{};
    bool open = false, off_cpu = false, asleep = false;
  };
  void look_at(ThreadId thread, Timestamp at, const Pipeline& pipeline);
  void on_switch(const SchedSwitch& sched, Timestamp at, const Pipeline& pipeline);

  ThreadTable<Thread> threads_;
};

}  // namespace trapline::live
