#include "merge/source/trace_dat/layout.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/trace_dat_magic.h"
#include "backend_ftrace/clock.h"
#include "merge/source/trace_dat/compression.h"
#include "merge/source/trace_dat/layout_reader.h"

namespace trapline::trace_dat {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kLargestSection = 32u << 20;
constexpr std::size_t kMostFormats = 65536;  // common_type has 16 bits
constexpr std::size_t kLongestName = 255;

std::int64_t signed_number(std::string_view text) {
  text = trimmed(text.substr(0, text.find('\0')));
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const auto value = static_cast<std::int64_t>(parse_number(text).value_or(0));
  return negative ? -value : value;
}

}  // namespace

Result<Layout> LayoutReader::read() {
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
    return fail(ErrorKind::kDamaged, "{}: damaged: a long of {} bytes in the header", file_.path(),
                layout_.long_size);
  }
  Result<void> rest;
  if (layout_.version == 6) {
    rest = read_v6();
  } else {
    const std::string compression = reader_.c_string();
    if (!reader_.ok()) return tl::unexpected(reader_.status().error());
    const auto algorithm = compression_named(compression);
    if (!algorithm) {
      return fail("{}: compressed with '{}', which is not read; record it with --compression zstd",
                  file_.path(), printable(compression.substr(0, kLongestName)));
    }
    layout_.compression = *algorithm;
    (void)reader_.c_string();  // the library's version
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

// As far as the file has them: of uncompressed ones whole pages.
void LayoutReader::add_pages(Buffer& buffer, std::uint32_t cpu, Extent pages) const {
  pages.cut = !file_.holds(pages.offset, pages.size);
  if (pages.cut) {
    pages.size = file_.size() - std::min(pages.offset, file_.size());
    if (pages.compression == Compression::kNone && buffer.page_size != 0)
      pages.size -= pages.size % buffer.page_size;
  }
  buffer.cpus.push_back({cpu, pages});
}

void LayoutReader::tell_cut() {
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

// Pages have a size that a kernel could have, and no byte is two CPUs' data: else a small file
// could stand for a recording without end.
Result<void> LayoutReader::check_buffers() const {
  constexpr std::uint32_t kSmallest = 1024, kLargest = 1u << 20;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pieces;
  for (const Buffer& buffer : layout_.buffers) {
    const std::uint32_t page = buffer.page_size;
    const bool possible = std::has_single_bit(page) && page >= kSmallest && page <= kLargest;
    if (!buffer.cpus.empty() && !possible) {
      return fail(ErrorKind::kDamaged, "{}: damaged: pages of {} bytes", file_.path(), page);
    }
    for (const CpuPages& cpu : buffer.cpus) {
      if (cpu.pages.size != 0) pieces.emplace_back(cpu.pages.offset, cpu.pages.size);
    }
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
  reader.skip(reader.number<std::uint64_t>());
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
  const Extent section{reader.position(), size};
  reader.skip(size);
  return section;
}

// Name, trace id, and for each of its CPUs the number and the thread that runs it.
void LayoutReader::read_guest(ByteCursor& cursor) {
  constexpr std::size_t kMostGuests = 4096;
  const auto name = cursor.c_string();
  const auto trace_id = cursor.number<std::uint64_t>();
  if (!name || !trace_id || layout_.guests.size() >= kMostGuests) return;
  RecordedGuest& guest = layout_.guests.emplace_back();
  guest.trace_id = *trace_id;
  const auto cpus = std::min<std::uint32_t>(cursor.number<std::uint32_t>().value_or(0), kMostCpus);
  for (std::uint32_t i = 0; i < cpus; ++i) {
    const auto cpu = cursor.number<std::uint32_t>(), thread = cursor.number<std::uint32_t>();
    if (!cpu || !thread) return;
    constexpr std::uint32_t kMost = std::numeric_limits<std::int32_t>::max();
    if (*cpu > kMost || *thread > kMost || *thread == 0) continue;
    guest.threads[static_cast<std::int32_t>(*cpu)] = static_cast<std::int32_t>(*thread);
  }
}

// "CPU: 3", and how many events were read, left and lost; before those of an instance
// "Buffer: NAME".
void LayoutReader::take_cpu_stat(std::string_view text) {
  const auto after = [text](std::string_view key) -> std::uint64_t {
    const auto at = text.find(key);
    if (at == text.npos) return 0;
    const auto rest = text.substr(at + key.size());
    return parse_number(trimmed(rest.substr(0, rest.find('\n')))).value_or(0);
  };
  constexpr std::string_view kInstance = "\nBuffer: ", kCpu = "CPU: ";
  if (text.starts_with(kInstance)) {
    text.remove_prefix(kInstance.size());
    if (recorded_.size() < kMostCpus)
      recorded_.push_back({std::string(text.substr(0, text.find('\n'))), {}});
  } else if (text.starts_with(kCpu) && recorded_.back().cpus.size() < kMostCpus) {
    const auto cpu =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(after(kCpu), kMostCpus - 1));
    const CpuStat stat{recorded_.back().name.substr(0, kLongestName), cpu, after("\noverrun:"),
                       after("\ndropped events:"), after("\nentries:")};
    const bool tells = stat.overwritten != 0 || stat.dropped != 0 || stat.left != 0;
    if (tells && layout_.cpu_stats.size() < kMostCpus) layout_.cpu_stats.push_back(stat);
    if (stat.left + after("\nread events:") == 0) return;
    recorded_.back().cpus.push_back(cpu);
  }
}

// More than 60 lines: one case for each option.
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
        options_status_ = fail(
            ErrorKind::kDamaged,
            "{}: damaged: the option TIME_SHIFT is cut off, or says what cannot be", file_.path());
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
    case kHook:
    case kProcMaps:
    case kStrings:
      break;
    default:
      ++layout_.unknown_options[id];
      break;
  }
}

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

Result<kernel_events::Formats> read_formats(const File& file, const Layout& layout) {
  kernel_events::Formats formats = kernel_events::Formats::parse(file.path(), layout);
  if (layout.cmdlines.size == 0) return formats;
  auto section = read_section(file, layout, layout.cmdlines);
  if (!section) return tl::unexpected(std::move(section).error());
  std::string_view text = *section;
  if (layout.version == 7 && text.size() >= 8) text.remove_prefix(8);  // u64 size
  formats.read_comms(text);
  return formats;
}

}  // namespace trapline::trace_dat
