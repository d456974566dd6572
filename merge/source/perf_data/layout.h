// The layout of a perf.data: the attrs of its events, their formats, the host and the clock.
//
//   a file        "PERFILE2" u64 104, u64 size of an attr, sections {u64 offset, u64 size} of
//                 attrs, data and event types, 256 bits of features | attrs | data: records |
//                 a section for each feature, in order of their bits | the features
//   from a pipe   "PERFILE2" u64 16 | records, which hold attrs and features as well
//   a folder      data, a file; data.0, data.1, …: records alone (perf record --threads)
//
// The file is not trusted: each section is checked against the file's size before it is used.
// Source: tools/perf/Documentation/perf.data-file-format.txt; docs/formats/perf-data.md.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/model/processes.h"
#include "merge/source/file.h"
#include "merge/source/perf_data/sample.h"
#include "merge/source/trace_dat/layout.h"

namespace trapline::perf_data {

inline constexpr std::string_view kMagic = "PERFILE2";

struct Layout {
  bool from_pipe = false;
  bool compressed = false;
  // A part of the file with records: there is one or, with --threads, one for each file. With more
  // than one, FINISHED_ROUND records are ignored.
  struct Range {
    std::uint64_t begin = 0, end = 0;
  };
  std::vector<Range> ranges{1};

  std::vector<Attr> attrs;
  std::vector<RecordShape> shapes;  // by attr
  AttrsById by_id;                  // needed if the attrs differ
  trace_dat::TracingData tracing;

  std::string clock = "perf";  // without -k: the clock that ftrace calls perf
  // With -k CLOCK: the wall clock minus CLOCK in nanoseconds, from CLOCK_DATA. The true difference
  // may be larger, because perf reads the wall clock first and CLOCK an unknown time later.
  std::optional<std::int64_t> to_wall_clock;
  std::string host, release, arch, writer;
  std::uint32_t cpu_count = 0;
  // Times of the first and last sample; not known for a pipe.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> sample_times;
  Result<void> damage;  // says what is missing, if the events can be read nevertheless
};

// One file; or the files of a folder, one after the other, with their `sizes` in bytes.
struct Files {
  File file;
  std::vector<std::uint64_t> sizes;
};
// Opens the files of a folder.
[[nodiscard]] Result<Files> open_folder(const std::string& path);

// Reads the layout. Errors: not a perf.data; from a big-endian machine; cut off before the formats
// of its events (kDamaged); or recorded so that it does not contain every event of a tracepoint.
[[nodiscard]] Result<Layout> read_layout(const Files& files);
// Reads the layout of one file.
[[nodiscard]] Result<Layout> read_layout(const File& file);

}  // namespace trapline::perf_data
