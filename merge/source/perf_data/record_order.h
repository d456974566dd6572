// Puts records into order of time. perf writes the ring buffers of all CPUs one after the other, in
// rounds: what comes after the end of a round is not older than the newest record of the round
// before it. So two rounds have to be held:
//
//   add() ──> lanes, each in order: one for each CPU and round ──> end_round() ──> next()
//               └─ more than memory is to hold ──> spill(): one lane, in a temporary file
//
// Guarantees: order of time, equal times as they were added; at most kMemory of blocks and items,
// once spill() is called where is_full(), and a buffer for each lane that was spilled: of those
// that are as long, kMergeAt become one.
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

  // Borrows it. `memory` for tests.
  explicit RecordOrder(BlockPool& pool, std::size_t memory = kMemory)
      : pool_(pool), memory_(memory) {}

  // Nothing earlier may be added: next() has given out what is up to it.
  [[nodiscard]] std::uint64_t limit() const { return limit_; }
  // Holds the item's block until next() is called once more after it gave the item out.
  void add(const Item& item) {
    if (open_ == nullptr || item.time < open_->back().time) [[unlikely]]
      open_lane();
    open_->push_back(item);
    pool_.hold(item.block);
    ++items_;
    if (item.time > newest_) newest_ = item.time;
  }
  void end_round();
  void end();  // all was added

  // False where nothing is there that is as old as the last round but one.
  [[nodiscard]] bool next(Item& item) {
    if (run_ == run_end_) return next_lane(item);
    const Item& after = *(run_ + 1);
    if (after.time > limit_ || !heap_.is_before_top(current_, after.time)) return next_lane(item);
    pool_.release(run_->block);
    --items_;
    item = *++run_;
    // Items wait for long enough that their bytes are no longer near the processor.
    __builtin_prefetch((run_ + std::min<std::ptrdiff_t>(kAhead, run_end_ - run_))->data);
    return true;
  }

  [[nodiscard]] bool is_full() const {
    constexpr std::size_t kLane = sizeof(Lane) + 64;  // with what its vector takes at least
    return pool_.bytes_in_use() + items_ * sizeof(Item) + lanes_.size() * kLane > memory_;
  }
  // After next() returned false. An error where the temporary file cannot be written.
  [[nodiscard]] Result<void> spill();
  // Of the temporary file.
  [[nodiscard]] const Result<void>& status() const { return file_.status(); }

 private:
  struct Lane {
    std::vector<Item> items;
    std::size_t at = 0;
    std::unique_ptr<SpillFile::Run> spilled;  // then `items` is empty
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
  std::deque<Lane> lanes_;  // by number, from first_ on
  std::size_t first_ = 0;
  std::size_t unseen_ = 0;             // the first that is not in the heap yet
  std::vector<Item>* open_ = nullptr;  // of the last lane, where it may grow
  std::vector<std::vector<Item>> spare_;
  MergeHeap heap_;
  std::size_t current_ = kNone;  // the lane whose item was handed out
  // That item, and the last of its lane, where the lane is in memory; else both are null.
  const Item *run_ = nullptr, *run_end_ = nullptr;
  std::size_t items_ = 0;  // in memory
  // `of_round_`: the newest that was added before the last end_round().
  std::uint64_t limit_ = 0, newest_ = 0, of_round_ = 0;
  SpillFile file_;
};

}  // namespace trapline::perf_data
