#include "merge/source/trace_dat/page_reader.h"

#include <algorithm>

#include "backend_ftrace/base/bytes.h"
#include "merge/source/trace_dat/compression.h"

namespace trapline::trace_dat {
namespace {

// A larger compressed block is damage: all CPUs together hold 64 MiB of them at most.
constexpr std::uint64_t kBuffersOfBlock = 32, kMostOfBlock = 1u << 20, kBlockFloorPages = 16;
constexpr std::size_t kBlockHead = 8;  // its compressed size and its size

}  // namespace

WholeBlocks whole_blocks(const File& file, const Extent& data, std::endian order) {
  WholeBlocks blocks{0, data.offset + sizeof(std::uint32_t), false};
  std::byte head[kBlockHead];
  if (!file.holds(data.offset, 4) || !file.read(data.offset, std::span(head).first(4)))
    return blocks;
  const auto count = load<std::uint32_t>(head, order);
  while (blocks.count < count && file.holds(blocks.end, kBlockHead) &&
         file.read(blocks.end, head)) {
    const std::uint64_t size = kBlockHead + load<std::uint32_t>(head, order);
    if (!file.holds(blocks.end, size)) break;
    blocks.end += size;
    ++blocks.count;
  }
  blocks.all = blocks.count == count;
  return blocks;
}

PageReader::PageReader(const File& file, const Extent& extent, std::uint32_t page_size,
                       std::size_t buffer_size, std::endian order)
    : file_(&file),
      extent_(extent),
      page_size_(page_size),
      order_(order),
      at_(extent.offset),
      end_(extent.offset + extent.size),
      buffer_size_(std::max<std::size_t>(buffer_size / page_size, 1) * page_size),
      largest_block_(std::max<std::uint64_t>(std::min(kBuffersOfBlock * buffer_size, kMostOfBlock),
                                             kBlockFloorPages * std::uint64_t{page_size})) {}

Result<std::span<const std::byte>> PageReader::next() {
  if (buffer_at_ == buffer_end_) {
    if (auto filled = refill(); !filled) return tl::unexpected(std::move(filled).error());
    if (buffer_end_ == 0) return std::span<const std::byte>();
  }
  // The last page of raw data may be cut off: what is there of it is walked as it is.
  const std::size_t size = std::min<std::size_t>(page_size_, buffer_end_ - buffer_at_);
  const std::span<const std::byte> page(buffer_.data() + buffer_at_, size);
  buffer_at_ += size;
  return page;
}

Result<void> PageReader::refill() {
  buffer_at_ = buffer_end_ = 0;
  if (kept_ != nullptr) {
    buffer_ = kept_->exchange(std::move(buffer_), filled_);
    filled_ = kept_->events();
  }
  if (extent_.compression != Compression::kNone) return refill_block();
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_size_, end_ - at_));
  if (buffer_.size() < size) buffer_.resize(size);
  if (auto read = file_->read(at_, std::span(buffer_).first(size)); !read) return read;
  at_ += size;
  buffer_end_ = size;
  return {};
}

Result<void> PageReader::start_blocks() {
  started_ = true;
  if (extent_.cut) {
    const WholeBlocks blocks = whole_blocks(*file_, extent_, order_);
    blocks_left_ = blocks.count;
    end_ = std::max(at_, blocks.end);
    at_ = std::min(at_ + sizeof(std::uint32_t), end_);
    return {};
  }
  std::byte count[4];
  if (extent_.size < sizeof count) {
    return fail(ErrorKind::kDamaged, "{}: damaged: compressed data of {} bytes at offset {}",
                file_->path(), extent_.size, extent_.offset);
  }
  if (auto read = file_->read(at_, count); !read) return read;
  at_ += sizeof count;
  // trace-cmd's size of compressed data leaves out this number.
  if (file_->holds(extent_.offset, extent_.size + sizeof count)) end_ += sizeof count;
  blocks_left_ = load<std::uint32_t>(count, order_);
  return {};
}

Result<void> PageReader::refill_block() {
  if (!started_) {
    if (auto start = start_blocks(); !start) return start;
  }
  while (blocks_left_ > 0 && buffer_end_ == 0) {
    if (auto read = read_block(); !read) return read;
  }
  // The size counted the number of blocks already (trace-cmd 3.3): nothing comes after them.
  if (blocks_left_ == 0) at_ = end_;
  return {};
}

Result<void> PageReader::read_block() {
  --blocks_left_;
  std::byte head[kBlockHead];
  const auto damaged = [&] {
    return fail(ErrorKind::kDamaged, "{}: damaged or cut off: the compressed block at offset {}",
                file_->path(), at_);
  };
  if (end_ - at_ < sizeof head) return damaged();
  if (auto read = file_->read(at_, head); !read) return read;
  const auto compressed_size = load<std::uint32_t>(head, order_);
  const auto size = load<std::uint32_t>(head + 4, order_);
  if (compressed_size > end_ - at_ - sizeof head || compressed_size > largest_block_ ||
      size > largest_block_ || size % page_size_ != 0 ||
      !is_plausible_ratio(compressed_size, size)) {
    return damaged();
  }
  block_.resize(compressed_size);
  buffer_.resize(size);
  if (auto read = file_->read(at_ + sizeof head, block_); !read) return read;
  const auto got = decompress(extent_.compression, block_, buffer_);
  if (!got || *got != size) return damaged();
  at_ += sizeof head + compressed_size;
  buffer_end_ = size;
  return {};
}

Result<void> PageReader::skip_to(double fraction) {
  const auto target =
      extent_.offset + static_cast<std::uint64_t>(fraction * static_cast<double>(extent_.size));
  if (extent_.compression == Compression::kNone) {
    const std::uint64_t pages = (target - extent_.offset) / page_size_;
    at_ = std::max(at_, std::min(extent_.offset + pages * page_size_, end_));
    buffer_at_ = buffer_end_ = 0;
    return {};
  }
  if (!started_) {
    if (auto start = start_blocks(); !start) return start;
  }
  while (blocks_left_ > 1 && at_ < target && end_ - at_ >= kBlockHead) {
    std::byte head[kBlockHead];
    if (auto read = file_->read(at_, head); !read) return read;
    const auto compressed_size = load<std::uint32_t>(head, order_);
    if (compressed_size > end_ - at_ - sizeof head) break;  // next() reports it
    at_ += sizeof head + compressed_size;
    --blocks_left_;
    buffer_at_ = buffer_end_ = 0;
  }
  return {};
}

}  // namespace trapline::trace_dat
