#include "backend_ftrace/simpletrace/reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "backend_ftrace/base/held_files.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/trace_dat_magic.h"
#include "backend_ftrace/simpletrace/format.h"

namespace trapline::simpletrace {
namespace {

using tracetool::Argument;
using tracetool::Event;
using tracetool::TypeKind;
using tracetool::Value;
using tracetool::ValueKind;

constexpr std::size_t kBuffer = 1 << 18;
constexpr std::size_t kMaxName = 1024;
constexpr std::size_t kMaxMapped = 1 << 20;
static_assert(kBuffer > kMaxRecord + sizeof(RecordHeader) + 8);

std::uint64_t load(std::string_view bytes, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Returns the layout, and whether the byte order differs from this machine's.
std::optional<std::pair<Layout, bool>> layout_of(std::string_view first) {
  if (first.size() < 16) return std::nullopt;
  for (const bool swap : {false, true}) {
    std::uint64_t words[2] = {load(first, 0), load(first, 8)};
    if (swap) {
      for (std::uint64_t& word : words) word = __builtin_bswap64(word);
    }
    if (words[0] == kHeaderId && words[1] == kHeaderMagic) return std::pair(Layout::kQemu, swap);
    if (words[0] == kRfcHeaderMagic) return std::pair(Layout::kRfc, swap);
  }
  return std::nullopt;
}

ValueKind kind_of(const Argument& argument) {
  if (argument.kind == TypeKind::kPointer) return ValueKind::kPointer;
  return argument.kind == TypeKind::kSigned ? ValueKind::kSigned : ValueKind::kUnsigned;
}

}  // namespace

Reader::Reader(std::string path, std::shared_ptr<const UniqueFd> fd,
               const tracetool::EventFile& declarations)
    : path_(std::move(path)),
      fd_(std::move(fd)),
      buffer_(std::make_unique_for_overwrite<char[]>(kBuffer)),
      declarations_(&declarations) {
  for (const Event& event : declarations.events) by_name_.try_emplace(event.name, &event);
}

bool Reader::recognises(std::string_view first_bytes) { return layout_of(first_bytes).has_value(); }

Result<Reader> Reader::open(const std::string& path, const tracetool::EventFile& declarations) {
  UniqueFd fd = open_to_read(path);
  if (!fd) return fail("{}: cannot be opened: {}", path, std::strerror(errno));
  return read(std::make_shared<const UniqueFd>(std::move(fd)), path, declarations);
}

Result<Reader> Reader::read(std::shared_ptr<const UniqueFd> file, std::string name,
                            const tracetool::EventFile& declarations) {
  Reader reader(std::move(name), std::move(file), declarations);
  if (auto header = reader.read_header(); !header) return tl::unexpected(header.error());
  return reader;
}

Result<void> Reader::read_header() {
  if (!fill(sizeof(Header))) {
    if (auto readable = cut(); !readable) return tl::unexpected(readable.error());
    return fail(ErrorKind::kDamaged, "{}: too short for a simpletrace file", path_);
  }
  const auto found = layout_of({buffer_.get() + begin_, end_ - begin_});
  if (!found) {
    if (std::string_view(buffer_.get() + begin_, end_ - begin_).starts_with(kTraceDatMagic))
      return fail("{}: is not a simpletrace file but a trace.dat; trapline report reads it", path_);
    return fail(ErrorKind::kDamaged,
                "{}: is not a simpletrace file (its first bytes are neither QEMU's nor the RFC's)",
                path_);
  }
  std::tie(layout_, swap_) = *found;
  version_ = u64(16);
  const bool known = layout_ == Layout::kRfc ? version_ == kRfcVersion
                                             : version_ >= kOldestVersion && version_ <= kVersion;
  if (!known) {
    return fail(ErrorKind::kDamaged,
                "{}: a simpletrace file of version {} of the {} layout, which is not read; known "
                "are QEMU's 2 to 4 and the RFC's 1",
                path_, version_, layout_ == Layout::kRfc ? "RFC's" : "QEMU's");
  }
  if (layout_ == Layout::kRfc) {
    if (!fill(sizeof(RfcHeader))) {
      return fail(ErrorKind::kDamaged, "{}: cut off in its header", path_);
    }
    file_pid_ = static_cast<std::uint32_t>(u64(8));
  }
  // Event ids count all declared events in QEMU's layout, only compiled ones in the RFC's
  // (format.h).
  for (const Event& event : declarations_->events) {
    if (layout_ == Layout::kQemu || !event.disable) by_number_.push_back(&event);
  }
  take(layout_ == Layout::kRfc ? sizeof(RfcHeader) : sizeof(Header));
  return {};
}

bool Reader::fill(std::size_t bytes) {
  if (end_ - begin_ >= bytes) return true;
  if (bytes > kBuffer) return false;
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  while (end_ < bytes) {
    // Another reader may share the descriptor, hence pread; a pipe has no offset and needs read.
    ssize_t got = ::pread(fd_->get(), buffer_.get() + end_, kBuffer - end_,
                          static_cast<off_t>(offset_ + end_ - begin_));
    if (got < 0 && errno == ESPIPE) got = ::read(fd_->get(), buffer_.get() + end_, kBuffer - end_);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error_ = errno;
    if (got <= 0) return false;
    end_ += static_cast<std::size_t>(got);
  }
  return true;
}

void Reader::take(std::size_t bytes) {
  begin_ += bytes;
  offset_ += bytes;
}

std::uint64_t Reader::u64(std::size_t at) const {
  const std::uint64_t value = load({buffer_.get() + begin_, end_ - begin_}, at);
  return swap_ ? __builtin_bswap64(value) : value;
}

std::uint32_t Reader::u32(std::size_t at) const {
  std::uint32_t value = 0;
  std::memcpy(&value, buffer_.get() + begin_ + at, sizeof value);
  return swap_ ? __builtin_bswap32(value) : value;
}

tl::unexpected<Error> Reader::damaged(std::string_view what) const {
  return fail(ErrorKind::kDamaged, "{}: damaged at offset {}: {}", path_, offset_, what);
}

Result<bool> Reader::cut() {
  if (error_ != 0) return fail("{}: at offset {}: {}", path_, offset_, std::strerror(error_));
  cut_bytes_ = end_ - begin_;
  return false;
}

Result<bool> Reader::next(Record& record) {
  record = Record{false, 0, 0, 0, 0, {}, nullptr, std::move(record.values)};
  record.values.clear();
  return layout_ == Layout::kRfc ? next_rfc(record) : next_qemu(record);
}

Result<bool> Reader::read_mapping() {
  constexpr std::size_t kFixed = 8 + 8 + 4;
  if (!fill(kFixed)) return cut();
  const std::uint64_t id = u64(8);
  const std::uint32_t length = u32(16);
  if (length == 0 || length > kMaxName) return damaged("a name of impossible length");
  if (!fill(kFixed + length)) return cut();
  if (names_.size() >= kMaxMapped) return damaged("more names than events can have");
  names_[id].assign(buffer_.get() + begin_ + kFixed, length);
  take(kFixed + length);
  return true;
}

Result<bool> Reader::next_qemu(Record& record) {
  const std::size_t prefix = version_ >= 4 ? 8 : 0;
  while (prefix != 0) {
    if (!fill(8)) return cut();
    const std::uint64_t type = u64(0);
    if (type == kRecordEvent) break;
    if (type != kRecordMapping) return damaged("a record that is neither an event nor a name");
    auto mapped = read_mapping();
    if (!mapped || !*mapped) return mapped;
  }
  if (!fill(prefix + sizeof(RecordHeader))) return cut();
  record.id = u64(prefix);
  record.timestamp = u64(prefix + 8);
  const std::uint32_t length = u32(prefix + 16);
  record.pid = version_ >= 3 ? u32(prefix + 20) : 0;
  if (length < sizeof(RecordHeader) || length > kMaxRecord) {
    return damaged(fmt::format("a record of {} bytes", length));
  }
  if (!fill(prefix + length)) return cut();
  const std::size_t begin = prefix + sizeof(RecordHeader);
  const std::size_t end = prefix + length;
  if (record.id == kDroppedId) {
    if (end - begin < 8) return damaged("a record of dropped events without their number");
    record.dropped = true;
    record.count = u64(begin);
  } else {
    identify(record);
    if (!decode(record, begin, end)) {
      record.values.clear();
      ++undecoded_;
    }
  }
  take(end);
  return true;
}

void Reader::identify(Record& record) const {
  if (version_ >= 4 && layout_ == Layout::kQemu) {
    const auto name = names_.find(record.id);
    if (name == names_.end()) return;
    record.name = name->second;
    const auto event = by_name_.find(record.name);
    if (event != by_name_.end()) record.event = event->second;
  } else if (record.id < by_number_.size()) {
    record.event = by_number_[static_cast<std::size_t>(record.id)];
    record.name = record.event->name;
  }
}

// Decodes the arguments from `at` to `end` (offsets from begin_). They must fill this range
// exactly.
bool Reader::decode(Record& record, std::size_t at, std::size_t end) const {
  if (record.event == nullptr) return false;
  for (const Argument& argument : record.event->arguments) {
    Value value;
    if (argument.kind == TypeKind::kString) {
      if (end - at < 4) return false;
      const std::uint32_t length = u32(at);
      at += 4;
      if (end - at < length) return false;
      value.kind = ValueKind::kString;
      value.text = {buffer_.get() + begin_ + at, length};
      at += length;
    } else {
      if (end - at < 8) return false;
      value.kind = kind_of(argument);
      value.bits = u64(at);
      at += 8;
    }
    record.values.push_back(value);
  }
  return at == end;
}

Result<bool> Reader::next_rfc(Record& record) {
  if (!fill(sizeof(RfcEvent))) return cut();
  if (u64(0) != kRfcEventMagic) return damaged("no event begins here");
  record.id = u64(8);
  record.timestamp = u64(16);
  record.pid = file_pid_;
  const std::uint64_t count = u64(24);
  if (count > 64) return damaged(fmt::format("an event with {} arguments", count));
  std::size_t at = sizeof(RfcEvent);
  record.dropped = record.id == kDroppedId;
  if (!record.dropped) identify(record);
  bool fits = record.event != nullptr && record.event->arguments.size() == count;
  // Offsets, since the buffer may move while it is filled.
  std::vector<std::pair<std::size_t, std::size_t>> places;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!fill(at + 8)) return cut();
    const std::uint64_t size = u64(at);
    if (size > kMaxRecord || at + size > kMaxRecord) {
      return damaged(fmt::format("an argument of {} bytes", size));
    }
    at += 8;
    if (!fill(at + static_cast<std::size_t>(size))) return cut();
    places.emplace_back(at, static_cast<std::size_t>(size));
    at += static_cast<std::size_t>(size);
  }
  if (record.dropped && count == 1 && places[0].second == 8) record.count = u64(places[0].first);
  for (std::size_t i = 0; fits && i < count; ++i) {
    const Argument& argument = record.event->arguments[i];
    Value value;
    if (argument.kind == TypeKind::kString) {
      value.kind = ValueKind::kString;
      value.text = {buffer_.get() + begin_ + places[i].first, places[i].second};
    } else {
      fits = places[i].second == 8;
      value.kind = kind_of(argument);
      if (fits) value.bits = u64(places[i].first);
    }
    record.values.push_back(value);
  }
  if (!fits && !record.dropped) {
    record.values.clear();
    ++undecoded_;
  }
  take(at);
  return true;
}

namespace {

// Appends a text as Python's repr of a bytes object.
void append_bytes(std::string_view text, std::string& out) {
  const bool single = text.find('\'') != std::string_view::npos;
  const char quote = single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out.append("b").push_back(quote);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\')
      out.append("\\").push_back(c);
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (byte < 0x20 || byte >= 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  out += quote;
}

}  // namespace

std::string line_of(const Record& record, std::optional<std::uint64_t> previous) {
  const auto delta =
      static_cast<std::int64_t>(record.timestamp - previous.value_or(record.timestamp));
  const std::string name = record.dropped         ? "Dropped_Event"
                           : !record.name.empty() ? printable(record.name.substr(0, kMaxName))
                                                  : fmt::format("event_{}", record.id);
  std::string line =
      fmt::format("{} {:.3f} pid={}", name, static_cast<double>(delta) / 1000.0, record.pid);
  if (record.dropped) return line + fmt::format(" num_events_dropped=0x{:x}", record.count);
  if (record.event == nullptr || record.values.size() != record.event->arguments.size()) {
    return line + " (not declared as recorded)";
  }
  // With a blank at the end, like simpletrace.py of QEMU 10.
  if (record.values.empty()) return line + " ";
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    // An argument's declared name may be as long as its file, and every record would repeat it.
    const std::string_view argument = record.event->arguments[i].name;
    line += fmt::format(" {}=", printable(argument.substr(0, kMaxName)));
    const Value& value = record.values[i];
    if (value.kind == ValueKind::kString)
      append_bytes(value.text, line);
    else
      line += fmt::format("0x{:x}", value.bits);
  }
  return line;
}

}  // namespace trapline::simpletrace
