// A temporary file without a name, for what waits longer than memory is to hold it: runs of items
// in order of time, written once and read back from their first to their last.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline::perf_data {

// A record on its way to its turn. `data` is borrowed: of a block, or of a run that is read back.
struct Item {
  enum class Kind : std::uint8_t { kEvent, kLoss, kThread, kCode };
  std::uint64_t time = 0;
  std::byte* data = nullptr;
  struct Block* block = nullptr;  // that `data` holds; none: a run's
  std::uint32_t size = 0;
  std::uint16_t cpu = 0;
  Kind kind = Kind::kEvent;
};

class SpillFile {
 public:
  // One run, from its first item on; each item's data stays until the next advance().
  class Run {
   public:
    static constexpr std::size_t kBuffer = 128u << 10;  // an item has at most 64 KiB
    Run(SpillFile& file, std::uint64_t begin, std::uint64_t end);
    // False at the end, and where the file cannot be read.
    [[nodiscard]] bool advance();
    [[nodiscard]] const Item& item() const { return item_; }

   private:
    [[nodiscard]] bool fill(std::size_t needed);

    SpillFile& file_;
    std::uint64_t next_, end_;  // of what is not in the buffer
    std::vector<std::byte> buffer_;
    std::size_t at_ = 0, filled_ = 0;
    Item item_;
  };

  // Appends one item to the run that begins where the last one ended.
  void add(const Item& item);
  // Ends the run.
  [[nodiscard]] Result<std::unique_ptr<Run>> finish_run();
  // Gives back the room: nothing of the file is needed any more.
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
