// The pages of one CPU, in order, from raw or compressed data, through one bounded buffer. A
// compressed block that does not decompress is passed over and counted; behind one whose size
// cannot be nothing can be found, so the rest of the CPU's data counts as damaged.
//
// Decompressing takes as long as what is done with the events. Where the process has several CPUs,
// a thread decompresses the blocks after those in hand.
#pragma once

#include <cstddef>
#include <future>
#include <span>
#include <utility>
#include <vector>

#include "merge/source/file.h"
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
  // `buffer_size` bounds what is read ahead of raw data; of compressed data twice that and two
  // blocks are held, each at most four times that (and 16 pages: trace-cmd's blocks have 10). Once
  // it is read from, it must not be moved.
  PageReader(const File& file, const Extent& extent, std::uint32_t page_size,
             std::size_t buffer_size, std::endian order = std::endian::little);

  // The next page, valid until the next call; empty at the end. Errors: the file cannot be read.
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
  // Bytes of the file consumed, for progress.
  [[nodiscard]] std::uint64_t consumed() const { return consumed_; }
  [[nodiscard]] std::uint64_t size() const { return end_ - extent_.offset; }
  // Returns the offset in the file of the page that next() returned last, or of its block.
  [[nodiscard]] std::uint64_t position() const { return page_at_; }

 private:
  // Decompressed. Without pages: the end, or what cannot be read.
  struct Block {
    std::vector<std::byte> pages;
    std::uint64_t at = 0, end = 0;  // in the file
    std::uint32_t left = 0;         // blocks from here on
    Damaged damaged;                // passed over before it
    Result<void> status;
  };
  using Blocks = std::vector<Block>;

  [[nodiscard]] Result<void> refill();
  [[nodiscard]] Block& next_block();
  [[nodiscard]] Blocks read_blocks(Blocks blocks);
  [[nodiscard]] Result<void> read_block(Block& block);
  [[nodiscard]] Result<void> try_block(Block& block);
  [[nodiscard]] Result<void> start_blocks();
  void lose_rest(Block& block);
  void pass_over(Block& block, std::uint64_t pages) const;

  const File* file_;
  Extent extent_;
  std::uint32_t page_size_;
  std::endian order_;
  std::uint64_t at_;  // file offset of the next refill
  std::uint64_t end_;
  std::uint32_t blocks_left_ = 0;
  bool started_ = false;
  std::uint64_t consumed_ = 0;
  std::vector<std::byte> buffer_;
  std::vector<std::byte> compressed_;
  Blocks blocks_;  // those after buffer_'s are from ahead_ on
  std::size_t ahead_ = 0;
  Damaged damaged_;
  std::uint64_t page_at_ = 0;
  std::vector<std::byte> peeked_;  // a page of raw data beyond the buffer
  std::size_t buffer_size_;
  std::uint64_t largest_block_;
  std::size_t buffer_at_ = 0;
  std::size_t buffer_end_ = 0;
  // The blocks after blocks_. While it is valid, what read_blocks() writes is not ours; the last
  // member, since its end waits for the thread.
  std::future<Blocks> coming_;
};

}  // namespace trapline::trace_dat
