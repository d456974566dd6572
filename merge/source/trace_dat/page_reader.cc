#include "merge/source/trace_dat/page_reader.h"

#include <sched.h>

#include <algorithm>

#include "backend_ftrace/base/blocked_signals.h"
#include "backend_ftrace/base/bytes.h"
#include "merge/source/trace_dat/compression.h"

namespace trapline::trace_dat {
namespace {

// A compressed block counts as damaged if it exceeds 32 read-ahead buffers or 1 MiB, but 16 pages
// are always allowed. All CPUs' buffers have 2 MiB together, so one block of each CPU takes about
// 64 MiB at most.
constexpr std::uint64_t kBuffersOfBlock = 32, kMostOfBlock = 1u << 20, kBlockFloorPages = 16;
constexpr std::size_t kBlockHead = 8;  // bytes: a block's compressed size and its size, u32 each
// With smaller buffers, a thread does not pay: it costs as much as decompressing some tens of KiB.
constexpr std::size_t kLeastForThread = 128u << 10;

std::launch launch_for(std::size_t buffer_size) {
  cpu_set_t cpus;
  const bool is_alone = ::sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) == 1;
  // With both flags, std::async() does without a thread if none can be started.
  return is_alone || buffer_size < kLeastForThread ? std::launch::deferred
                                                   : std::launch::async | std::launch::deferred;
}

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
  // The last page of raw data may be cut off; the part that exists is returned.
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
  if (extent_.compression != Compression::kNone) return first_of(next_block().pages);
  peeked_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(page_size_, end_ - at_)));
  return file_->read(at_, peeked_) ? first_of(peeked_) : first_of({});
}

Result<void> PageReader::refill() {
  buffer_at_ = buffer_end_ = 0;
  if (extent_.compression != Compression::kNone) {
    Block& block = next_block();
    if (!block.status) return block.status;
    damaged_ = std::exchange(block.damaged, {});
    consumed_ = block.end - extent_.offset;
    if (block.pages.empty()) return {};
    std::swap(buffer_, block.pages);
    buffer_end_ = buffer_.size();
    page_at_ = block.at;
    ++ahead_;
    return {};
  }
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_size_, end_ - at_));
  if (buffer_.size() < size) buffer_.resize(size);
  if (auto read = file_->read(at_, std::span(buffer_).first(size)); !read) return read;
  at_ += size;
  consumed_ = at_ - extent_.offset;
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
  if (extent_.size < sizeof count) return {};
  if (auto read = file_->read(at_, count); !read) return read;
  at_ += sizeof count;
  // trace-cmd's size of compressed data does not include the number of blocks.
  if (file_->holds(extent_.offset, extent_.size + sizeof count)) end_ += sizeof count;
  blocks_left_ = load<std::uint32_t>(count, order_);
  return {};
}

void PageReader::pass_over(Block& block, std::uint64_t pages) const {
  if (block.damaged.pages == 0) block.damaged.offset = at_;
  block.damaged.pages += std::max<std::uint64_t>(pages, 1);
}

// Counts the rest of the data as damaged. The number of its pages is not known: assumes one for
// each block or, if that is more, one for each page_size_ bytes.
void PageReader::lose_rest(Block& block) {
  pass_over(block, std::max((end_ - at_) / page_size_,
                            std::min<std::uint64_t>(blocks_left_, (end_ - at_) / kBlockHead)));
  at_ = end_;
  blocks_left_ = 0;
}

// Returns the block after the one that is in buffer_; the last block has no pages.
PageReader::Block& PageReader::next_block() {
  if (ahead_ < blocks_.size()) return blocks_[ahead_];
  ahead_ = 0;
  Blocks spare = std::exchange(blocks_, {});
  if (coming_.valid()) {
    blocks_ = coming_.get();
  } else {
    blocks_ = read_blocks({});
  }
  if (!blocks_.back().pages.empty()) {
    const BlockedSignals blocked;
    coming_ = std::async(
        launch_for(buffer_size_), [this](Blocks blocks) { return read_blocks(std::move(blocks)); },
        std::move(spare));
  }
  return blocks_.front();
}

// Reads blocks until they fill a buffer, or to the last, which has no pages. Reuses the memory of
// `blocks`.
PageReader::Blocks PageReader::read_blocks(Blocks blocks) {
  std::size_t count = 0;
  for (std::size_t size = 0; size < buffer_size_; size += blocks[count++].pages.size()) {
    if (count == blocks.size()) blocks.emplace_back();
    Block& block = blocks[count];
    block.status = read_block(block);
    if (block.left != 0) continue;
    block.pages.clear();
    size = buffer_size_;
  }
  blocks.resize(count);
  return blocks;
}

// Reads the next undamaged block. At the end, or if the file cannot be read, block.left is 0.
Result<void> PageReader::read_block(Block& block) {
  block.damaged = {};
  block.left = 0;
  if (!started_) {
    if (auto start = start_blocks(); !start) return start;
    if (extent_.size < sizeof(std::uint32_t) && !extent_.cut) lose_rest(block);
  }
  while (blocks_left_ > 0 && block.left == 0)
    if (auto read = try_block(block); !read) return read;
  if (block.left == 0) {
    // Four bytes are left if the size already included the number of blocks (trace-cmd 3.3). If
    // more than a block's head is left, the number of blocks was too small.
    if (end_ - at_ > kBlockHead) lose_rest(block);
    at_ = end_;
  }
  block.end = at_;
  return {};
}

Result<void> PageReader::try_block(Block& block) {
  std::byte head[kBlockHead];
  if (end_ - at_ < sizeof head) {
    lose_rest(block);
    return {};
  }
  if (auto read = file_->read(at_, head); !read) return read;
  const auto compressed_size = load<std::uint32_t>(head, order_);
  const auto size = load<std::uint32_t>(head + 4, order_);
  if (compressed_size > end_ - at_ - sizeof head || compressed_size > largest_block_) {
    lose_rest(block);
    return {};
  }
  const bool can_be =
      size <= largest_block_ && size % page_size_ == 0 && is_plausible_ratio(compressed_size, size);
  compressed_.resize(compressed_size);
  if (auto read = file_->read(at_ + sizeof head, compressed_); !read) return read;
  block.pages.resize(can_be ? size : 0);
  const auto got =
      can_be ? decompress(extent_.compression, compressed_, block.pages) : std::nullopt;
  if (!got || *got != size) {
    pass_over(block, block.pages.size() / page_size_);
  } else if (size != 0) {
    block.at = at_;
    block.left = blocks_left_;
  }
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
  if (extent_.size < sizeof(std::uint32_t)) return {};
  if (!started_) {
    if (auto start = start_blocks(); !start) return start;
  }
  // Goes back to the first block that was decompressed ahead: these blocks are read again.
  if (!blocks_.empty() && !next_block().pages.empty()) {
    coming_ = {};
    at_ = next_block().at;
    blocks_left_ = next_block().left;
    blocks_.clear();
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
