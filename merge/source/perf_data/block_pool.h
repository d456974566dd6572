// Memory for the bytes of records, in blocks: a block stays as long as a record in it is held, so
// that records wait for their turn where they were read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace trapline::perf_data {

struct Block {
  static constexpr std::size_t kSize = 256u << 10;  // a record has at most 64 KiB
  std::unique_ptr<std::byte[]> bytes = std::make_unique_for_overwrite<std::byte[]>(kSize);
  std::uint32_t holders = 0;
};

class BlockPool {
 public:
  // With one holder: the caller.
  [[nodiscard]] Block* take() {
    if (free_.empty()) {
      free_.push_back(blocks_.emplace_back(std::make_unique<Block>()).get());
    }
    Block* block = free_.back();
    free_.pop_back();
    block->holders = 1;
    return block;
  }
  void hold(Block* block) { ++block->holders; }
  void release(Block* block) {
    if (--block->holders == 0) free_.push_back(block);
  }
  [[nodiscard]] std::size_t bytes_in_use() const {
    return (blocks_.size() - free_.size()) * Block::kSize;
  }

 private:
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> free_;
};

}  // namespace trapline::perf_data
