// Reads the pages of one CPU in order, from raw or compressed data, through one bounded buffer. A
// compressed block that cannot be decompressed is skipped and counted. If a block's size is
// impossible, nothing after it can be found, so the rest of the CPU's data counts as damaged.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "merge/source/file.h"
#include "merge/source/read_ahead.h"
#include "merge/source/trace_dat/layout.h"

namespace trapline::trace_dat {

// Says how many blocks of a CPU's compressed data the file has, and where the last of them ends.
struct WholeBlocks {
  std::uint32_t count = 0;
  std::uint64_t end = 0;
  bool all = false;  // no block is missing
};
[[nodiscard]] WholeBlocks whole_blocks(const File& file, const Extent& data, std::endian order);

class PageReader {
 public:
  // `buffer_size` limits the read-ahead of raw data, in bytes. Of compressed data, two blocks are
  // held, each at most four times as large (and 16 pages: trace-cmd's blocks have 10).
  PageReader(const File& file, const Extent& extent, std::uint32_t page_size,
             std::size_t buffer_size, std::endian order = std::endian::little);

  // Leaves pages that events point into to `kept` (borrowed) instead of overwriting them.
  void keep_buffers(KeptBuffers& kept) { kept_ = &kept; }
  // Returns the next page, valid until the next call; empty at the end. Errors: the file cannot be
  // read.
  [[nodiscard]] Result<std::span<const std::byte>> next();
  // Returns the page after it, valid until the next call; empty at the end or if it cannot be read.
  [[nodiscard]] std::span<const std::byte> peek();
  // Pages of skipped compressed blocks, and the offset of the first in the file.
  struct Damaged {
    std::uint64_t pages = 0, offset = 0;
  };
  // Returns those before the page that next() returned last, since the last call.
  [[nodiscard]] Damaged take_damaged() { return std::exchange(damaged_, {}); }
  // Continues at the first page at or after `fraction` (0 to 1) of the data.
  [[nodiscard]] Result<void> skip_to(double fraction);
  // Returns how many bytes of the file were read, for progress.
  [[nodiscard]] std::uint64_t consumed() const { return at_ - extent_.offset; }
  [[nodiscard]] std::uint64_t size() const { return end_ - extent_.offset; }
  // Returns the offset in the file of the page that next() returned last, or of its block.
  [[nodiscard]] std::uint64_t position() const { return page_at_; }

 private:
  [[nodiscard]] Result<void> refill();
  [[nodiscard]] Result<void> read_ahead();
  [[nodiscard]] Result<void> read_block();
  [[nodiscard]] Result<void> start_blocks();
  void lose_rest();
  void pass_over(std::uint64_t pages);

  const File* file_;
  Extent extent_;
  std::uint32_t page_size_;
  std::endian order_;
  std::uint64_t at_;  // file offset of the next refill
  std::uint64_t end_;
  std::uint64_t blocks_left_ = 0;
  bool started_ = false;
  KeptBuffers* kept_ = nullptr;
  std::uint64_t filled_ = 0;  // KeptBuffers::events() when the buffer was filled
  std::vector<std::byte> buffer_;
  std::vector<std::byte> block_;  // compressed
  std::vector<std::byte> ahead_;  // the block after the one in buffer_
  std::size_t ahead_end_ = 0;
  std::uint64_t ahead_at_ = 0;  // offset of that block in the file
  Damaged damaged_, damaged_ahead_;
  std::uint64_t page_at_ = 0;
  std::vector<std::byte> peeked_;  // a page of raw data beyond the buffer
  std::size_t buffer_size_;
  std::uint64_t largest_block_;
  std::size_t buffer_at_ = 0;
  std::size_t buffer_end_ = 0;
};

}  // namespace trapline::trace_dat
