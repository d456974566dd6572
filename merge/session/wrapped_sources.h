// A source around another one, on the timeline's clock.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "merge/clock/alignment.h"
#include "merge/clock/clock_map.h"
#include "merge/session/guest_alignment.h"
#include "merge/session/session_json.h"
#include "merge/source/source.h"

namespace trapline {

class WrappedSource : public ForwardingSource {
 public:
  [[nodiscard]] const SourceInfo& info() const override { return info_; }
  [[nodiscard]] SourceCounters counters() const override {
    SourceCounters counters = source_->counters();
    counters.first = map_(counters.first);
    counters.last = map_(counters.last);
    return counters;
  }

 protected:
  WrappedSource(std::unique_ptr<Source> source, ClockMap map)
      : ForwardingSource(std::move(source)), info_(source_->info()), map_(std::move(map)) {}

  // The inner source's next event, at its time on the timeline.
  Read next_placed(Event& event) {
    const Read read = source_->next(event);
    if (read != Read::kEvent) return read;
    event.at = map_(event.at);
    if (auto* lost = std::get_if<Lost>(&event.payload)) {
      lost->from = map_(lost->from);
      lost->to = map_(lost->to);
    }
    return read;
  }

  SourceInfo info_;  // the wrapper's constructor says how the clock was related

 private:
  ClockMap map_;  // from the inner source's times to the timeline's
};

// A source whose times a ClockMap turns into the timeline's.

// The source itself where its clock is the timeline's, and that is certain.
[[nodiscard]] std::unique_ptr<Source> with_clock(std::unique_ptr<Source> source,
                                                 const clocks::AlignedSource& aligned,
                                                 const std::string& timeline_clock);

// A uftrace directory that was recorded outside of the guest (the plugin's) as a source:
// on the recording's clock by a relation. The events belong to the threads of the guest's vCPUs.

// `path` is the directory; what the relation's threads do not name gets the task's own number.
[[nodiscard]] Result<std::unique_ptr<Source>> open_guest_calls(const std::string& path,
                                                               const GuestAlignment& relation);

// A recording whose instance another process changed meanwhile: a loss on each of `cpus` CPUs takes
// the place of the events between the times of each change.
[[nodiscard]] std::unique_ptr<Source> with_changes(std::unique_ptr<Source> source,
                                                   std::vector<SessionChange> changes,
                                                   std::uint32_t cpus);

// Calls of these vCPUs become events of their threads, each task with a stack of its own.
[[nodiscard]] std::unique_ptr<Source> with_vcpu_threads(std::unique_ptr<Source> source,
                                                        std::map<std::int32_t, ThreadId> threads);

// What was recorded inside a guest (by uftrace or trace-cmd) as a source on its host's clock.
//
// Its events keep their meaning and say which guest they are of (Event::machine): a switch of the
// guest's scheduler is no switch of the host's. `thread` is the host's thread of the vCPU that ran
// the event's task, 0 where that is not known (a task of which no schedule event tells the CPU);
// `task` is the guest's own. Threads inside a payload are the guest's.

[[nodiscard]] std::unique_ptr<Source> with_guest_alignment(std::unique_ptr<Source> source,
                                                           const GuestAlignment& alignment,
                                                           MachineId machine);
// One whose times are its host's already (trace-cmd's TIME_SHIFT).
[[nodiscard]] std::unique_ptr<Source> with_guest_threads(std::unique_ptr<Source> source,
                                                         std::map<std::int32_t, ThreadId> threads,
                                                         MachineId machine);

}  // namespace trapline
