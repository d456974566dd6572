// The layout of a trace.dat, versions 6 and 7, and the facts in its header. The file is not
// trusted: every offset, size and count is checked against the file's size before it is used, so
// that the result is safe for the page reader and for libtraceevent.
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

// A piece of the file. A compressed piece is a single block {u32 compressed size, u32 size, bytes},
// or, for a CPU's pages, u32 count and that many blocks.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  Compression compression = Compression::kNone;
  // True if the file ends within this piece or before it; `size` is then what the file has of it.
  bool cut = false;
};

struct CpuPages {
  std::uint32_t cpu = 0;
  Extent pages;
};

// One ring buffer; the top-level buffer has an empty name.
struct Buffer {
  std::string name;
  std::uint32_t page_size = 0;
  std::vector<CpuPages> cpus;
};

// ns = cycles · mult >> shift (option TSC2NSEC; like trace-cmd, we do not apply its offset).
struct Tsc2Nsec {
  std::uint32_t mult = 0;
  std::uint32_t shift = 0;
};

// A CPUSTAT option: the events that the kernel counted. The loss counts in pages include only
// overwritten events, not those that were dropped for lack of room. `left` events were in the
// buffer when tracing stopped and were written afterwards; `read` may already count some of them.
struct CpuStat {
  std::string buffer;
  std::uint32_t cpu = 0;
  std::uint64_t overwritten = 0, dropped = 0, left = 0, read = 0;
};

// Our own option TRAPLINE_LOSS: events that were not written and that no page counts.
struct UnwrittenLoss {
  std::uint32_t cpu = 0;
  std::uint64_t from = 0;    // kAtEnd: after the CPU's last event; 0: not known
  std::uint64_t events = 0;  // 0: not counted
  std::string why;
  static constexpr std::uint64_t kAtEnd = ~std::uint64_t{0};
};

struct Layout : kernel_events::FormatTexts {
  int version = 0;
  std::uint32_t page_size = 4096;
  Compression compression = Compression::kNone;

  Extent kallsyms, printk_strings, cmdlines;

  std::string clock = "local";  // the clock in brackets in TRACECLOCK, else a buffer's
  std::string uname;
  std::string writer;          // version of trace-cmd
  std::int64_t offset_ns = 0;  // from the options DATE and OFFSET; added to every time
  std::optional<Tsc2Nsec> tsc2nsec;
  std::optional<TimeShift> time_shift;  // set in a guest's recording
  std::uint64_t trace_id = 0;
  std::uint64_t peer_id = 0;          // from TIME_SHIFT: the host's trace id
  std::vector<RecordedGuest> guests;  // from GUEST: guests recorded together with this host
  std::uint32_t cpu_count = 0;
  std::vector<Buffer> buffers;
  std::vector<CpuStat> cpu_stats;
  std::vector<UnwrittenLoss> unwritten;
  // Options of a newer trace-cmd, which are skipped: how often each id occurs.
  std::map<std::uint16_t, std::uint32_t> unknown_options;
  bool has_text = false;  // has a latency tracer's text; version 7
  // Says what is missing if the file ends before its data or before the table of its data.
  std::optional<std::string> cut;
};

// Reads the layout. Errors: not a trace file; a version other than 6 or 7; a compression that is
// not supported; a header or table that ends early or points outside the file (kDamaged, with the
// offset). For a file that was cut off in its data, the layout covers what exists: see Layout::cut.
[[nodiscard]] Result<Layout> read_layout(const File& file);

// The content of perf's TRACING_DATA: the beginning of a version 6 file, up to the threads' names.
struct TracingData {
  kernel_events::FormatTexts texts;
  std::string comms;  // for Formats::read_comms()
};
// Reads `size` bytes at `begin`, which must be in the file. The Error says where they are damaged.
[[nodiscard]] Result<TracingData> read_tracing_data(const File& file, std::uint64_t begin,
                                                    std::uint64_t size);

// Returns a metadata section, decompressed; at most 32 MiB.
[[nodiscard]] Result<std::string> read_section(const File& file, const Layout& layout,
                                               const Extent& section);

// Returns the text of a metadata section. In version 7 the section begins with the text's length, a
// number of `head` bytes.
[[nodiscard]] Result<std::string> read_text_section(const File& file, const Layout& layout,
                                                    const Extent& section, std::size_t head);

// Returns the file's formats with the names of its threads. Errors: those of read_section, and of
// Formats::parse.
[[nodiscard]] Result<kernel_events::Formats> read_formats(const File& file, const Layout& layout);

}  // namespace trapline::trace_dat
