// The reader behind read_layout(): what versions 6 and 7 share, and what each has of its own.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/bytes.h"
#include "merge/source/file.h"
#include "merge/source/trace_dat/layout.h"

namespace trapline::trace_dat {

// Reads a trace.dat's header forward, from the file or from a decompressed section.
//
// After the first read that exceeds the data, every read returns zero or an empty string and
// changes nothing. So a caller can read a whole structure and then check status() once before using
// it. Loops over counts from the file must check ok() in each round.
class MetaReader {
 public:
  MetaReader(const File& file, std::uint64_t offset, std::uint64_t end)
      : file_(&file), at_(offset), end_(end) {}
  MetaReader(const File& file, std::string bytes)
      : file_(&file), memory_(std::move(bytes)), in_memory_(true), end_(memory_.size()) {}

  void set_order(std::endian order) { order_ = order; }
  [[nodiscard]] bool ok() const { return status_.has_value(); }
  [[nodiscard]] const Result<void>& status() const { return status_; }
  [[nodiscard]] std::uint64_t position() const { return at_; }
  [[nodiscard]] std::uint64_t left() const { return ok() ? end_ - at_ : 0; }

  template <std::unsigned_integral T>
  [[nodiscard]] T number() {
    std::byte bytes[sizeof(T)] = {};
    fill(bytes);
    return load<T>(bytes, order_);
  }
  [[nodiscard]] std::string bytes(std::uint64_t size);
  [[nodiscard]] std::string c_string();  // at most 4,096 bytes
  void expect(std::string_view magic);   // fails if the next bytes are not `magic`
  void skip(std::uint64_t size);
  void fail_here(std::string_view what);

 private:
  bool fits(std::uint64_t size);
  void fill(std::span<std::byte> into);

  const File* file_;
  std::string memory_;
  bool in_memory_ = false;
  std::uint64_t at_ = 0;
  std::uint64_t end_;
  std::endian order_ = std::endian::little;
  Result<void> status_;
};

constexpr std::uint32_t kMostCpus = 8192;
// Limit for offsets in a file that was cut off; no file is that long.
constexpr std::uint64_t kFarthest = std::uint64_t{1} << 56;

// Option ids of trace-cmd.dat.v6(5) up to trace-cmd 3.2; they are also the ids of version 7's
// sections.
enum Option : std::uint16_t {
  kDone = 0,
  kDate = 1,
  kCpuStat = 2,
  kBuffer = 3,
  kTraceClock = 4,
  kUname = 5,
  kHook = 6,
  kOffset = 7,
  kCpuCount = 8,
  kVersion = 9,
  kProcMaps = 10,
  kTraceId = 11,
  kTimeShift = 12,
  kGuest = 13,
  kTsc2Nsec = 14,
  kStrings = 15,
  kHeaderInfo = 16,
  kFtraceEvents = 17,
  kEventFormats = 18,
  kKallsyms = 19,
  kPrintk = 20,
  kCmdlines = 21,
  kBufferText = 22,
  kTraplineLoss = 0x8001,  // trace-cmd skips options that it does not know
};
inline constexpr std::string_view kTraplineLossName{"TRAPLINE_LOSS\0", 14};

struct SectionHeader {
  std::uint16_t id = 0;
  Extent body;
};

// A buffer other than the top-level one in a version 6 file. The buffer has a table of its CPUs'
// data at `offset`.
struct InstanceTable {
  std::uint64_t offset;
  std::string name;
};

class LayoutReader {
 public:
  // Borrows `file`.
  explicit LayoutReader(const File& file) : file_(file), reader_(file, 0, file.size()) {}

  Result<Layout> read();
  // Reads a piece of another file that has the header, formats and thread names but no CPU data. No
  // offset in the piece may point outside the piece.
  LayoutReader(const File& file, std::uint64_t begin, std::uint64_t size)
      : file_(file), reader_(file, begin, begin + size) {}
  Result<TracingData> read_tracing_data();

 private:
  Result<void> read_v6();
  Result<void> read_v7(std::uint64_t first_options);
  void read_header_info(MetaReader& reader);
  Result<void> check_buffers() const;
  void add_pages(Buffer& buffer, std::uint32_t cpu, Extent pages) const;
  void take_cpu_stat(std::string_view text);
  void take_unwritten(std::string_view body);
  void tell_cut();
  void add_format(MetaReader& reader, const std::string& system);
  void read_ftrace_formats(MetaReader& reader);
  void read_event_formats(MetaReader& reader);
  Extent sized_section(MetaReader& reader, std::uint64_t size);
  void read_options_v6(std::vector<InstanceTable>& instances);
  Result<void> read_instance_v6(const InstanceTable& instance);
  Buffer read_table_v6(MetaReader& reader, std::string name);
  Result<std::uint64_t> read_options_v7(std::uint64_t offset, const SectionHeader& header,
                                        std::vector<Extent>& by_option);
  bool holds_section(std::uint64_t offset) const;
  void read_guest(ByteCursor& cursor);
  void handle_option(std::uint16_t id, const std::string& body);
  Result<void> handle_buffer_v7(const std::string& body);
  Result<SectionHeader> section_at(std::uint64_t offset);
  Result<MetaReader> open_section(const Extent& body);
  Result<void> read_sections_v7(const std::vector<Extent>& by_option);
  Result<void> find_cut_buffer_v7(std::uint64_t at);
  void miss_buffers_v7();

  MetaReader at(std::uint64_t offset) const {
    MetaReader reader(file_, std::min(offset, file_.size()), file_.size());
    reader.set_order(layout_.order);
    return reader;
  }

  const File& file_;
  // Limit for the header sections that are still to be read: their decompressed size in bytes.
  std::uint64_t left_ = 64u << 20;
  MetaReader reader_;
  Layout layout_;
  bool has_trace_clock_ = false;
  Result<void> options_status_;
  // For each buffer, in the order of the file: the CPUs with events according to CPUSTAT options.
  struct Recorded {
    std::string name;
    std::vector<std::uint32_t> cpus;
  };
  std::vector<Recorded> recorded_{1};
  std::vector<std::string> missing_;  // set if the file was cut off
};

}  // namespace trapline::trace_dat
