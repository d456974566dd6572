#include "merge/source/perf_data/layout.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/clock.h"
#include "merge/source/perf_data/record_reader.h"

namespace trapline::perf_data {
namespace {

constexpr std::uint64_t kHeaderSize = 104, kPipeHeaderSize = 16, kSection = 16;
constexpr std::uint64_t kLargestFeature = 32u << 20, kMostIds = 1u << 20;
constexpr std::size_t kMostAttrs = 4096;

enum Feature : std::uint64_t {
  kTracingDataFeature = 1,
  kHostname = 3,
  kOsRelease = 4,
  kVersion = 5,
  kArch = 6,
  kCpus = 7,
  kSampleTime = 21,
  kCompressedFeature = 27,
  kClockData = 29,
};

struct Section {
  std::uint64_t offset = 0, size = 0;
};

class LayoutReader {
 public:
  explicit LayoutReader(const File& file) : file_(file) {}

  Result<Layout> read() {
    auto head = bytes({0, std::min<std::uint64_t>(kHeaderSize, file_.size())});
    if (!head) return tl::unexpected(std::move(head).error());
    if (auto known = check_magic(*head); !known) return tl::unexpected(std::move(known).error());
    const auto size = load<std::uint64_t>(head->data() + 8);
    layout_.from_pipe = size == kPipeHeaderSize;
    Result<void> read = layout_.from_pipe ? read_records()
                        : size == kHeaderSize && head->size() == kHeaderSize
                            ? read_header(*head)
                            : damaged(fmt::format("a header of {} bytes", size));
    if (read) read = check_attrs();
    if (!read) return tl::unexpected(std::move(read).error());
    return std::move(layout_);
  }

 private:
  [[nodiscard]] tl::unexpected<Error> damaged(const std::string& what) const {
    return fail(ErrorKind::kDamaged, "{}: damaged or cut off: {}; record again", file_.path(),
                what);
  }
  [[nodiscard]] Result<std::vector<std::byte>> bytes(const Section& section) const {
    if (section.size > kLargestFeature || !file_.holds(section.offset, section.size))
      return damaged(fmt::format("{} bytes at offset {}", section.size, section.offset));
    std::vector<std::byte> read(static_cast<std::size_t>(section.size));
    if (auto done = file_.read(section.offset, read); !done)
      return tl::unexpected(std::move(done).error());
    return read;
  }

  [[nodiscard]] Result<void> check_magic(std::span<const std::byte> head) const {
    if (head.size() < kPipeHeaderSize) return damaged("it ends in its header");
    const std::string_view magic(reinterpret_cast<const char*>(head.data()), kMagic.size());
    if (magic == kMagic) return {};
    if (magic == "2ELIFREP") {
      return fail(
          "{}: a perf.data of a big-endian machine, which is not read; use perf script on that "
          "machine, or record with trace-cmd",
          file_.path());
    }
    if (magic == "PERFFILE") {
      return fail(
          "{}: a perf.data of a perf before Linux 2.6.39, which is not read; record it again",
          file_.path());
    }
    return fail("{}: not a perf.data: its first bytes are not perf's; record one with perf record",
                file_.path());
  }
  [[nodiscard]] Result<void> read_header(std::span<const std::byte> head) {
    const auto u64 = [&](std::size_t at) { return load<std::uint64_t>(head.data() + at); };
    const Section attrs{u64(24), u64(32)}, data{u64(40), u64(48)};
    if (auto read = read_attrs(attrs, u64(16)); !read) return read;
    if (data.offset < kHeaderSize || data.offset > file_.size() ||
        data.size > UINT64_MAX - data.offset) {
      return damaged(fmt::format("its records begin at offset {}", data.offset));
    }
    const std::uint64_t end = data.offset + data.size;
    layout_.ranges = {{data.offset, end}};
    if (data.size == 0 || end >= file_.size()) {
      return fail(
          ErrorKind::kDamaged,
          "{}: cut off: perf writes the formats of its events at the end of a file, and they "
          "are missing; end perf record with Ctrl-C or SIGTERM, or let it write into a pipe "
          "(-o - | cat >FILE), which can be read up to where it was cut",
          file_.path());
    }
    return read_features(head.subspan(72, 32), end);
  }
  [[nodiscard]] Result<void> read_attrs(const Section& attrs, std::uint64_t size) {
    if (size <= kSection || size > 4096 || attrs.size % size != 0)
      return damaged(fmt::format("attrs of {} bytes", size));
    auto all = bytes(attrs);
    if (!all) return tl::unexpected(std::move(all).error());
    for (std::size_t at = 0; at < all->size(); at += size) {
      const auto attr = std::span(*all).subspan(at, size);
      const auto tail = attr.subspan(size - kSection);
      auto ids = bytes({load<std::uint64_t>(tail.data()), load<std::uint64_t>(tail.data() + 8)});
      if (!ids) return tl::unexpected(std::move(ids).error());
      if (auto added = add_attr(attr.first(size - kSection), *ids); !added) return added;
    }
    return {};
  }
  [[nodiscard]] Result<void> add_attr(std::span<const std::byte> attr,
                                      std::span<const std::byte> ids) {
    const auto parsed = Attr::parse(attr);
    if (!parsed || layout_.attrs.size() == kMostAttrs) return damaged("an attr of an event");
    ids_ += ids.size() / 8;
    if (ids_ > kMostIds) return damaged("too many ids of events");
    const auto index = static_cast<std::uint16_t>(layout_.attrs.size());
    for (std::size_t at = 0; at + 8 <= ids.size(); at += 8)
      layout_.by_id.add(load<std::uint64_t>(ids.data() + at), index);
    layout_.attrs.push_back(*parsed);
    layout_.shapes.emplace_back(parsed->sample_type, parsed->read_format);
    return {};
  }
  [[nodiscard]] Result<void> read_features(std::span<const std::byte> bits, std::uint64_t table) {
    for (std::uint64_t feature = 0; feature < 256; ++feature) {
      if ((std::to_integer<unsigned>(bits[feature / 8]) >> (feature % 8) & 1) == 0) continue;
      auto entry = bytes({table, kSection});
      table += kSection;
      Result<void> read;
      if (!entry) {
        read = tl::unexpected(std::move(entry).error());
      } else {
        const Section section{load<std::uint64_t>(entry->data()),
                              load<std::uint64_t>(entry->data() + 8)};
        if (feature == kTracingDataFeature) {
          read = read_formats(section);
          if (!read) return read;
        } else if (!file_.holds(section.offset, section.size)) {
          read = damaged(fmt::format("its feature {} lies outside of it", feature));
        } else if (auto body =
                       bytes({section.offset, std::min<std::uint64_t>(section.size, 4096)})) {
          on_feature(feature, *body);
        }
      }
      if (!read && layout_.damage) layout_.damage = std::move(read);
    }
    return {};
  }
  // Reads a pipe's records up to the first sample; the rest of the file contains no layout.
  [[nodiscard]] Result<void> read_records() {
    layout_.ranges = {{kPipeHeaderSize, file_.size()}};
    BlockPool pool;
    RecordReader reader(file_, pool, kPipeHeaderSize, file_.size());
    for (Record record; reader.next(record) && record.type != RecordType::kSample;) {
      const auto body = std::span<const std::byte>(record.bytes).subspan(kRecordHeader);
      Result<void> read;
      if (record.type == RecordType::kHeaderAttr) {
        const std::size_t size = body.size() >= 8 ? load<std::uint32_t>(body.data() + 4) : 0;
        if (size < 8 || size > body.size()) return damaged("an attr of an event");
        read = add_attr(body.first(size), body.subspan(size));
      } else if (record.type == RecordType::kHeaderFeature && body.size() >= 8) {
        on_feature(load<std::uint64_t>(body.data()), body.subspan(8));
      } else if (record.type == RecordType::kTracingData) {
        read = read_formats({record.payload_at, record.payload_size});
      }
      if (!read) return read;
    }
    return {};
  }
  [[nodiscard]] Result<void> read_formats(const Section& section) {
    if (section.size > kLargestFeature || !file_.holds(section.offset, section.size))
      return damaged("the formats of its events, which perf writes at its end");
    auto tracing = trace_dat::read_tracing_data(file_, section.offset, section.size);
    if (!tracing) return damaged("the formats of its events");
    layout_.tracing = std::move(*tracing);
    has_formats_ = true;
    return {};
  }
  // Reads a feature's body. A text in it is a u32 length and so many bytes, with zeros at the end.
  void on_feature(std::uint64_t feature, std::span<const std::byte> body) {
    ByteCursor cursor(body);
    const auto text = [&cursor] {
      const auto bytes = cursor.take(cursor.number<std::uint32_t>().value_or(0));
      if (!bytes) return std::string();
      const std::string_view all(reinterpret_cast<const char*>(bytes->data()), bytes->size());
      return printable(all.substr(0, all.find('\0')));
    };
    switch (feature) {
      case kHostname:
        layout_.host = text();
        break;
      case kOsRelease:
        layout_.release = text();
        break;
      case kVersion:
        layout_.writer = text();
        break;
      case kArch:
        layout_.arch = text();
        break;
      case kCpus:
        layout_.cpu_count = cursor.number<std::uint32_t>().value_or(0);
        break;
      case kSampleTime: {
        const auto first = cursor.number<std::uint64_t>(), last = cursor.number<std::uint64_t>();
        if (first && last && *first != 0 && *first <= *last) layout_.sample_times = {*first, *last};
        break;
      }
      case kClockData: {
        const auto version = cursor.number<std::uint32_t>(), clock = cursor.number<std::uint32_t>();
        const auto wall = cursor.number<std::uint64_t>(), at = cursor.number<std::uint64_t>();
        if (version == 1U && clock && wall && at)
          layout_.to_wall_clock = static_cast<std::int64_t>(*wall - *at);
        break;
      }
      case kCompressedFeature:
        layout_.compressed = true;
        break;
      default:
        break;
    }
  }
  [[nodiscard]] Result<void> check_attrs() {
    const std::string& path = file_.path();
    if (std::ranges::none_of(layout_.attrs, &Attr::tracepoint)) {
      return fail(
          "{}: holds no tracepoints; record with perf kvm stat record, or with perf record -a -e "
          "'kvm:*'",
          path);
    }
    if (!has_formats_) return damaged("the formats of its events are missing");
    for (const Attr& attr : layout_.attrs) {
      const bool same = attr.sample_type == layout_.attrs.front().sample_type &&
                        attr.read_format == layout_.attrs.front().read_format;
      if (!same && (attr.sample_type & kIdentifier) == 0)
        return damaged("attrs whose records cannot be told apart");
      if (attr.clock != layout_.attrs.front().clock) return damaged("events on different clocks");
      if (!attr.tracepoint) continue;
      constexpr std::uint64_t kNeeded = kTime | kCpu | kRaw;
      if ((attr.sample_type & kNeeded) != kNeeded || !attr.sample_id_all) {
        return fail(
            "{}: its tracepoints were recorded without their time, CPU or fields; record with "
            "perf record -a -R -T --sample-cpu",
            path);
      }
      if (attr.frequency || attr.period != 1) {
        return fail(
            "{}: it has samples of its tracepoints and not every event (perf record -c or -F), so "
            "that exits have no end; record with -c 1",
            path);
      }
      if (attr.backward) {
        return fail(
            "{}: recorded with --overwrite, which does not say what it lost; record without", path);
      }
    }
    if (const auto clock = layout_.attrs.front().clock) {
      const auto known = std::ranges::find(kClockIds, *clock);
      if (known == std::end(kClockIds))
        return damaged(fmt::format("a clock with the number {}", *clock));
      layout_.clock = kClockNames[static_cast<std::size_t>(known - std::begin(kClockIds))];
    }
    return {};
  }

  const File& file_;
  Layout layout_;
  std::uint64_t ids_ = 0;
  bool has_formats_ = false;
};

}  // namespace

Result<Files> open_folder(const std::string& path) {
  std::vector<File::Piece> pieces;
  std::vector<std::uint64_t> sizes;
  std::uint64_t at = 0;
  for (int number = -1; number < 1 << 16; ++number) {
    const std::string name = number < 0 ? path + "/data" : fmt::format("{}/data.{}", path, number);
    if (number >= 0 && !is_there(name)) break;
    auto fd = std::make_shared<const UniqueFd>(open_to_read(name));
    struct stat status {};
    if (!*fd || ::fstat(fd->get(), &status) != 0) return fail("{}: {}", name, std::strerror(errno));
    if (!S_ISREG(status.st_mode)) return fail("{}: not a regular file", name);
    const auto size = static_cast<std::uint64_t>(status.st_size);
    sizes.push_back(size);
    if (size != 0) pieces.push_back({at, size, fd, 0, {}});
    at += size;
  }
  if (sizes.front() == 0) return fail(ErrorKind::kDamaged, "{}/data: the file is empty", path);
  File::Guard guard{pieces.front().file, sizes.front()};
  return Files{File::compose(path, std::move(pieces), std::move(guard)), std::move(sizes)};
}

Result<Layout> read_layout(const File& file) { return LayoutReader(file).read(); }

Result<Layout> read_layout(const Files& files) {
  auto layout = read_layout(files.file);
  if (!layout || files.sizes.empty()) return layout;
  std::uint64_t at = files.sizes.front();
  for (std::size_t i = 1; i < files.sizes.size(); at += files.sizes[i++])
    layout->ranges.push_back({at, at + files.sizes[i]});
  return layout;
}

}  // namespace trapline::perf_data
