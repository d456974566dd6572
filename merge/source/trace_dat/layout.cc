#include "merge/source/trace_dat/layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/saturated_sum.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/trace_dat_magic.h"
#include "backend_ftrace/clock.h"
#include "merge/source/trace_dat/page_reader.h"
#include "merge/source/trace_dat/tail.h"

namespace trapline::trace_dat {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kLargestSection = 32u << 20;
constexpr std::size_t kMostFormats = 65536;  // common_type has 16 bits
constexpr std::size_t kLongestName = 255;
constexpr std::size_t kMostOptionSections = 1024;
constexpr std::uint64_t kLongestString = 4096;
// Limit for offsets in a file that was cut off; no file is that long.
constexpr std::uint64_t kFarthest = std::uint64_t{1} << 56;

std::int64_t signed_number(std::string_view text) {
  text = trimmed(text.substr(0, text.find('\0')));
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const auto value = static_cast<std::int64_t>(parse_number(text).value_or(0));
  return negative ? -value : value;
}

std::span<std::byte> writable(std::string& text) {
  return std::as_writable_bytes(std::span(text.data(), text.size()));
}

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
  [[nodiscard]] std::string bytes(std::uint64_t size) {
    if (!fits(size)) return {};
    std::string text(size, '\0');
    fill(writable(text));
    return text;
  }
  // Reads at most 4,096 bytes.
  [[nodiscard]] std::string c_string() {
    if (!fits(1)) return {};
    const std::uint64_t before = at_;
    std::string text = bytes(std::min(kLongestString, end_ - at_));
    const auto end = text.find('\0');
    if (ok() && end == std::string::npos) fail_here("a string has no end");
    if (!ok()) return {};
    text.resize(end);
    at_ = before + end + 1;
    return text;
  }
  // Fails if the next bytes are not `magic`.
  void expect(std::string_view magic) {
    if (bytes(magic.size()) != magic && ok()) {
      at_ -= magic.size();
      fail_here("a section does not begin as it should");
    }
  }
  void skip(std::uint64_t size) {
    if (fits(size)) at_ += size;
  }
  void fail_here(std::string_view what) {
    if (!ok()) return;
    status_ = fail(ErrorKind::kDamaged,
                   "{}: damaged or cut off: {} at offset {}{}; record again, or restore it with "
                   "trace-cmd restore",
                   file_->path(), what, at_, in_memory_ ? " of a compressed section" : "");
  }

 private:
  bool fits(std::uint64_t size) {
    if (!ok()) return false;
    if (size <= end_ - at_) return true;
    fail_here("the header ends early");
    return false;
  }
  void fill(std::span<std::byte> into) {
    if (!fits(into.size())) return;
    if (in_memory_) {
      std::memcpy(into.data(), memory_.data() + at_, into.size());
    } else {
      status_ = file_->read(at_, into);
    }
    at_ += into.size();
  }

  const File* file_;
  std::string memory_;
  bool in_memory_ = false;
  std::uint64_t at_ = 0;
  std::uint64_t end_;
  std::endian order_ = std::endian::little;
  Result<void> status_;
};

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

// The reader behind read_layout(): what versions 6 and 7 share, and what each has of its own.
class LayoutReader {
 public:
  // Borrows `file`.
  explicit LayoutReader(const File& file) : file_(file), reader_(file, 0, file.size()) {}

  Result<Layout> read() {
    if (reader_.bytes(std::min<std::uint64_t>(kTraceDatMagic.size(), file_.size())) !=
        kTraceDatMagic) {
      return fail(ErrorKind::kDamaged,
                  "{}: not a trace.dat file (its first bytes are not trace-cmd's); record one with "
                  "trace-cmd record or trapline record",
                  file_.path());
    }
    const std::string version = reader_.c_string();
    layout_.version = version == "6" ? 6 : version == "7" ? 7 : 0;
    if (reader_.ok() && layout_.version == 0) {
      return fail(
          "{}: trace.dat version {} is not supported; convert it with trace-cmd convert "
          "--file-version 7",
          file_.path(), printable(version));
    }
    layout_.order = reader_.number<std::uint8_t>() == 0 ? std::endian::little : std::endian::big;
    reader_.set_order(layout_.order);
    layout_.long_size = reader_.number<std::uint8_t>();
    layout_.page_size = reader_.number<std::uint32_t>();
    if (!reader_.ok()) return tl::unexpected(reader_.status().error());
    if (layout_.long_size != 4 && layout_.long_size != 8) {
      return fail(ErrorKind::kDamaged, "{}: damaged: a long of {} bytes in the header",
                  file_.path(), layout_.long_size);
    }
    Result<void> rest;
    if (layout_.version == 6) {
      rest = read_v6();
    } else {
      const std::string compression = reader_.c_string();
      if (!reader_.ok()) return tl::unexpected(reader_.status().error());
      const auto algorithm = compression_named(compression);
      if (!algorithm) {
        return fail(
            "{}: compressed with '{}', which is not read; record it with --compression zstd",
            file_.path(), printable(compression.substr(0, kLongestName)));
      }
      layout_.compression = *algorithm;
      (void)reader_.c_string();  // version of the library
      const auto options = reader_.number<std::uint64_t>();
      rest = reader_.status();
      if (rest) rest = read_v7(options);
    }
    if (rest) rest = options_status_;
    if (rest) rest = check_buffers();
    if (!rest) return tl::unexpected(std::move(rest).error());
    tell_cut();
    return std::move(layout_);
  }
  // Reads a piece of another file that has the header, formats and thread names but no CPU data. No
  // offset in the piece may point outside the piece.
  LayoutReader(const File& file, std::uint64_t begin, std::uint64_t size)
      : file_(file), reader_(file, begin, begin + size) {}
  Result<TracingData> read_tracing_data() {
    reader_.expect(kTraceDatMagic);
    const std::string version = reader_.c_string();
    layout_.order = reader_.number<std::uint8_t>() == 0 ? std::endian::little : std::endian::big;
    reader_.set_order(layout_.order);
    layout_.long_size = reader_.number<std::uint8_t>();
    layout_.page_size = reader_.number<std::uint32_t>();
    read_header_info(reader_);
    read_ftrace_formats(reader_);
    read_event_formats(reader_);
    if (!reader_.ok()) return tl::unexpected(reader_.status().error());
    TracingData data{std::move(layout_), {}};
    // The sections from here on are optional.
    reader_.skip(reader_.number<std::uint32_t>());  // kallsyms
    data.texts.printk = reader_.bytes(reader_.number<std::uint32_t>());
    if (version == "0.6") data.comms = reader_.bytes(reader_.number<std::uint64_t>());
    return data;
  }

 private:
  // Adds the pages that the file contains; of uncompressed pages only whole ones.
  void add_pages(Buffer& buffer, std::uint32_t cpu, Extent pages) const {
    pages.cut = !file_.holds(pages.offset, pages.size);
    if (pages.cut) {
      pages.size = file_.size() - std::min(pages.offset, file_.size());
      if (pages.compression == Compression::kNone && buffer.page_size != 0)
        pages.size -= pages.size % buffer.page_size;
    }
    buffer.cpus.push_back({cpu, pages});
  }

  void tell_cut() {
    constexpr std::size_t kMostNames = 4;
    for (const Buffer& buffer : layout_.buffers) {
      for (const CpuPages& cpu : buffer.cpus) {
        if (!cpu.pages.cut) continue;
        missing_.push_back(fmt::format(
            "{} of CPU {}'s data{}", cpu.pages.size == 0 ? "all" : "the end", cpu.cpu,
            buffer.name.empty() ? "" : fmt::format(" in buffer '{}'", printable(buffer.name))));
      }
    }
    if (missing_.empty()) return;
    const std::size_t more = missing_.size() - std::min(missing_.size(), kMostNames);
    missing_.resize(missing_.size() - more);
    layout_.cut =
        fmt::format("it ends at offset {}; missing: {}", file_.size(), fmt::join(missing_, ", "));
    if (more != 0) *layout_.cut += fmt::format(", and {} more", more);
  }

  // Checks that pages have a size that a kernel could use and that no byte belongs to two CPUs;
  // otherwise a small file could expand to an endless recording.
  Result<void> check_buffers() const {
    constexpr std::uint32_t kSmallest = 1024, kLargest = 1u << 20;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> pieces;
    for (const Buffer& buffer : layout_.buffers) {
      const std::uint32_t page = buffer.page_size;
      const bool possible = std::has_single_bit(page) && page >= kSmallest && page <= kLargest;
      if (!buffer.cpus.empty() && !possible)
        return fail(ErrorKind::kDamaged, "{}: damaged: pages of {} bytes", file_.path(), page);
      for (const CpuPages& cpu : buffer.cpus)
        if (cpu.pages.size != 0) pieces.emplace_back(cpu.pages.offset, cpu.pages.size);
    }
    std::sort(pieces.begin(), pieces.end());
    for (std::size_t i = 1; i < pieces.size(); ++i) {
      if (pieces[i].first - pieces[i - 1].first < pieces[i - 1].second) {
        return fail(ErrorKind::kDamaged, "{}: damaged: the data of two CPUs overlap at offset {}",
                    file_.path(), pieces[i].first);
      }
    }
    return {};
  }

  void read_header_info(MetaReader& reader) {
    reader.expect("header_page\0"sv);
    reader.skip(reader.number<std::uint64_t>());
    reader.expect("header_event\0"sv);
    reader.skip(reader.number<std::uint64_t>());
  }

  void add_format(MetaReader& reader, const std::string& system) {
    if (layout_.formats.size() == kMostFormats) reader.fail_here("too many event formats");
    layout_.formats.push_back({system, reader.bytes(reader.number<std::uint64_t>())});
  }

  void read_ftrace_formats(MetaReader& reader) {
    const auto count = reader.number<std::uint32_t>();
    for (std::uint32_t i = 0; i < count && reader.ok(); ++i) add_format(reader, "ftrace");
  }

  void read_event_formats(MetaReader& reader) {
    const auto systems = reader.number<std::uint32_t>();
    for (std::uint32_t i = 0; i < systems && reader.ok(); ++i) {
      const std::string system = reader.c_string();
      if (system.size() > kLongestName) reader.fail_here("an impossible name of an event system");
      const auto count = reader.number<std::uint32_t>();
      for (std::uint32_t k = 0; k < count && reader.ok(); ++k) add_format(reader, system);
    }
  }

  Extent sized_section(MetaReader& reader, std::uint64_t size) {
    const Extent section{reader.position(), size};
    reader.skip(size);
    return section;
  }

  // Reads name, trace id, and for each of the guest's CPUs its number and the thread that runs it.
  void read_guest(ByteCursor& cursor) {
    constexpr std::size_t kMostGuests = 4096;
    const auto name = cursor.c_string();
    const auto trace_id = cursor.number<std::uint64_t>();
    if (!name || !trace_id || layout_.guests.size() >= kMostGuests) return;
    RecordedGuest& guest = layout_.guests.emplace_back();
    guest.trace_id = *trace_id;
    const auto cpus =
        std::min<std::uint32_t>(cursor.number<std::uint32_t>().value_or(0), kMostCpus);
    for (std::uint32_t i = 0; i < cpus; ++i) {
      const auto cpu = cursor.number<std::uint32_t>(), thread = cursor.number<std::uint32_t>();
      if (!cpu || !thread) return;
      constexpr std::uint32_t kMost = std::numeric_limits<std::int32_t>::max();
      if (*cpu > kMost || *thread > kMost || *thread == 0) continue;
      guest.threads[static_cast<std::int32_t>(*cpu)] = ThreadId{static_cast<std::int32_t>(*thread)};
    }
  }

  // Parses "CPU: 3" and how many events were read, left and lost; for an instance "Buffer: NAME"
  // comes first.
  void take_cpu_stat(std::string_view text) {
    constexpr std::string_view kInstance = "\nBuffer: ", kCpu = "CPU: ";
    if (take_text(text, kInstance)) {
      if (recorded_.size() < kMostCpus)
        recorded_.push_back({std::string(text.substr(0, text.find('\n'))), {}});
    } else if (text.starts_with(kCpu) && recorded_.back().cpus.size() < kMostCpus) {
      const auto cpu = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(stat_number(text, "CPU"), kMostCpus - 1));
      const CpuStat stat{recorded_.back().name.substr(0, kLongestName),
                         cpu,
                         stat_number(text, "overrun"),
                         stat_number(text, "dropped events"),
                         stat_number(text, "entries"),
                         stat_number(text, "read events")};
      if (layout_.cpu_stats.size() < kMostCpus) layout_.cpu_stats.push_back(stat);
      if (saturated_sum(stat.left, stat.read) == 0) return;
      recorded_.back().cpus.push_back(cpu);
    }
  }

  void take_unwritten(std::string_view body) {
    if (!body.starts_with(kTraplineLossName) || layout_.unwritten.size() >= kMostCpus) return;
    ByteCursor cursor(std::as_bytes(std::span(body.substr(kTraplineLossName.size()))),
                      layout_.order);
    const auto cpu = cursor.number<std::uint32_t>();
    const auto from = cursor.number<std::uint64_t>(), events = cursor.number<std::uint64_t>();
    const auto why = cursor.c_string();
    if (why)
      layout_.unwritten.push_back(
          {*cpu, *from, *events, std::string(why->substr(0, kLongestName))});
  }

  void handle_option(std::uint16_t id, const std::string& body) {
    ByteCursor cursor(std::as_bytes(std::span(body)), layout_.order);
    const std::string text = body.substr(0, body.find('\0'));
    switch (id) {
      case kDate:
        layout_.offset_ns += signed_number(body) * 1000;
        break;
      case kOffset:
        layout_.offset_ns += signed_number(body);
        break;
      case kTraceClock:
        layout_.clock = selected_clock(body).value_or(trimmed(text));
        has_trace_clock_ = true;
        break;
      case kUname:
        layout_.uname = text;
        break;
      case kVersion:
        layout_.writer = text;
        break;
      case kTimeShift:
        if (body.size() < 16) break;
        layout_.peer_id = cursor.number<std::uint64_t>().value_or(0);
        layout_.time_shift = TimeShift::parse(cursor);
        if (!layout_.time_shift) {
          options_status_ =
              fail(ErrorKind::kDamaged,
                   "{}: damaged: the option TIME_SHIFT is cut off, or says what cannot be",
                   file_.path());
        }
        break;
      case kGuest:
        read_guest(cursor);
        break;
      case kTraceId:
        layout_.trace_id = cursor.number<std::uint64_t>().value_or(0);
        break;
      case kCpuCount:
        layout_.cpu_count = cursor.number<std::uint32_t>().value_or(layout_.cpu_count);
        break;
      case kTsc2Nsec: {
        const auto mult = cursor.number<std::uint32_t>();
        const auto shift = cursor.number<std::uint32_t>();
        if (mult && shift && *mult != 0 && *shift < 64) layout_.tsc2nsec = {*mult, *shift};
        break;
      }
      case kCpuStat:
        take_cpu_stat(body);
        break;
      case kBufferText:
        layout_.has_text = true;
        break;
      case kTraplineLoss:
        take_unwritten(body);
        break;
      case kHook:
      case kProcMaps:
      case kStrings:
        break;
      default:
        ++layout_.unknown_options[id];
        break;
    }
  }

  // Version 6 has all sections in a fixed order and a table of the CPUs' data at the end.
  Result<void> read_v6() {
    read_header_info(reader_);
    read_ftrace_formats(reader_);
    read_event_formats(reader_);
    layout_.kallsyms = sized_section(reader_, reader_.number<std::uint32_t>());
    layout_.printk_strings = sized_section(reader_, reader_.number<std::uint32_t>());
    layout_.cmdlines = sized_section(reader_, reader_.number<std::uint64_t>());
    layout_.cpu_count = reader_.number<std::uint32_t>();
    std::vector<InstanceTable> instances;
    read_options_v6(instances);
    if (!reader_.ok()) return reader_.status();
    Buffer top = read_table_v6(reader_, "");
    if (!reader_.ok()) return reader_.status();
    layout_.buffers.push_back(std::move(top));
    constexpr std::uint64_t kMostEntries = 1u << 18;  // in all tables
    if (instances.size() * std::uint64_t{layout_.cpu_count} > kMostEntries) {
      reader_.fail_here("an impossible number of buffers");
      return reader_.status();
    }
    for (const InstanceTable& instance : instances)
      if (auto read = read_instance_v6(instance); !read) return read;
    return {};
  }

  // Reads what follows the CPU count: "options  \0" and the options, then "flyrecord\0"; either may
  // be missing.
  void read_options_v6(std::vector<InstanceTable>& instances) {
    std::string kind = reader_.bytes(10);
    if (kind.starts_with("options")) {
      while (reader_.ok()) {
        const auto id = reader_.number<std::uint16_t>();
        if (id == kDone) break;
        const std::string body = reader_.bytes(reader_.number<std::uint32_t>());
        if (id != kBuffer) {
          handle_option(id, body);
          continue;
        }
        ByteCursor cursor(std::as_bytes(std::span(body)), layout_.order);
        const auto offset = cursor.number<std::uint64_t>();
        const auto name = cursor.c_string();
        if (offset && name) instances.push_back({*offset, std::string(*name)});
      }
      kind = reader_.bytes(10);
    }
    if (reader_.ok() && kind.starts_with("latency")) {
      reader_.fail_here("a latency tracer's text instead of events (record events, not -p)");
    } else if (reader_.ok() && !kind.starts_with("flyrecord")) {
      reader_.fail_here("no table of per-CPU data");
    }
  }

  Buffer read_table_v6(MetaReader& reader, std::string name) {
    Buffer buffer{std::move(name), layout_.page_size, {}};
    if (layout_.cpu_count > kMostCpus) reader.fail_here("an impossible number of CPUs");
    for (std::uint32_t cpu = 0; cpu < layout_.cpu_count && reader.ok(); ++cpu) {
      const auto offset = reader.number<std::uint64_t>();
      const auto size = reader.number<std::uint64_t>();
      if (size == 0 || !reader.ok()) continue;
      if (offset > kFarthest || size > kFarthest) reader.fail_here("a CPU's data ends outside");
      add_pages(buffer, cpu, {offset, size});
    }
    return buffer;
  }

  Result<void> read_instance_v6(const InstanceTable& instance) {
    if (instance.offset < kFarthest && instance.offset >= file_.size()) {
      missing_.push_back(fmt::format("buffer '{}'", printable(instance.name)));
      return {};
    }
    MetaReader reader = at(instance.offset);
    reader.expect("flyrecord\0"sv);
    Buffer buffer = read_table_v6(reader, instance.name);
    if (reader.ok()) layout_.buffers.push_back(std::move(buffer));
    return reader.status();
  }

  // Reads the header of a section, up to the section's content.
  SectionHeader read_section_header(MetaReader& reader) const {
    SectionHeader header;
    header.id = reader.number<std::uint16_t>();
    const bool compressed = (reader.number<std::uint16_t>() & 1) != 0;
    header.body.compression = compressed ? layout_.compression : Compression::kNone;
    reader.skip(4);  // offset of the section's name in the string table
    header.body.size = reader.number<std::uint64_t>();
    header.body.offset = reader.position();
    return header;
  }

  Result<SectionHeader> section_at(std::uint64_t offset) const {
    MetaReader reader = at(offset);
    const SectionHeader header = read_section_header(reader);
    if (reader.ok() && !file_.holds(header.body.offset, header.body.size))
      reader.fail_here("a section ends outside the file");
    if (!reader.ok()) return tl::unexpected(reader.status().error());
    return header;
  }

  // Returns false if the file was cut off before the end of the section.
  bool holds_section(std::uint64_t offset) const {
    constexpr std::uint64_t kHeader = 16;
    if (offset >= kFarthest) return true;  // damage, which section_at() reports
    if (!file_.holds(offset, kHeader)) return false;
    MetaReader reader = at(offset);
    const Extent body = read_section_header(reader).body;
    return body.size >= kFarthest || file_.holds(body.offset, body.size);
  }

  Result<MetaReader> open_section(const Extent& body) {
    auto text = read_section(file_, layout_, body);
    if (!text) return tl::unexpected(std::move(text).error());
    if (text->size() > left_) {
      return fail(ErrorKind::kDamaged, "{}: damaged: more header sections than there can be",
                  file_.path());
    }
    left_ -= text->size();
    MetaReader reader(file_, std::move(*text));
    reader.set_order(layout_.order);
    return reader;
  }

  // Version 7 has sections anywhere, which a chain of option sections names.
  Result<void> read_v7(std::uint64_t next) {
    std::vector<Extent> by_option(kCmdlines + 1);
    std::set<std::uint64_t> visited;
    std::uint64_t read_to = 0;  // end of the last options read
    while (next != 0) {
      if (!visited.insert(next).second || visited.size() > kMostOptionSections) {
        return fail(ErrorKind::kDamaged, "{}: damaged: its option sections form a loop",
                    file_.path());
      }
      const bool cut = read_to != 0 && !holds_section(next);
      if (cut) {
        missing_.emplace_back("the index of the CPUs' data");
        if (auto found = find_cut_buffer_v7(read_to); !found) return found;
        miss_buffers_v7();
        break;
      }
      auto header = section_at(next);
      if (!header) return tl::unexpected(std::move(header).error());
      read_to = header->body.offset + header->body.size;
      auto following = read_options_v7(next, *header, by_option);
      if (!following) return tl::unexpected(std::move(following).error());
      next = *following;
    }
    return read_sections_v7(by_option);
  }

  Result<void> read_sections_v7(const std::vector<Extent>& by_option) {
    constexpr std::array<std::pair<Option, void (LayoutReader::*)(MetaReader&)>, 3> kParsed{{
        {kHeaderInfo, &LayoutReader::read_header_info},
        {kFtraceEvents, &LayoutReader::read_ftrace_formats},
        {kEventFormats, &LayoutReader::read_event_formats},
    }};
    for (const auto& [option, parse] : kParsed) {
      if (by_option[option].size == 0) continue;
      auto reader = open_section(by_option[option]);
      if (!reader) return tl::unexpected(std::move(reader).error());
      (this->*parse)(*reader);
      if (!reader->ok()) return reader->status();
    }
    layout_.kallsyms = by_option[kKallsyms];
    layout_.printk_strings = by_option[kPrintk];
    layout_.cmdlines = by_option[kCmdlines];
    return {};
  }

  // Reads one option section. Returns the offset of the next; 0 at the end.
  Result<std::uint64_t> read_options_v7(std::uint64_t offset, const SectionHeader& header,
                                        std::vector<Extent>& by_option) {
    if (header.id != kDone) {
      return fail(ErrorKind::kDamaged, "{}: damaged: no option section at offset {}", file_.path(),
                  offset);
    }
    auto reader = open_section(header.body);
    if (!reader) return tl::unexpected(std::move(reader).error());
    while (reader->ok() && reader->left() > 0) {
      const auto id = reader->number<std::uint16_t>();
      const std::string body = reader->bytes(reader->number<std::uint32_t>());
      if (!reader->ok()) break;
      ByteCursor cursor(std::as_bytes(std::span(body)), layout_.order);
      if (id == kDone) return cursor.number<std::uint64_t>().value_or(0);
      if (id == kBuffer) {
        if (auto handled = handle_buffer_v7(body); !handled)
          return tl::unexpected(std::move(handled).error());
      } else if (id >= kHeaderInfo && id <= kCmdlines) {
        auto section = section_at(cursor.number<std::uint64_t>().value_or(0));
        if (!section) return tl::unexpected(std::move(section).error());
        by_option[id] = section->body;
      } else {
        handle_option(id, body);
      }
    }
    if (!reader->ok()) return tl::unexpected(reader->status().error());
    return 0;
  }

  Result<void> handle_buffer_v7(const std::string& body) {
    ByteCursor cursor(std::as_bytes(std::span(body)), layout_.order);
    const auto section_offset = cursor.number<std::uint64_t>();
    const auto name = cursor.c_string();
    const auto clock = cursor.c_string();
    const auto page_size = cursor.number<std::uint32_t>();
    const auto cpus = cursor.number<std::uint32_t>();
    if (cursor.failed() || *cpus > kMostCpus) {
      return fail(ErrorKind::kDamaged, "{}: damaged: a buffer's description is cut off",
                  file_.path());
    }
    // The option TRACECLOCK takes precedence, because a buffer may say local although another clock
    // was set. trace-cmd split writes only the buffer's clock.
    if (!has_trace_clock_ && layout_.clock == "local" && !clock->empty()) layout_.clock = *clock;
    auto section = section_at(*section_offset);
    if (!section) return tl::unexpected(std::move(section).error());
    Buffer buffer{std::string(*name), *page_size, {}};
    for (std::uint32_t i = 0; i < *cpus; ++i) {
      const auto cpu = cursor.number<std::uint32_t>();
      const auto offset = cursor.number<std::uint64_t>();
      const auto size = cursor.number<std::uint64_t>();
      if (cursor.failed() || *cpu >= kMostCpus || *offset > kFarthest || *size > kFarthest) {
        return fail(
            ErrorKind::kDamaged,
            "{}: damaged or cut off: the data of a CPU of buffer '{}' ends outside the file",
            file_.path(), printable(buffer.name));
      }
      if (*size != 0) add_pages(buffer, *cpu, {*offset, *size, section->body.compression});
    }
    layout_.cpu_count = std::max(layout_.cpu_count, *cpus);
    layout_.buffers.push_back(std::move(buffer));
    return {};
  }

  // Finds a buffer's data in a file that was cut off before the option with its offset: the section
  // follows the options before it, and each CPU's blocks begin on a new page after the previous
  // CPU's. The options before tell which CPUs those are.
  Result<void> find_cut_buffer_v7(std::uint64_t offset) {
    MetaReader reader = at(offset);
    SectionHeader header = read_section_header(reader);
    while (header.id == kStrings && reader.ok()) {
      reader.skip(header.body.size);
      header = read_section_header(reader);
    }
    const bool compressed = header.body.compression != Compression::kNone;
    const auto recorded = std::ranges::find_if(recorded_, [this](const Recorded& one) {
      return !one.cpus.empty() &&
             std::ranges::find(layout_.buffers, one.name, &Buffer::name) == layout_.buffers.end();
    });
    if (!reader.ok() || header.id != kBuffer || recorded == recorded_.end()) return {};
    const std::uint64_t page = layout_.page_size;
    if (!std::has_single_bit(page)) return {};
    if (!compressed && recorded->cpus.size() > 1) {
      return fail(ErrorKind::kDamaged,
                  "{}: cut off: it ends at offset {}, before the table that says which of its data "
                  "is whose of {} CPUs; copy it again, or record again",
                  file_.path(), file_.size(), recorded->cpus.size());
    }
    Buffer buffer{recorded->name, layout_.page_size, {}};
    std::uint64_t place = header.body.offset;
    for (const std::uint32_t cpu : recorded->cpus) {
      place = (place + page - 1) / page * page;
      Extent pages{place, file_.size() + 1 - std::min(place, file_.size()),
                   header.body.compression};
      const auto blocks = compressed ? whole_blocks(file_, pages, layout_.order) : WholeBlocks{};
      // Like trace-cmd's size, this does not include the number of blocks.
      if (blocks.all) pages.size = blocks.end - place - sizeof(std::uint32_t);
      add_pages(buffer, cpu, pages);
      place = blocks.all ? blocks.end : file_.size();
    }
    layout_.buffers.push_back(std::move(buffer));
    return {};
  }

  // Adds to missing_ each buffer that had events, according to CPUSTAT, and whose data is not in
  // the file, because the file was cut off.
  void miss_buffers_v7() {
    for (const Recorded& one : recorded_) {
      if (one.cpus.empty() ||
          std::ranges::find(layout_.buffers, one.name, &Buffer::name) != layout_.buffers.end())
        continue;
      missing_.push_back(
          fmt::format("buffer '{}'", one.name.empty() ? "top" : printable(one.name)));
    }
  }

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

}  // namespace

Result<Layout> read_layout(const File& file) { return LayoutReader(file).read(); }

Result<std::string> read_section(const File& file, const Layout& layout, const Extent& section) {
  if (section.size > kLargestSection) {
    return fail(ErrorKind::kDamaged, "{}: damaged: a header section of {} bytes", file.path(),
                section.size);
  }
  std::string text(section.size, '\0');
  if (auto read = file.read(section.offset, std::as_writable_bytes(std::span(text))); !read)
    return tl::unexpected(std::move(read).error());
  if (section.compression == Compression::kNone) return text;
  ByteCursor cursor(std::as_bytes(std::span(text)), layout.order);
  const auto compressed_size = cursor.number<std::uint32_t>();
  const auto size = cursor.number<std::uint32_t>();
  const auto block = cursor.take(compressed_size.value_or(0));
  if (cursor.failed() || *size > kLargestSection || !is_plausible_ratio(block->size(), *size)) {
    return fail(ErrorKind::kDamaged, "{}: damaged: a compressed section at offset {}", file.path(),
                section.offset);
  }
  std::string plain(*size, '\0');
  auto decompressed =
      decompress(section.compression, *block, std::as_writable_bytes(std::span(plain)));
  if (!decompressed) {
    return fail(ErrorKind::kDamaged, "{}: damaged: the section at offset {} does not decompress",
                file.path(), section.offset);
  }
  plain.resize(*decompressed);
  return plain;
}

Result<std::string> read_text_section(const File& file, const Layout& layout, const Extent& section,
                                      std::size_t head) {
  if (section.size == 0) return std::string();
  auto text = read_section(file, layout, section);
  if (text && layout.version == 7 && text->size() >= head) text->erase(0, head);
  return text;
}

Result<kernel_events::Formats> read_formats(const File& file, const Layout& layout) {
  kernel_events::FormatTexts texts = layout;
  // Without the strings, events of trace_printk() have no text.
  texts.printk =
      read_text_section(file, layout, layout.printk_strings, sizeof(std::uint32_t)).value_or("");
  auto formats = kernel_events::Formats::parse(file.path(), std::move(texts));
  if (!formats) return formats;
  const auto comms = read_text_section(file, layout, layout.cmdlines, sizeof(std::uint64_t));
  if (!comms) return tl::unexpected(comms.error());
  formats->read_comms(*comms);
  return formats;
}

Result<TracingData> read_tracing_data(const File& file, std::uint64_t begin, std::uint64_t size) {
  return LayoutReader(file, begin, size).read_tracing_data();
}

}  // namespace trapline::trace_dat
