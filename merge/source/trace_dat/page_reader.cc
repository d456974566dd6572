#include "merge/source/trace_dat/page_reader.h"

#include <algorithm>

#include "backend_ftrace/base/bytes.h"
#include "merge/source/trace_dat/compression.h"

namespace trapline::trace_dat {
namespace {

// A larger compressed block is damaged. All CPUs together hold at most 64 MiB of blocks.
constexpr std::uint64_t kBuffersOfBlock = 32, kMostOfBlock = 1u << 20, kBlockFloorPages = 16;
constexpr std::size_t kBlockHead = 8;  // compressed size and size

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
  // The last page of raw data may be cut off; what exists of it is walked.
  const std::size_t size = std::min<std::size_t>(page_size_, buffer_end_ - buffer_at_);
  const std::span<const std::byte> page(buffer_.data() + buffer_at_, size);
  if (extent_.compression == Compression::kNone) page_at_ = at_ - (buffer_end_ - buffer_at_);
  buffer_at_ += size;
  return page;
}

std::span<const std::byte> PageReader::peek() {
  const auto first_of = [this](std::span<const std::byte> pages) {
    return pages.first(std::min<std::size_t>(page_size_, pages.size()));
  };
  if (buffer_at_ < buffer_end_)
    return first_of(std::span(buffer_).subspan(buffer_at_, buffer_end_ - buffer_at_));
  if (extent_.compression != Compression::kNone)
    return read_ahead() ? first_of(std::span(ahead_).first(ahead_end_)) : first_of({});
  peeked_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(page_size_, end_ - at_)));
  return file_->read(at_, peeked_) ? first_of(peeked_) : first_of({});
}

Result<void> PageReader::refill() {
  buffer_at_ = buffer_end_ = 0;
  if (kept_ != nullptr) {
    buffer_ = kept_->exchange(std::move(buffer_), filled_);
    filled_ = kept_->events();
  }
  if (extent_.compression != Compression::kNone) {
    if (auto read = read_ahead(); !read) return read;
    std::swap(buffer_, ahead_);
    buffer_end_ = std::exchange(ahead_end_, 0);
    page_at_ = ahead_at_;
    damaged_ = std::exchange(damaged_ahead_, {});
    return {};
  }
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
    lose_rest();
    return {};
  }
  if (auto read = file_->read(at_, count); !read) return read;
  at_ += sizeof count;
  // trace-cmd's size of compressed data does not include this number.
  if (file_->holds(extent_.offset, extent_.size + sizeof count)) end_ += sizeof count;
  blocks_left_ = load<std::uint32_t>(count, order_);
  return {};
}

void PageReader::pass_over(std::uint64_t pages) {
  if (damaged_ahead_.pages == 0) damaged_ahead_.offset = at_;
  damaged_ahead_.pages += std::max<std::uint64_t>(pages, 1);
}

// Skips the rest of the CPU's data. How many pages it has is not known; the count assumes one per
// block and one per page size of bytes.
void PageReader::lose_rest() {
  pass_over(std::max((end_ - at_) / page_size_, std::min(blocks_left_, (end_ - at_) / kBlockHead)));
  at_ = end_;
  blocks_left_ = 0;
}

// Reads the next good block into ahead_; ahead_end_ is 0 at the end.
Result<void> PageReader::read_ahead() {
  if (!started_) {
    if (auto start = start_blocks(); !start) return start;
  }
  while (blocks_left_ > 0 && ahead_end_ == 0) {
    if (auto read = read_block(); !read) return read;
  }
  if (ahead_end_ != 0) return {};
  // start_blocks() adds the bytes of the number of blocks to the size. In trace-cmd 3.3 the size
  // already includes them, so as many bytes are left that are no block. If more than a block's head
  // is left, there are blocks that the number does not count.
  if (end_ - at_ > kBlockHead) lose_rest();
  at_ = end_;
  return {};
}

Result<void> PageReader::read_block() {
  std::byte head[kBlockHead];
  if (end_ - at_ < sizeof head) {
    lose_rest();
    return {};
  }
  if (auto read = file_->read(at_, head); !read) return read;
  const auto compressed_size = load<std::uint32_t>(head, order_);
  const auto size = load<std::uint32_t>(head + 4, order_);
  if (compressed_size > end_ - at_ - sizeof head || compressed_size > largest_block_) {
    lose_rest();
    return {};
  }
  const bool can_be =
      size <= largest_block_ && size % page_size_ == 0 && is_plausible_ratio(compressed_size, size);
  block_.resize(compressed_size);
  ahead_.resize(can_be ? size : 0);
  if (auto read = file_->read(at_ + sizeof head, block_); !read) return read;
  const auto got = can_be ? decompress(extent_.compression, block_, ahead_) : std::nullopt;
  if (got && *got == size)
    ahead_end_ = size;
  else
    pass_over(ahead_.size() / page_size_);
  ahead_at_ = at_;
  at_ += sizeof head + compressed_size;
  --blocks_left_;
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
  if (ahead_end_ != 0) {
    ahead_end_ = 0;
    at_ = ahead_at_;
    ++blocks_left_;
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
