// What a perf.data says of itself: the attrs of its events, their formats, the host and the clock.
//
//   a file        "PERFILE2" u64 104, u64 size of an attr, sections {u64 offset, u64 size} of
//                 attrs, data and event types, 256 bits of features | attrs | data: records |
//                 a section for each feature, in order of their bits | the features
//   from a pipe   "PERFILE2" u64 16 | records, which hold attrs and features as well
//   a folder      data, a file; data.0, data.1, …: records alone (perf record --threads)
//
// Nothing here trusts the file: each section is held against the file's size before it is used.
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
  // Of the records: one range, or with --threads one for each file. Those of several ranges have no
  // rounds.
  struct Range {
    std::uint64_t begin = 0, end = 0;
  };
  std::vector<Range> ranges{1};

  std::vector<Attr> attrs;
  std::vector<RecordShape> shapes;  // of each attr
  AttrsById by_id;                  // needed where attrs differ
  bool has_tracepoints = false;     // else samples of code alone
  trace_dat::TracingData tracing;

  std::string clock = "perf";  // without -k: that of ftrace's clock perf
  // With -k, of CLOCK_DATA: nanoseconds from that clock to the wall clock, or more: perf reads the
  // wall clock, then the other, and nothing tells how much later.
  std::optional<std::int64_t> to_wall_clock;
  std::string host, release, arch, writer;
  std::uint32_t cpu_count = 0;
  // Of the first and last sample; a pipe does not tell.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> sample_times;
  Result<void> damage;  // what of it is missing, where its events can be read nevertheless
};

// A file, or the files of a folder one after the other; `sizes` are those of a folder's. Errors: as
// those of File::open().
struct Files {
  File file;
  std::vector<std::uint64_t> sizes;
};
[[nodiscard]] Result<Files> open_files(const std::string& path);

// Errors: not a perf.data, of a machine with the other byte order, cut off before the formats of
// its events (kDamaged), recorded so that not every event of a tracepoint is in it.
[[nodiscard]] Result<Layout> read_layout(const Files& files);
// Of one file.
[[nodiscard]] Result<Layout> read_layout(const File& file);

}  // namespace trapline::perf_data
