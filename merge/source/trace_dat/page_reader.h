// Reads the pages of one CPU in order, from raw or compressed data, through one bounded buffer. A
// compressed block that does not decompress is skipped and counted. After a block whose size is
// impossible, no block can be found, so the rest of the CPU's data counts as damaged.
//
// Decompressing takes as long as processing the events. If the process may use several CPUs, a
// thread decompresses the next blocks meanwhile.
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
  // `buffer_size` is the size of the buffer for raw data, in bytes. Of compressed data, two such
  // buffers and two more blocks are held. A block may be as large as 32 buffers, up to 1 MiB, or
  // have 16 pages if that is more (trace-cmd's blocks have 10). A PageReader must not be moved
  // after the first call of next() or peek().
  PageReader(const File& file, const Extent& extent, std::uint32_t page_size,
             std::size_t buffer_size, std::endian order = std::endian::little);

  // Returns the next page, valid until the next call; empty at the end. Errors: the file cannot be
  // read.
  [[nodiscard]] Result<std::span<const std::byte>> next();
  // Returns the page that next() will return, valid until then; empty at the end and on an error.
  [[nodiscard]] std::span<const std::byte> peek();
  // The number of pages in skipped compressed blocks, and the file offset of the first such block.
  struct Damaged {
    std::uint64_t pages = 0, offset = 0;
  };
  // Returns the pages that were skipped just before the one that next() returned last, only once.
  [[nodiscard]] Damaged take_damaged() { return std::exchange(damaged_, {}); }
  // Continues at the first page at or after `fraction` (0 to 1) of the CPU's data.
  [[nodiscard]] Result<void> skip_to(double fraction);
  // Bytes of the file consumed, for progress.
  [[nodiscard]] std::uint64_t consumed() const { return consumed_; }
  [[nodiscard]] std::uint64_t size() const { return end_ - extent_.offset; }
  // Returns the offset in the file of the page that next() returned last, or of its block.
  [[nodiscard]] std::uint64_t position() const { return page_at_; }

 private:
  // A decompressed block. It has no pages at the end of the data and if the file cannot be read.
  struct Block {
    std::vector<std::byte> pages;
    std::uint64_t at = 0, end = 0;  // in the file
    std::uint32_t left = 0;         // number of blocks from this one to the last
    Damaged damaged;                // skipped blocks before this one
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
  Blocks blocks_;  // decompressed; from ahead_ on, blocks that come after buffer_
  std::size_t ahead_ = 0;
  Damaged damaged_;
  std::uint64_t page_at_ = 0;
  std::vector<std::byte> peeked_;  // a page of raw data beyond the buffer
  std::size_t buffer_size_;
  std::uint64_t largest_block_;
  std::size_t buffer_at_ = 0;
  std::size_t buffer_end_ = 0;
  // The blocks after those in blocks_, while a thread decompresses them. Until get() the thread
  // owns what read_blocks() writes. The last member, since its destructor waits for the thread.
  std::future<Blocks> coming_;
};

}  // namespace trapline::trace_dat
