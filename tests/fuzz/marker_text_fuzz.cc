// Texts of markers, line by line: the plugin's guest calls, sync records of host and guest, QEMU's
// events; then as one recording's markers through the pipeline.
#include "backend_ftrace/base/text.h"
#include "merge/clock/guest_syncs.h"
#include "merge/source/marker_calls.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/declared_events.h"
#include "tests/fuzz/input_files.h"

namespace {

using namespace trapline;

void check_sync(std::string_view text) {
  const auto record = parse_sync(text);
  if (!record) return;
  char written[kMaxSyncText];
  const std::size_t size = format_sync(*record, written);
  fuzz::hold(size <= sizeof written, "a sync record does not fit its text");
  const auto again = parse_sync({written, size});
  fuzz::hold(again && again->series == record->series && again->index == record->index,
             "a sync record is not read as it was written");
}

void check_guest_sync(std::string_view text) {
  const auto record = parse_guest_sync(text);
  if (!record) return;
  const auto again = parse_guest_sync(format_guest_sync(*record));
  fuzz::hold(again && again->series == record->series && again->before == record->before &&
                 again->after == record->after && again->write == record->write &&
                 again->ptp == record->ptp,
             "a guest sync record is not read as it was written");
}

void read_markers(std::string_view text) {
  fuzz::CheckedSpans spans;
  PipelineOptions options;
  options.declared = fuzz::declared_events();
  Pipeline pipeline(std::move(options), {&spans});
  MarkerCalls calls;
  SourceCounters counters;
  GuestSyncMarkers guest;
  clocks::SyncGatherer host;
  std::uint64_t time = 1000;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    check_sync(line);
    check_guest_sync(line);
    (void)parse_marker_call(line);
    (void)parse_marker_loss(line);
    (void)parse_marker_run(line);
    if (const auto record = parse_sync(line)) host.add(*record, time);
    guest.add(time, line);
    Event event;
    event.at = Timestamp(time += 10);
    event.cpu = line.size() % 2;
    event.thread = ThreadId{100 + static_cast<std::int32_t>(event.cpu)};
    event.payload = Marker{line};
    calls.on(event, counters);
    fuzz::hold(pipeline.push(event), "the pipeline ended before its events");
  }
  pipeline.finish();
  spans.finish(pipeline);
  const auto brackets = host.take();
  GuestBounds bounds(ClockId::kMono);
  (void)add_readings(bounds, guest.lines(), {"mono", false}, brackets);
  (void)noted_in(guest.lines());
  (void)guest.clocks();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::bounded(size, [&] { read_markers(fuzz::text_of(data, size)); });
  return 0;
}
