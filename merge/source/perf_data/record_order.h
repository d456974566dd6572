// Orders records by time. perf writes the ring buffers of all CPUs one after the other, in rounds.
// A record after the end of a round is not older than the newest record of the round before, so two
// rounds must be stored:
//
//   add() ──> runs, each in order: one for each CPU and round ──> end_round(): sorted ──> next()
//               └─ more than memory is to hold ──> spill(): one run, in a temporary file
//
// Guarantees: items come in order of time, those of equal times in the order of add(). If spill()
// is called whenever is_full(), blocks and items take at most kMemory. Each spilled run has a
// buffer; kMergeAt spilled runs that were merged equally often become one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "merge/source/merge_heap.h"
#include "merge/source/perf_data/record_reader.h"

namespace trapline::perf_data {

// A record that waits for its turn. `data` is borrowed from a block or from a run that is read
// back.
struct Item {
  enum class Kind : std::uint8_t { kEvent, kLoss, kThread };
  std::uint64_t time = 0;
  std::byte* data = nullptr;
  Block* block = nullptr;  // the block of `data`; null: `data` is in a run
  std::uint32_t size = 0;
  std::uint16_t cpu = 0;
  Kind kind = Kind::kEvent;
};

// A temporary file without a name, for items that memory has no room for: runs of items in order of
// time, written once and read from first to last.
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

class RecordOrder {
 public:
  static constexpr std::size_t kMemory = 24u << 20;
  static constexpr std::size_t kMergeAt = 32;

  // Borrows the pool. `memory` is in bytes, for tests.
  explicit RecordOrder(BlockPool& pool, std::size_t memory = kMemory)
      : pool_(pool), memory_(memory) {}

  // Returns the limit: next() has returned all items up to this time, so no earlier one may be
  // added.
  [[nodiscard]] std::uint64_t limit() const { return limit_; }
  // Adds an item. Holds its block until next() is called once more after returning the item.
  void add(const Item& item) {
    if (items_.size() == sorted_ || item.time < items_.back().time) [[unlikely]]
      runs_.push_back(items_.size());
    items_.push_back(item);
    pool_.hold(item.block);
    newest_ = std::max(newest_, item.time);
  }
  // Call these, and spill(), when next() has returned false.
  void end_round();
  void end();  // after the last add()

  // Returns the earliest item in `item`; false if no item's time is at or before limit().
  [[nodiscard]] bool next(Item& item) {
    if (is_out_) [[likely]]
      pool_.release(items_[at_++].block);
    is_out_ = false;
    if (!spilled_.empty()) [[unlikely]]
      return next_of_all(item);
    return next_in_memory(item);
  }

  [[nodiscard]] bool is_full() const {
    // Sorting takes as much memory again.
    const std::size_t all = items_.size() * sizeof(items_[0]) + runs_.size() * sizeof(runs_[0]);
    return pool_.bytes_in_use() + 2 * all > memory_;
  }
  // Moves all items in memory to the temporary file. Errors: the file cannot be written.
  [[nodiscard]] Result<void> spill();
  // Returns the state of the temporary file.
  [[nodiscard]] const Result<void>& status() const { return file_.status(); }

 private:
  struct Spilled {
    std::unique_ptr<SpillFile::Run> run;  // null: all its items were returned
    unsigned level = 0;                   // how often its items were merged
  };
  [[nodiscard]] bool next_in_memory(Item& item) {
    if (at_ == sorted_ || items_[at_].time > limit_) return false;
    item = items_[at_];
    is_out_ = true;
    // Items wait so long that their bytes are no longer in the processor's caches.
    __builtin_prefetch(items_[std::min(at_ + kAhead, sorted_ - 1)].data);
    return true;
  }
  [[nodiscard]] bool next_of_all(Item& item);
  void sort();
  void advance(MergeHeap& heap, std::size_t number);
  [[nodiscard]] MergeHeap heap_of(std::size_t first) const;
  [[nodiscard]] Result<void> finish_run(unsigned level);

  static constexpr std::size_t kNone = ~std::size_t{0};
  static constexpr std::size_t kAhead = 6;

  BlockPool& pool_;
  std::size_t memory_;
  std::vector<Item> items_;  // next() has returned those before at_; those before sorted_ are
  std::size_t at_ = 0;       // in order, the others were added since
  std::size_t sorted_ = 0;
  std::vector<std::size_t> runs_;  // where the runs of items in order begin, from sorted_ on
  bool is_out_ = false;            // items_[at_] is what next() returned last
  std::vector<Spilled> spilled_;   // in the order in which they were added
  MergeHeap heap_;                 // the runs of spilled_, but for current_
  std::size_t current_ = kNone;    // the run whose item next() returned last
  // `of_round_`: the time of the newest item added before the last end_round().
  std::uint64_t limit_ = 0, newest_ = 0, of_round_ = 0;
  SpillFile file_;
};

}  // namespace trapline::perf_data
