// QEMU's handlers inside an exit as times, and an exit's parts and handlers as they nest, for
// formats whose spans have a begin and an end.
//
//   exit's user time      u0 ─────────────────────────────── u1
//   QEMU's events              read r     write w    other o
//   handlers              [u0 ── r]      [w ──────── o]  [o]
//
// A region's read is traced after the device has answered, a write before the device gets it. So a
// read's handler lasts from the event before it, and a write's to the event after it, within the
// user time. An event of another kind is a point.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "merge/model/exit_span.h"

namespace trapline {

// One of QEMU's handlers inside an exit. Borrows the exit's event.
struct HandlerRun {
  const HandlerEvent* event = nullptr;
  Timestamp begin, end;
  bool served = false;  // the first of the handlers that served the exit
};

// Returns the exit's handlers in the order of their events.
[[nodiscard]] inline std::vector<HandlerRun> handlers_of(const ExitSpan& exit) {
  std::vector<HandlerRun> runs;
  runs.reserve(exit.handlers.size());
  for (std::size_t i = 0; i < exit.handlers.size(); ++i) {
    const HandlerEvent& event = exit.handlers[i];
    HandlerRun& run = runs.emplace_back(HandlerRun{&event, event.at, event.at});
    // Finds the user time that contains the event; QEMU's events outside any are points.
    const auto in = std::ranges::find_if(exit.intervals, [&](const PartInterval& part) {
      return part.part == Part::kUser && part.begin <= event.at && event.at <= part.end;
    });
    if (in == exit.intervals.end() || event.region == kNoName) continue;
    if (event.ends) {
      run.begin = i == 0 ? in->begin : std::max(in->begin, exit.handlers[i - 1].at);
    } else {
      run.end =
          i + 1 == exit.handlers.size() ? in->end : std::min(in->end, exit.handlers[i + 1].at);
    }
  }
  const auto served = std::ranges::find_if(runs, [&](const HandlerRun& run) {
    return exit.device != kNoName ? run.event->region == exit.device
                                  : run.event->event == exit.vmm_event;
  });
  if (served != runs.end()) served->served = true;
  return runs;
}

// Calls begin_part() and end_part() for each part of the exit and on_handler() for each of its
// handlers, in order of time. A handler that begins before the part in which it ends is passed as
// if it began with that part. A handler that ends in no part is left out.
void walk(const ExitSpan& exit, std::span<const HandlerRun> handlers, auto&& begin_part,
          auto&& on_handler, auto&& end_part) {
  auto next = handlers.begin();
  for (const PartInterval& part : exit.intervals) {
    begin_part(part);
    for (; next != handlers.end() && next->end <= part.end; ++next) {
      HandlerRun inside = *next;
      inside.begin = std::max(inside.begin, part.begin);
      on_handler(inside);
    }
    end_part(part);
  }
}

}  // namespace trapline
