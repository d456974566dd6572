// Where things are in a trace.dat, versions 6 and 7, and what its header says. Nothing here trusts
// the file: every offset, size and count is held against the file's size before it is used, so that
// what comes out can be given to the page reader and to libtraceevent.
//
//   version 6: magic "6\0" endian long_size page_size | header_page header_event | ftrace formats |
//              event formats | kallsyms | printk | cmdlines | cpus | options | flyrecord table
//   version 7: the same sections, each {u16 id, u16 flags, u32 name, u64 size}, found through
//              option sections that are chained by option 0; each buffer is one option
//
// Source: trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5); docs/formats/trace-dat.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "merge/source/file.h"
#include "merge/source/kernel_events/formats.h"
#include "merge/source/source.h"
#include "merge/source/trace_dat/compression.h"
#include "merge/source/trace_dat/time_shift.h"

namespace trapline::trace_dat {

// A piece of the file. A compressed one is a single block {u32 compressed size, u32 size, bytes},
// or, for a CPU's pages, u32 count and that many blocks.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  Compression compression = Compression::kNone;
  bool cut = false;  // the file ends in it, or before: this is what is there
};

struct CpuPages {
  std::uint32_t cpu = 0;
  Extent pages;
};

// One ring buffer: the top one has an empty name.
struct Buffer {
  std::string name;
  std::uint32_t page_size = 0;
  std::vector<CpuPages> cpus;
};

// ns = cycles · mult >> shift (option TSC2NSEC; trace-cmd does not apply its offset).
struct Tsc2Nsec {
  std::uint32_t mult = 0;
  std::uint32_t shift = 0;
};

// A CPUSTAT option: the events that the kernel counted. The mark of a page is of those that were
// overwritten; of those for which there was no room, dropped, no page tells. What was left in the
// buffer when tracing had stopped was to be written, and more may have been read by then.
struct CpuStat {
  std::string buffer;
  std::uint32_t cpu = 0;
  std::uint64_t overwritten = 0, dropped = 0, left = 0, read = 0;
};

// An option of ours, TRAPLINE_LOSS: events that were not written, which no page tells.
struct UnwrittenLoss {
  std::uint32_t cpu = 0;
  std::uint64_t from = 0;    // kAtEnd: after the CPU's last event; 0: nothing tells where
  std::uint64_t events = 0;  // 0: not counted
  std::string why;
  static constexpr std::uint64_t kAtEnd = ~std::uint64_t{0};
};

struct Layout : kernel_events::FormatTexts {
  int version = 0;
  std::uint32_t page_size = 4096;
  Compression compression = Compression::kNone;

  Extent kallsyms, cmdlines;

  std::string clock = "local";  // the one in brackets of TRACECLOCK, else a buffer's
  std::string uname;
  std::string writer;          // trace-cmd's version
  std::int64_t offset_ns = 0;  // options DATE and OFFSET: added to every time
  std::optional<Tsc2Nsec> tsc2nsec;
  std::optional<TimeShift> time_shift;  // of a guest's recording
  std::uint64_t trace_id = 0;
  std::uint64_t peer_id = 0;          // TIME_SHIFT: the host's trace id
  std::vector<RecordedGuest> guests;  // GUEST: recorded with this one
  std::uint32_t cpu_count = 0;
  std::vector<Buffer> buffers;
  std::vector<CpuStat> cpu_stats;
  std::vector<UnwrittenLoss> unwritten;
  // Options of a newer trace-cmd, which are passed over: how often each id stands there.
  std::map<std::uint16_t, std::uint32_t> unknown_options;
  bool has_text = false;  // a latency tracer's, in version 7
  // What is missing where the file ends before its data, or before the table of them.
  std::optional<std::string> cut;
};

// Errors: not a trace file, a version that is not 6 or 7, a compression that is not read, a header
// or table that ends early or points outside the file (kDamaged, with the offset). Of a file that
// was cut in its data the layout is that of what is there: Layout::cut.
[[nodiscard]] Result<Layout> read_layout(const File& file);

// perf's TRACING_DATA: the beginning of a version 6 file, as far as the threads' names.
struct TracingData {
  kernel_events::FormatTexts texts;
  std::string comms;  // Formats::read_comms()
};
// `size` bytes at `begin`, which lie in the file; an error says where it is damaged.
[[nodiscard]] Result<TracingData> read_tracing_data(const File& file, std::uint64_t begin,
                                                    std::uint64_t size);

// The bytes of a metadata section, decompressed; at most 32 MiB.
[[nodiscard]] Result<std::string> read_section(const File& file, const Layout& layout,
                                               const Extent& section);

// The file's formats with the names of its threads. Errors: those of read_section.
[[nodiscard]] Result<kernel_events::Formats> read_formats(const File& file, const Layout& layout);

}  // namespace trapline::trace_dat
