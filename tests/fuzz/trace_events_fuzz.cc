// A trace-events file, and markers that may be its events: what is read of one and printed again is
// one, too. Markers follow a line "%%".
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/tracetool/event_format.h"
#include "backend_ftrace/tracetool/event_text.h"
#include "backend_ftrace/tracetool/trace_events.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"

namespace {

using namespace trapline;

void read_markers(const tracetool::Declarations& declared, std::string_view markers) {
  tracetool::MarkerParser parser(&declared);
  while (!markers.empty()) {
    const std::string_view line = take_line(markers);
    tracetool::ParsedMarker marker;
    if (!parser.parse(line, marker)) continue;
    fuzz::hold(marker.event != nullptr, "a marker has no event");
    if (!marker.matched) continue;
    std::string text;
    tracetool::append_text(*marker.event, std::span(marker.values).first(marker.count), text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t end = std::min(input.find("\n%%\n"), input.size());
  fuzz::bounded(size, [&] {
    const auto file = tracetool::parse_trace_events(input.substr(0, end), "fuzz");
    for (const auto& error : file.errors) (void)error.text();
    (void)tracetool::find_duplicates(std::span(&file, 1));
    read_markers(tracetool::Declarations(std::string(input.substr(0, end))),
                 input.substr(std::min(end + 4, input.size())));
  });
  return 0;
}
