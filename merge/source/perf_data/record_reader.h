// Reads the records of a perf.data one by one and decompresses them. A record that the end of the
// file cuts off ends the reading with an error; all records before are good. Bytes that cannot be a
// record are skipped, up to the next eight records in a row. In a compressed stream, where nothing
// shows a record's beginning, they end the reading.
//
//   file ──> block: records ──────────────────────────────┐
//                    └─ COMPRESSED ─> zstd ─> block: records ─> next()
//
// The compressed records of a file are one zstd stream: a record may begin in one of them and end
// in the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/source/file.h"
#include "merge/source/perf_data/sample.h"
#include "merge/source/trace_dat/compression.h"

namespace trapline::perf_data {

// A block of memory for the bytes of records. It stays as long as one of its records is held, so
// records can wait for their turn without a copy.
struct Block {
  static constexpr std::size_t kSize = 256u << 10;  // a record has at most 64 KiB
  std::unique_ptr<std::byte[]> bytes = std::make_unique_for_overwrite<std::byte[]>(kSize);
  std::uint32_t holders = 0;
};

class BlockPool {
 public:
  // Returns a block that the caller holds.
  [[nodiscard]] Block* take() {
    if (free_.empty()) free_.push_back(blocks_.emplace_back(std::make_unique<Block>()).get());
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

struct Record {
  RecordType type{};
  std::uint16_t misc = 0;
  std::span<std::byte> bytes;  // includes the header; points into `block`
  Block* block = nullptr;      // hold the block to use the bytes later
  // For TRACING_DATA in a file made from a pipe: where the payload is in the file.
  std::uint64_t payload_at = 0, payload_size = 0;
};

class RecordReader {
 public:
  // Reads from `begin` to `end`, which may be after the end of a file that was cut off. Borrows
  // `file` and `pool`.
  RecordReader(const File& file, BlockPool& pool, std::uint64_t begin, std::uint64_t end);
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;
  ~RecordReader();

  // Reads the next record; false at the end and on damage. The record's bytes stay valid until the
  // next call, or as long as their block is held.
  [[nodiscard]] bool next(Record& record);
  [[nodiscard]] const Result<void>& status() const { return status_; }
  // Returns how many bytes were skipped since the last call.
  [[nodiscard]] std::uint64_t take_skipped() { return std::exchange(skipped_, 0); }
  // Returns the offset in the file after the last record, or after the compressed record that
  // contained it.
  [[nodiscard]] std::uint64_t position() const { return read_to_ - outer_.left(); }

 private:
  // Bytes that were read and not yet returned.
  struct Window {
    Block* block = nullptr;
    std::size_t at = 0, filled = 0;
    [[nodiscard]] std::size_t left() const { return filled - at; }
  };
  [[nodiscard]] std::span<std::byte> make_room(Window& window);
  // Returns whether the last COMPRESSED record still has bytes, decompressed or not.
  [[nodiscard]] bool is_compressed() const {
    return inner_.left() != 0 || inner_full_ || !compressed_.empty();
  }
  [[nodiscard]] bool take(Window& window, Record& record);
  [[nodiscard]] bool read_more();
  [[nodiscard]] bool decompress_more();
  [[nodiscard]] bool on_outer(Record& record);
  [[nodiscard]] bool skip_payload(Record& record, std::uint64_t size);
  [[nodiscard]] bool skip_damage();
  bool damaged(std::string_view what);

  const File& file_;
  BlockPool& pool_;
  std::uint64_t begin_, read_to_, end_;
  std::uint64_t skipped_ = 0;
  Window outer_, inner_;
  std::span<const std::byte> compressed_;  // the rest of the compressed record
  bool inner_full_ = false;  // the last call filled the whole room, so there may be more
  trace_dat::ZstdContext stream_;
  std::uint64_t compressed_bytes_ = 0, plain_bytes_ = 0;
  Result<void> status_;
};

}  // namespace trapline::perf_data
