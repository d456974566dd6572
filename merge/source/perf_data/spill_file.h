// A temporary file without a name, for items that memory has no room for: runs of items in order of
// time, written once and read from first to last.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline::perf_data {

// A record that waits for its turn. `data` is borrowed from a block or from a run that is read
// back.
struct Item {
  enum class Kind : std::uint8_t { kEvent, kLoss, kThread };
  std::uint64_t time = 0;
  std::byte* data = nullptr;
  struct Block* block = nullptr;  // the block of `data`; null: `data` is in a run
  std::uint32_t size = 0;
  std::uint16_t cpu = 0;
  Kind kind = Kind::kEvent;
};

class SpillFile {
 public:
  // Reads a run from its first item on. An item's data stays valid until the next advance().
  class Run {
   public:
    static constexpr std::size_t kBuffer = 128u << 10;  // bytes; an item has at most 64 KiB
    Run(SpillFile& file, std::uint64_t begin, std::uint64_t end);
    // Moves to the next item; false at the end and if the file cannot be read.
    [[nodiscard]] bool advance();
    [[nodiscard]] const Item& item() const { return item_; }

   private:
    [[nodiscard]] bool fill(std::size_t needed);

    SpillFile& file_;
    std::uint64_t next_, end_;  // file offsets of what is not in the buffer yet
    std::vector<std::byte> buffer_;
    std::size_t at_ = 0, filled_ = 0;
    Item item_;
  };

  // Appends an item to the current run, which finish_run() ends.
  void add(const Item& item);
  [[nodiscard]] Result<std::unique_ptr<Run>> finish_run();
  // Gives back the file's room on the disk. Call it when no run is needed any more.
  void clear();
  [[nodiscard]] const Result<void>& status() const { return status_; }

 private:
  void flush();

  UniqueFd fd_;
  std::vector<std::byte> buffer_;
  std::uint64_t run_begin_ = 0, end_ = 0;
  Result<void> status_;
};

}  // namespace trapline::perf_data
