#include "merge/pass/placement.h"

#include <fmt/format.h>

#include "backend_ftrace/base/text.h"

namespace trapline {

Result<void> check_placement(const Timeline& timeline, const Pipeline& pipeline) {
  const PlacementCheck& check = pipeline.placement();
  if (!check.contradicts()) return {};
  const Misplaced& first = *check.first();
  const SourceInfo& info = timeline.source(first.source).info();
  const SourceAlignment& aligned = info.aligned;
  const auto time = [](Timestamp at) { return seconds_text(at.ns()); };
  return fail(
      "{}: the recordings contradict its clock's alignment ({}, ± {} ns): {} of its {} events on "
      "threads of vCPUs would lie in a run of the guest, where the thread is not in user space; "
      "the first is of thread {} at {}, whose vCPU ran the guest from {} to {}; it may be of "
      "another run; leave it out, or give --offset {}=NS, the nanoseconds to add to its times",
      info.path, aligned.method_text(),
      aligned.error_ns.value_or(aligned.one_boot_error_ns.value_or(0)), check.impossible(),
      check.placed(), static_cast<std::int32_t>(first.thread), time(first.at), time(first.entry),
      time(first.exit), info.path);
}

}  // namespace trapline
