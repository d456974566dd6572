// Orders records by time. perf writes the ring buffers of all CPUs one after the other, in rounds.
// A record after the end of a round is not older than the newest record of the round before, so two
// rounds must be stored:
//
//   add() ──> lanes, each in order: one for each CPU and round ──> end_round() ──> next()
//               └─ more than memory is to hold ──> spill(): one lane, in a temporary file
//
// Guarantees: items come in order of time, those of equal times in the order of add(). If spill()
// is called whenever is_full(), blocks and items take at most kMemory. Each spilled lane has a
// buffer; kMergeAt spilled lanes that were merged equally often become one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "merge/source/merge_heap.h"
#include "merge/source/perf_data/record_reader.h"
#include "merge/source/perf_data/spill_file.h"

namespace trapline::perf_data {

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
    if (open_ == nullptr || item.time < open_->back().time) [[unlikely]]
      open_lane();
    open_->push_back(item);
    pool_.hold(item.block);
    ++items_;
    if (item.time > newest_) newest_ = item.time;
  }
  void end_round();
  void end();  // call it after the last add()

  // Returns the earliest item in `item`; false if no item's time is at or before limit().
  [[nodiscard]] bool next(Item& item) {
    if (run_ == run_end_) return next_lane(item);
    const Item& after = *(run_ + 1);
    if (after.time > limit_ || !heap_.is_before_top(current_, after.time)) return next_lane(item);
    pool_.release(run_->block);
    --items_;
    item = *++run_;
    // Items wait so long that their bytes are no longer in the processor's caches.
    __builtin_prefetch((run_ + std::min<std::ptrdiff_t>(kAhead, run_end_ - run_))->data);
    return true;
  }

  [[nodiscard]] bool is_full() const {
    constexpr std::size_t kLane = sizeof(Lane) + 64;  // with the least memory that its vector takes
    return pool_.bytes_in_use() + items_ * sizeof(Item) + lanes_.size() * kLane > memory_;
  }
  // Moves all lanes in memory to the temporary file. Call it when next() has returned false.
  // Errors: the file cannot be written.
  [[nodiscard]] Result<void> spill();
  // Returns the state of the temporary file.
  [[nodiscard]] const Result<void>& status() const { return file_.status(); }

 private:
  struct Lane {
    std::vector<Item> items;
    std::size_t at = 0;
    std::unique_ptr<SpillFile::Run> spilled;  // set: `items` is empty
    unsigned level = 0;                       // how often its items were merged
    bool ended = false;
    [[nodiscard]] const Item& head() const { return spilled ? spilled->item() : items[at]; }
  };
  [[nodiscard]] Lane& lane(std::size_t number) { return lanes_[number - first_]; }
  [[nodiscard]] bool next_lane(Item& item);
  [[nodiscard]] Item start_run();
  void open_lane();
  void close_round();
  void advance(Lane& lane);
  void drop_ended();
  void write_from(std::size_t number);
  [[nodiscard]] Result<void> merge_from(std::size_t number, unsigned level);

  static constexpr std::size_t kNone = ~std::size_t{0};
  static constexpr std::ptrdiff_t kAhead = 6;

  BlockPool& pool_;
  std::size_t memory_;
  std::deque<Lane> lanes_;  // by number, the first is first_
  std::size_t first_ = 0;
  std::size_t unseen_ = 0;             // the first lane that is not in the heap yet
  std::vector<Item>* open_ = nullptr;  // the last lane's items; null if the lane is complete
  std::vector<std::vector<Item>> spare_;
  MergeHeap heap_;
  std::size_t current_ = kNone;  // the lane of the item that next() returned last
  // The item that next() returned last, and the last item of its lane; null for a spilled lane.
  const Item *run_ = nullptr, *run_end_ = nullptr;
  std::size_t items_ = 0;  // in memory
  // `of_round_`: the time of the newest item added before the last end_round().
  std::uint64_t limit_ = 0, newest_ = 0, of_round_ = 0;
  SpillFile file_;
};

}  // namespace trapline::perf_data
