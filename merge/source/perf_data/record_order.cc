#include "merge/source/perf_data/record_order.h"

#include <limits>

namespace trapline::perf_data {

void RecordOrder::open_lane() {
  Lane& lane = lanes_.emplace_back();
  if (!spare_.empty()) {
    lane.items = std::move(spare_.back());
    spare_.pop_back();
  }
  open_ = &lane.items;
}

// Makes the lanes of the round available to next(). A lane in the heap does not grow any more.
void RecordOrder::close_round() {
  open_ = nullptr;
  for (; unseen_ < first_ + lanes_.size(); ++unseen_)
    heap_.push(unseen_, lane(unseen_).head().time);
}

void RecordOrder::end_round() {
  close_round();
  limit_ = of_round_;
  of_round_ = newest_;
}

void RecordOrder::end() {
  close_round();
  limit_ = std::numeric_limits<std::uint64_t>::max();
}

void RecordOrder::advance(Lane& lane) {
  if (lane.spilled) {
    lane.ended = !lane.spilled->advance();
    return;
  }
  pool_.release(lane.items[lane.at].block);
  --items_;
  lane.ended = ++lane.at == lane.items.size();
}

void RecordOrder::drop_ended() {
  constexpr std::size_t kMostSpare = 64;
  while (!lanes_.empty() && lanes_.front().ended) {
    std::vector<Item>& items = lanes_.front().items;
    if (items.capacity() != 0 && spare_.size() < kMostSpare) {
      items.clear();
      spare_.push_back(std::move(items));
    }
    lanes_.pop_front();
    ++first_;
  }
  if (lanes_.empty()) file_.clear();
}

// Returns the first remaining item of the lane current_; next() then goes on in that lane.
Item RecordOrder::start_run() {
  const Lane& lane = this->lane(current_);
  if (!lane.spilled) {
    run_ = lane.items.data() + lane.at;
    run_end_ = lane.items.data() + lane.items.size() - 1;
  }
  return lane.head();
}

bool RecordOrder::next_lane(Item& item) {
  if (current_ != kNone) {
    const std::size_t before = std::exchange(current_, kNone);
    Lane& lane = this->lane(before);
    if (run_ != nullptr) lane.at = static_cast<std::size_t>(run_ - lane.items.data());
    run_ = run_end_ = nullptr;
    advance(lane);
    if (lane.ended) {
      drop_ended();
    } else {
      heap_.push(before, lane.head().time);
    }
  }
  if (heap_.empty() || heap_.top_time() > limit_) return false;
  current_ = heap_.pop();
  item = start_run();
  return true;
}

// Writes the items of the lanes from `number` on to the file, as one run in order of time, and
// drops the lanes.
void RecordOrder::write_from(std::size_t number) {
  MergeHeap heap;
  for (std::size_t i = number; i < first_ + lanes_.size(); ++i)
    if (!lane(i).ended) heap.push(i, lane(i).head().time);
  while (!heap.empty()) {
    const std::size_t i = heap.pop();
    Lane& one = lane(i);
    do {
      file_.add(one.head());
      advance(one);
    } while (!one.ended && heap.is_before_top(i, one.head().time));
    if (!one.ended) heap.push(i, one.head().time);
  }
  lanes_.resize(number - first_);
}

Result<void> RecordOrder::merge_from(std::size_t number, unsigned level) {
  write_from(number);
  auto run = file_.finish_run();
  if (!run) return tl::unexpected(std::move(run).error());
  Lane& merged = lanes_.emplace_back();
  merged.spilled = std::move(*run);
  merged.level = level;
  merged.ended = !merged.spilled->advance();
  return file_.status();
}

// Merges the lanes in memory into one lane in the file. Then, whenever kMergeAt spilled lanes have
// the same level (how often they were merged), merges them into one of the next level. In lanes_,
// spilled lanes come before those in memory, the longer ones first.
Result<void> RecordOrder::spill() {
  open_ = nullptr;
  std::size_t number = first_ + lanes_.size();
  while (number > first_ && !lane(number - 1).spilled) --number;
  if (number == first_ + lanes_.size()) return {};
  auto merged = merge_from(number, 0);
  for (unsigned level = 0; merged; ++level) {
    std::size_t same = 0;
    while (same < lanes_.size() && lanes_[lanes_.size() - 1 - same].level == level) ++same;
    if (same < kMergeAt) break;
    merged = merge_from(first_ + lanes_.size() - same, level + 1);
  }
  heap_ = MergeHeap();
  for (unseen_ = first_; unseen_ < first_ + lanes_.size(); ++unseen_)
    if (!lane(unseen_).ended) heap_.push(unseen_, lane(unseen_).head().time);
  return merged;
}

}  // namespace trapline::perf_data
