#include "merge/source/perf_data/record_reader.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "backend_ftrace/base/bytes.h"

namespace trapline::perf_data {
namespace {

// zstd's levels up to 19 need a window of 8 MiB; perf's default level needs 0.5 MiB.
constexpr int kLargestWindowLog = 23;

// Since Linux 6.16 perf rounds the size of a COMPRESSED2 record up to a multiple of 8, and a size
// of 65,536 or more loses its upper bits. perf's own reader stops there too.
constexpr std::string_view kSizeOverflown =
    "a COMPRESSED2 record of 64 KiB or more, whose size perf cannot write; record without -z";

// The alignment of records, in bytes: most sizes are multiples of 8, but TRACING_DATA has 12 bytes.
constexpr std::size_t kAlign = 4;

// Returns the size of a record that begins with these bytes; 0 if perf writes no record with such a
// type and size.
std::size_t record_size(const std::byte* at) {
  constexpr std::uint32_t kKernels = 31, kFirstOfPerf = 64, kLastOfPerf = 95;
  const auto type = load<std::uint32_t>(at);
  const auto size = load<std::uint16_t>(at + 6);
  const bool known = type - 1 < kKernels || (type >= kFirstOfPerf && type <= kLastOfPerf);
  const bool fits = size % kAlign == 0 || static_cast<RecordType>(type) == RecordType::kCompressed;
  return known && fits && size >= kRecordHeader ? size : 0;
}

}  // namespace

RecordReader::RecordReader(const File& file, BlockPool& pool, std::uint64_t begin,
                           std::uint64_t end)
    : file_(file), pool_(pool), begin_(begin), read_to_(begin), end_(end) {}

RecordReader::~RecordReader() {
  for (const Window* window : {&outer_, &inner_})
    if (window->block != nullptr) pool_.release(window->block);
}

bool RecordReader::damaged(std::string_view what) {
  status_ = fail(ErrorKind::kDamaged,
                 "{}: damaged or cut off at offset {}: {}; what comes before is read", file_.path(),
                 position(), what);
  return false;
}

// Goes on behind bytes that cannot be a record; false if no records follow.
bool RecordReader::skip_damage() {
  constexpr int kChain = 8;
  constexpr std::size_t kAhead = Block::kSize / 2;
  const std::uint64_t from = position();
  const Result<void> damage = std::exchange(status_, {});
  // A record begins at a multiple of kAlign from the first one.
  for (std::size_t step = kAlign - (from - begin_) % kAlign;; step = kAlign) {
    const bool at_end = read_to_ >= std::min(end_, file_.size());
    if (outer_.left() < kAhead && !at_end && !read_more()) return false;
    if (outer_.left() < step + kRecordHeader) break;
    outer_.at += step;
    std::size_t next = outer_.at;
    int records = 0;
    for (; records < kChain && outer_.filled - next >= kRecordHeader; ++records) {
      const std::size_t size = record_size(outer_.block->bytes.get() + next);
      if (size == 0 || size > outer_.filled - next) break;
      next += size;
    }
    if (records < kChain && !(at_end && records != 0 && next == outer_.filled)) continue;
    skipped_ += position() - from;
    return true;
  }
  status_ = damage;
  return false;
}

// Moves the remaining bytes to a new block and returns the room after them.
std::span<std::byte> RecordReader::make_room(Window& window) {
  Block* next = pool_.take();
  const std::size_t left = window.left();
  if (window.block != nullptr) {
    std::memcpy(next->bytes.get(), window.block->bytes.get() + window.at, left);
    pool_.release(window.block);
  }
  window = {next, 0, left};
  return {next->bytes.get() + left, Block::kSize - left};
}

// Returns the next record of the window in `record`; false if the window has no whole one.
bool RecordReader::take(Window& window, Record& record) {
  if (window.left() < kRecordHeader) return false;
  std::byte* at = window.block->bytes.get() + window.at;
  const auto size = load<std::uint16_t>(at + 6);
  if (size < kRecordHeader) [[unlikely]] {
    const auto type = static_cast<RecordType>(load<std::uint32_t>(at));
    return damaged(size == 0 && type == RecordType::kCompressed2 ? kSizeOverflown
                                                                 : "a record of less than 8 bytes");
  }
  if (&window == &outer_ && !stream_ && record_size(at) == 0) [[unlikely]]
    return damaged("bytes that are no record");
  if (size > window.left()) return false;
  record.type = static_cast<RecordType>(load<std::uint32_t>(at));
  record.misc = load<std::uint16_t>(at + 4);
  record.bytes = {at, size};
  record.block = window.block;
  window.at += size;
  return true;
}

bool RecordReader::read_more() {
  const std::uint64_t there = std::min(end_, file_.size());
  if (read_to_ >= there) {
    if (outer_.left() != 0) return damaged("the last record is not whole");
    if (there < end_) return damaged("the file is shorter than its header says");
    if (inner_.left() != 0) return damaged("the last compressed record is not whole");
    return false;
  }
  const auto room = make_room(outer_);
  const auto size =
      static_cast<std::size_t>(std::min<std::uint64_t>(room.size(), there - read_to_));
  if (auto read = file_.read(read_to_, room.first(size)); !read) {
    status_ = std::move(read);
    return false;
  }
  read_to_ += size;
  outer_.filled += size;
  return true;
}

// Decompresses more of the COMPRESSED record; false if it is used up or damaged.
bool RecordReader::decompress_more() {
  if (compressed_.empty() && !inner_full_) return false;
  if (!stream_) {
    stream_.reset(ZSTD_createDCtx());
    if (!stream_) return damaged("no memory to decompress with");
    (void)ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kLargestWindowLog);
  }
  const auto room = make_room(inner_);
  ZSTD_inBuffer in{compressed_.data(), compressed_.size(), 0};
  ZSTD_outBuffer out{room.data(), room.size(), 0};
  const std::size_t done = ZSTD_decompressStream(stream_.get(), &out, &in);
  if (ZSTD_isError(done) != 0)
    return damaged(fmt::format("its compressed records: {}", ZSTD_getErrorName(done)));
  compressed_bytes_ += in.pos;
  plain_bytes_ += out.pos;
  if (!trace_dat::is_plausible_ratio(compressed_bytes_, plain_bytes_))
    return damaged("its compressed records hold more than can be");
  if (in.pos == 0 && out.pos == 0) return damaged("its compressed records do not go on");
  compressed_ = compressed_.subspan(in.pos);
  inner_full_ = out.pos == room.size();
  inner_.filled += out.pos;
  return true;
}

// Skips the bytes that follow an AUXTRACE or TRACING_DATA record and are not part of any record.
bool RecordReader::skip_payload(Record& record, std::uint64_t size) {
  record.payload_at = position();
  record.payload_size = size;
  const std::uint64_t there = std::min(end_, file_.size());
  if (size > there - std::min(there, record.payload_at)) return damaged("the file ends in it");
  if (size <= outer_.left()) {
    outer_.at += static_cast<std::size_t>(size);
    return true;
  }
  read_to_ = record.payload_at + size;
  outer_.at = outer_.filled;
  return true;
}

// Handles a record that was not in a COMPRESSED record. Returns true if next() shall return it;
// false if nothing is left to do for it, or if it is damaged.
bool RecordReader::on_outer(Record& record) {
  const auto body = record.bytes.subspan(kRecordHeader);
  switch (record.type) {
    case RecordType::kCompressed:
      compressed_ = body;
      return false;
    case RecordType::kCompressed2: {
      if (body.size() < 8) return damaged("a compressed record without its size");
      const auto size = load<std::uint64_t>(body.data());
      if (size > body.size() - 8) return damaged(kSizeOverflown);
      compressed_ = body.subspan(8, static_cast<std::size_t>(size));
      return false;
    }
    case RecordType::kAuxtrace:
      if (body.size() < 8) return damaged("an AUXTRACE record without its size");
      return skip_payload(record, load<std::uint64_t>(body.data()));
    case RecordType::kTracingData: {
      if (body.size() < 4) return damaged("a TRACING_DATA record without its size");
      const auto size = load<std::uint32_t>(body.data());
      if (!skip_payload(record, (std::uint64_t{size} + 7) & ~std::uint64_t{7})) return false;
      record.payload_size = size;
      return true;
    }
    default:
      return true;
  }
}

bool RecordReader::next(Record& record) {
  while (status_) {
    if (is_compressed()) [[unlikely]] {
      if (take(inner_, record)) return true;
      if (!status_) break;
      if (decompress_more()) continue;
      if (!status_) break;
    }
    if (take(outer_, record)) {
      if (record.type == RecordType::kSample || on_outer(record)) return true;
      continue;
    }
    if (status_ && read_more()) continue;
    if (status_ || stream_ || !skip_damage()) break;
  }
  return false;
}

}  // namespace trapline::perf_data
