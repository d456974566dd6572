// The k-way merge: of several lanes (sources, CPUs, tasks) that each have their next item's time in
// view, the lane whose item is the earliest. Ties go to the lower lane.
//
//   push(lane, time) ──> heap ──> top() … pop() ──> the lane moves on ──> push() again
//
// The heap holds copies of the times: an item's time must not change while its lane is in the heap,
// and no lane may be in it twice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace trapline {

class MergeHeap {
 public:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  // The earliest lane and its item's time; of an empty heap no lane, at kNever.
  [[nodiscard]] std::size_t top() const { return top_.lane; }
  [[nodiscard]] std::uint64_t top_time() const { return top_.time; }
  // Whether an item of this lane, which is not in the heap, comes before all that are in it: a lane
  // that runs ahead alone needs no push and pop for each of its items.
  [[nodiscard]] bool is_before_top(std::size_t lane, std::uint64_t time) const {
    return time < top_.time || (time == top_.time && lane < top_.lane);
  }

  void push(std::size_t lane, std::uint64_t time) {
    entries_.push_back({time, lane});
    std::push_heap(entries_.begin(), entries_.end(), is_later);
    top_ = entries_.front();
  }
  // Takes the top out and returns its lane; the heap must not be empty.
  std::size_t pop() {
    const std::size_t lane = top_.lane;
    std::pop_heap(entries_.begin(), entries_.end(), is_later);
    entries_.pop_back();
    top_ = entries_.empty() ? Entry{} : entries_.front();
    return lane;
  }
  // push() and pop() in one pass: the heap is not empty, and the lane is not before its top.
  std::size_t exchange(std::size_t lane, std::uint64_t time) {
    const std::size_t taken = top_.lane;
    const Entry entry{time, lane};
    std::size_t place = 0;
    for (std::size_t child = 1; child < entries_.size(); child = 2 * place + 1) {
      if (child + 1 < entries_.size() && is_later(entries_[child], entries_[child + 1])) ++child;
      if (!is_later(entry, entries_[child])) break;
      entries_[place] = entries_[child];
      place = child;
    }
    entries_[place] = entry;
    top_ = entries_.front();
    return taken;
  }

 private:
  struct Entry {
    std::uint64_t time = kNever;
    std::size_t lane = ~std::size_t{0};
  };
  static bool is_later(const Entry& a, const Entry& b) {
    return a.time != b.time ? a.time > b.time : a.lane > b.lane;
  }

  std::vector<Entry> entries_;
  Entry top_;  // a copy of the first entry: what is_before_top() looks at for each item
};

}  // namespace trapline
