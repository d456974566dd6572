#include "merge/source/trace_dat/layout.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string_view>

#include "backend_ftrace/base/text.h"
#include "merge/source/trace_dat/compression.h"
#include "merge/source/trace_dat/meta_reader.h"

namespace trapline::trace_dat {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "\x17\x08\x44tracing"sv;
constexpr std::uint64_t kLargestSection = 32u << 20;
constexpr std::size_t kMostFormats = 65536;  // common_type has 16 bits
constexpr std::size_t kLongestName = 255;
constexpr std::size_t kMostOptionSections = 1024;
constexpr std::uint32_t kMostCpus = 8192;

// Option ids; those of no interest here have no name.
enum Option : std::uint16_t {
  kDone = 0,
  kDate = 1,
  kBuffer = 3,
  kTraceClock = 4,
  kUname = 5,
  kOffset = 7,
  kCpuCount = 8,
  kVersion = 9,
  kTraceId = 11,
  kTimeShift = 12,
  kGuest = 13,
  kTsc2Nsec = 14,
  kHeaderInfo = 16,
  kFtraceEvents = 17,
  kEventFormats = 18,
  kKallsyms = 19,
  kPrintk = 20,
  kCmdlines = 21,
};

struct SectionHeader {
  std::uint16_t id = 0;
  Extent body;
};

// The buffers of a version 6 file: {file offset of the instance's own table, name}.
struct InstanceTable {
  std::uint64_t offset;
  std::string name;
};

std::int64_t signed_number(std::string_view text) {
  text = trimmed(text.substr(0, text.find('\0')));
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const auto value = static_cast<std::int64_t>(parse_number(text).value_or(0));
  return negative ? -value : value;
}

// "local global [mono] boot" → "mono"
std::string chosen_clock(std::string_view list) {
  const auto open = list.find('[');
  const auto close = list.find(']', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) {
    return std::string(trimmed(list.substr(0, list.find('\0'))));
  }
  return std::string(list.substr(open + 1, close - open - 1));
}

class LayoutReader {
 public:
  explicit LayoutReader(const File& file) : file_(file), reader_(file, 0, file.size()) {}

  Result<Layout> read();

 private:
  Result<void> read_v6();
  Result<void> read_v7(std::uint64_t first_options);
  void read_header_info(MetaReader& reader);
  Result<void> check_buffers() const;
  void add_format(MetaReader& reader, const std::string& system);
  void read_ftrace_formats(MetaReader& reader);
  void read_event_formats(MetaReader& reader);
  Extent sized_section(MetaReader& reader, std::uint64_t size);
  void read_options_v6(std::vector<InstanceTable>& instances);
  Result<void> read_instance_v6(const InstanceTable& instance);
  Buffer read_table_v6(MetaReader& reader, std::string name);
  Result<std::uint64_t> read_options_v7(std::uint64_t offset, std::vector<Extent>& by_option);
  void handle_option(std::uint16_t id, const std::string& body);
  Result<void> handle_buffer_v7(const std::string& body);
  Result<SectionHeader> section_at(std::uint64_t offset);
  Result<MetaReader> open_section(const Extent& body);
  Result<void> read_sections_v7(const std::vector<Extent>& by_option);

  MetaReader at(std::uint64_t offset) const {
    MetaReader reader(file_, std::min(offset, file_.size()), file_.size());
    reader.set_order(layout_.order);
    return reader;
  }

  const File& file_;
  MetaReader reader_;
  Layout layout_;
};

Result<Layout> LayoutReader::read() {
  if (reader_.bytes(std::min<std::uint64_t>(kMagic.size(), file_.size())) != kMagic) {
    return fail(
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
    return fail(ErrorKind::kDamaged, "{}: damaged: a long of {} bytes in the header", file_.path(),
                layout_.long_size);
  }
  Result<void> rest;
  if (layout_.version == 6) {
    layout_.compression = "none";
    rest = read_v6();
  } else {
    layout_.compression = reader_.c_string();
    (void)reader_.c_string();  // the library's version
    const auto options = reader_.number<std::uint64_t>();
    rest = reader_.status();
    if (rest) rest = read_v7(options);
  }
  if (rest) rest = check_buffers();
  if (!rest) return tl::unexpected(std::move(rest).error());
  return std::move(layout_);
}

// Pages have a size that a kernel could have, and no byte is two CPUs' data: else a small file
// could stand for a recording without end.
Result<void> LayoutReader::check_buffers() const {
  constexpr std::uint32_t kSmallest = 1024, kLargest = 16u << 20;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pieces;
  for (const Buffer& buffer : layout_.buffers) {
    const std::uint32_t page = buffer.page_size;
    const bool possible = std::has_single_bit(page) && page >= kSmallest && page <= kLargest;
    if (!buffer.cpus.empty() && !possible) {
      return fail(ErrorKind::kDamaged, "{}: damaged: pages of {} bytes", file_.path(), page);
    }
    for (const CpuPages& cpu : buffer.cpus) pieces.emplace_back(cpu.pages.offset, cpu.pages.size);
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

void LayoutReader::read_header_info(MetaReader& reader) {
  reader.expect("header_page\0"sv);
  layout_.header_page = reader.bytes(reader.number<std::uint64_t>());
  reader.expect("header_event\0"sv);
  reader.skip(reader.number<std::uint64_t>());
}

void LayoutReader::add_format(MetaReader& reader, const std::string& system) {
  if (layout_.formats.size() == kMostFormats) reader.fail_here("too many event formats");
  layout_.formats.push_back({system, reader.bytes(reader.number<std::uint64_t>())});
}

void LayoutReader::read_ftrace_formats(MetaReader& reader) {
  const auto count = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    add_format(reader, "ftrace");
  }
}

void LayoutReader::read_event_formats(MetaReader& reader) {
  const auto systems = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < systems && reader.ok(); ++i) {
    const std::string system = reader.c_string();
    if (system.size() > kLongestName) reader.fail_here("an impossible name of an event system");
    const auto count = reader.number<std::uint32_t>();
    for (std::uint32_t k = 0; k < count && reader.ok(); ++k) {
      add_format(reader, system);
    }
  }
}

Extent LayoutReader::sized_section(MetaReader& reader, std::uint64_t size) {
  const Extent section{reader.position(), size, false};
  reader.skip(size);
  return section;
}

// ---- version 6

Result<void> LayoutReader::read_v6() {
  read_header_info(reader_);
  read_ftrace_formats(reader_);
  read_event_formats(reader_);
  layout_.kallsyms = sized_section(reader_, reader_.number<std::uint32_t>());
  layout_.printk = sized_section(reader_, reader_.number<std::uint32_t>());
  layout_.cmdlines = sized_section(reader_, reader_.number<std::uint64_t>());
  layout_.cpu_count = reader_.number<std::uint32_t>();
  std::vector<InstanceTable> instances;
  read_options_v6(instances);
  if (!reader_.ok()) return reader_.status();
  Buffer top = read_table_v6(reader_, "");
  if (!reader_.ok()) return reader_.status();
  layout_.buffers.push_back(std::move(top));
  for (const InstanceTable& instance : instances) {
    if (auto read = read_instance_v6(instance); !read) return read;
  }
  return {};
}

// After the CPU count: "options  \0", the options, then "flyrecord\0"; either may be missing.
void LayoutReader::read_options_v6(std::vector<InstanceTable>& instances) {
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

Buffer LayoutReader::read_table_v6(MetaReader& reader, std::string name) {
  Buffer buffer{std::move(name), layout_.page_size, {}};
  if (layout_.cpu_count > kMostCpus) reader.fail_here("an impossible number of CPUs");
  for (std::uint32_t cpu = 0; cpu < layout_.cpu_count && reader.ok(); ++cpu) {
    const auto offset = reader.number<std::uint64_t>();
    const auto size = reader.number<std::uint64_t>();
    if (size != 0 && !file_.holds(offset, size)) reader.fail_here("a CPU's data ends outside");
    if (size != 0) buffer.cpus.push_back({cpu, {offset, size, false}});
  }
  return buffer;
}

Result<void> LayoutReader::read_instance_v6(const InstanceTable& instance) {
  MetaReader reader = at(instance.offset);
  reader.expect("flyrecord\0"sv);
  Buffer buffer = read_table_v6(reader, instance.name);
  if (reader.ok()) layout_.buffers.push_back(std::move(buffer));
  return reader.status();
}

// ---- version 7

Result<SectionHeader> LayoutReader::section_at(std::uint64_t offset) {
  MetaReader reader = at(offset);
  SectionHeader header;
  header.id = reader.number<std::uint16_t>();
  header.body.compressed = (reader.number<std::uint16_t>() & 1) != 0;
  reader.skip(4);  // the section's name in the string table
  header.body.size = reader.number<std::uint64_t>();
  header.body.offset = reader.position();
  if (reader.ok() && !file_.holds(header.body.offset, header.body.size)) {
    reader.fail_here("a section ends outside the file");
  }
  if (!reader.ok()) return tl::unexpected(reader.status().error());
  return header;
}

Result<MetaReader> LayoutReader::open_section(const Extent& body) {
  auto text = read_section(file_, layout_, body);
  if (!text) return tl::unexpected(std::move(text).error());
  MetaReader reader(file_, std::move(*text));
  reader.set_order(layout_.order);
  return reader;
}

Result<void> LayoutReader::read_v7(std::uint64_t next) {
  std::vector<Extent> by_option(kCmdlines + 1);
  std::set<std::uint64_t> visited;
  while (next != 0) {
    if (!visited.insert(next).second || visited.size() > kMostOptionSections) {
      return fail(ErrorKind::kDamaged, "{}: damaged: its option sections form a circle",
                  file_.path());
    }
    auto following = read_options_v7(next, by_option);
    if (!following) return tl::unexpected(std::move(following).error());
    next = *following;
  }
  return read_sections_v7(by_option);
}

Result<void> LayoutReader::read_sections_v7(const std::vector<Extent>& by_option) {
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
  layout_.printk = by_option[kPrintk];
  layout_.cmdlines = by_option[kCmdlines];
  return {};
}

// Reads one option section; returns the offset of the next, 0 at the end.
Result<std::uint64_t> LayoutReader::read_options_v7(std::uint64_t offset,
                                                    std::vector<Extent>& by_option) {
  auto header = section_at(offset);
  if (!header) return tl::unexpected(std::move(header).error());
  if (header->id != kDone) {
    return fail(ErrorKind::kDamaged, "{}: damaged: no option section at offset {}", file_.path(),
                offset);
  }
  auto reader = open_section(header->body);
  if (!reader) return tl::unexpected(std::move(reader).error());
  while (reader->ok() && reader->left() > 0) {
    const auto id = reader->number<std::uint16_t>();
    const std::string body = reader->bytes(reader->number<std::uint32_t>());
    if (!reader->ok()) break;
    ByteCursor cursor(std::as_bytes(std::span(body)), layout_.order);
    if (id == kDone) return cursor.number<std::uint64_t>().value_or(0);
    if (id == kBuffer) {
      if (auto handled = handle_buffer_v7(body); !handled) {
        return tl::unexpected(std::move(handled).error());
      }
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

Result<void> LayoutReader::handle_buffer_v7(const std::string& body) {
  ByteCursor cursor(std::as_bytes(std::span(body)), layout_.order);
  const auto section_offset = cursor.number<std::uint64_t>();
  const auto name = cursor.c_string();
  (void)cursor.c_string();  // its clock: says local even where another was set; TRACECLOCK is right
  const auto page_size = cursor.number<std::uint32_t>();
  const auto cpus = cursor.number<std::uint32_t>();
  if (cursor.failed() || *cpus > kMostCpus) {
    return fail(ErrorKind::kDamaged, "{}: damaged: a buffer's description is cut off",
                file_.path());
  }
  auto section = section_at(*section_offset);
  if (!section) return tl::unexpected(std::move(section).error());
  Buffer buffer{std::string(*name), *page_size, {}};
  for (std::uint32_t i = 0; i < *cpus; ++i) {
    const auto cpu = cursor.number<std::uint32_t>();
    const auto offset = cursor.number<std::uint64_t>();
    const auto size = cursor.number<std::uint64_t>();
    if (cursor.failed() || *cpu >= kMostCpus || (*size != 0 && !file_.holds(*offset, *size))) {
      return fail(ErrorKind::kDamaged,
                  "{}: damaged or cut off: the data of a CPU of buffer '{}' ends outside the file",
                  file_.path(), buffer.name);
    }
    if (*size != 0) buffer.cpus.push_back({*cpu, {*offset, *size, section->body.compressed}});
  }
  layout_.cpu_count = std::max(layout_.cpu_count, *cpus);
  layout_.buffers.push_back(std::move(buffer));
  return {};
}

// ---- both

void LayoutReader::handle_option(std::uint16_t id, const std::string& body) {
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
      layout_.clock = chosen_clock(body);
      break;
    case kUname:
      layout_.uname = text;
      break;
    case kVersion:
      layout_.writer = text;
      break;
    case kTimeShift:
      layout_.time_shift = body.size() >= 16;
      layout_.peer_id = cursor.number<std::uint64_t>().value_or(0);
      break;
    case kGuest: {  // name, trace id, CPUs
      constexpr std::size_t kMostGuests = 4096;
      const auto name = cursor.c_string();
      const auto trace_id = cursor.number<std::uint64_t>();
      if (name && trace_id && layout_.guest_trace_ids.size() < kMostGuests) {
        layout_.guest_trace_ids.push_back(*trace_id);
      }
      break;
    }
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
    default:
      break;
  }
}

}  // namespace

Result<Layout> read_layout(const File& file) { return LayoutReader(file).read(); }

Result<std::string> read_section(const File& file, const Layout& layout, const Extent& section) {
  if (section.size > kLargestSection) {
    return fail(ErrorKind::kDamaged, "{}: damaged: a header section of {} bytes", file.path(),
                section.size);
  }
  std::string text(section.size, '\0');
  if (auto read = file.read(section.offset, std::as_writable_bytes(std::span(text))); !read) {
    return tl::unexpected(std::move(read).error());
  }
  if (!section.compressed) return text;
  if (layout.compression != "zstd") return unsupported_compression(file, layout.compression);
  ByteCursor cursor(std::as_bytes(std::span(text)), layout.order);
  const auto compressed_size = cursor.number<std::uint32_t>();
  const auto size = cursor.number<std::uint32_t>();
  const auto block = cursor.take(compressed_size.value_or(0));
  if (cursor.failed() || *size > kLargestSection) {
    return fail(ErrorKind::kDamaged, "{}: damaged: a compressed section at offset {}", file.path(),
                section.offset);
  }
  std::string plain(*size, '\0');
  auto decompressed = decompress(*block, std::as_writable_bytes(std::span(plain)));
  if (!decompressed) {
    return fail(ErrorKind::kDamaged, "{}: damaged: the section at offset {} does not decompress",
                file.path(), section.offset);
  }
  plain.resize(*decompressed);
  return plain;
}

}  // namespace trapline::trace_dat
