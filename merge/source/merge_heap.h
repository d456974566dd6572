// The k-way merge: finds the lane with the earliest item, of several lanes (sources, CPUs, tasks)
// that each know the time of their next item. Ties go to the lower lane.
//
//   push(lane, time) ──> heap ──> top() … pop() ──> the lane moves on ──> push() again
//
// The heap holds copies of the times: an item's time must not change while its lane is in the heap,
// and no lane may be in it twice.
//
// The heap is a tournament tree of keys, each with a time and its lane in one number; a node has
// the smaller key of its two children. A lane that replaces the top moves up from the same leaf
// with one comparison per level and no branch; a binary heap needs two comparisons per level and an
// unpredictable branch.
//
//                  [1] 5, lane 2
//       [2] 7, lane 0         [3] 5, lane 2
//   7, lane 0   9, lane 1   5, lane 2   free
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace trapline {

class MergeHeap {
 public:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::size_t size() const { return items_.size() - free_.size(); }
  // Return the earliest lane and its item's time; kNever and no lane if the heap is empty.
  [[nodiscard]] std::size_t top() const { return top_.lane; }
  [[nodiscard]] std::uint64_t top_time() const { return top_.time; }
  // Returns whether an item of this lane, which is not in the heap, comes before all items in it.
  // So a lane that runs ahead alone needs no push and pop for each item.
  [[nodiscard]] bool is_before_top(std::size_t lane, std::uint64_t time) const {
    return time < top_.time || (time == top_.time && lane < top_.lane);
  }

  void push(std::size_t lane, std::uint64_t time) {
    if (free_.empty()) add_leaves();
    if (lane >= lanes_) add_lanes(lane);
    const std::size_t leaf = free_.back();
    free_.pop_back();
    put(leaf, {time, lane});
  }
  // Removes the top and returns its lane; the heap must not be empty.
  std::size_t pop() {
    const std::size_t lane = top_.lane;
    const std::size_t leaf = leaf_of_[lane];
    free_.push_back(static_cast<std::uint32_t>(leaf));
    items_[leaf] = {};
    play(leaf, kFree);
    return lane;
  }
  // Does push() and pop() in one pass. The heap must not be empty, and the item must not come
  // before the top.
  std::size_t exchange(std::size_t lane, std::uint64_t time) {
    const std::size_t taken = top_.lane;
    if (lane >= lanes_) [[unlikely]]
      add_lanes(lane);
    put(leaf_of_[taken], {time, lane});
    return taken;
  }

 private:
  static constexpr std::size_t kNoLane = ~std::size_t{0};
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // the key of a leaf without a lane
  struct Item {
    std::uint64_t time = kNever;
    std::size_t lane = kNoLane;
  };

  // Returns the key: the time since base_ in the upper bits, the lane in the lowest lane_bits_.
  // Times that do not fit count as far_. All keys are recomputed, with a new base_, when an item at
  // far_ reaches the top, or when an item is before base_.
  [[nodiscard]] std::uint64_t key_of(const Item& item) const {
    return std::min(item.time - base_, far_) << lane_bits_ | item.lane;
  }

  void put(std::size_t leaf, const Item& item) {
    items_[leaf] = item;
    leaf_of_[item.lane] = static_cast<std::uint32_t>(leaf);
    if (item.time < base_) [[unlikely]]
      return make_keys();
    play(leaf, key_of(item));
  }
  void play(std::size_t leaf, std::uint64_t key) {
    std::uint64_t* const keys = keys_.data();
    std::size_t at = leaves_ + leaf;
    for (keys[at] = key; at > 1; keys[at] = key) {
      key = std::min(key, keys[at ^ 1]);
      at /= 2;
    }
    const std::uint64_t since = key >> lane_bits_;
    if (since >= far_) [[unlikely]]
      return top_is_far();
    top_ = {base_ + since, key - (since << lane_bits_)};
  }
  void top_is_far() {
    top_ = {};
    if (!empty()) make_keys();
  }
  // Recomputes all keys with the earliest item's time as base_, so that the top's time fits a key.
  void make_keys() {
    base_ = kNever;
    for (const Item& item : items_) base_ = std::min(base_, item.time);
    for (std::size_t leaf = 0; leaf < leaves_; ++leaf)
      keys_[leaves_ + leaf] = items_[leaf].lane == kNoLane ? kFree : key_of(items_[leaf]);
    for (std::size_t at = leaves_; --at > 0;)
      keys_[at] = std::min(keys_[2 * at], keys_[2 * at + 1]);
    if (!empty()) play(0, keys_[leaves_]);
  }
  void add_leaves() {
    const std::size_t before = leaves_;
    leaves_ = before == 0 ? 1 : 2 * before;
    items_.resize(leaves_);
    keys_.resize(2 * leaves_);
    for (std::size_t leaf = leaves_; leaf > before; --leaf)
      free_.push_back(static_cast<std::uint32_t>(leaf - 1));
    make_keys();
  }
  void add_lanes(std::size_t lane) {
    lanes_ = std::bit_ceil(lane + 1);
    leaf_of_.resize(lanes_);
    lane_bits_ = static_cast<unsigned>(std::bit_width(lane));
    far_ = (kFree >> lane_bits_) - 1;
    if (leaves_ != 0) make_keys();
  }

  std::vector<Item> items_;          // by leaf
  std::vector<std::uint64_t> keys_;  // the leaves' keys begin at leaves_
  std::size_t leaves_ = 0;
  std::vector<std::uint32_t> leaf_of_;  // by lane
  std::vector<std::uint32_t> free_;     // leaves without a lane
  std::size_t lanes_ = 0;               // number of lanes that lane_bits_ can hold
  unsigned lane_bits_ = 0;
  std::uint64_t base_ = 0, far_ = kFree - 1;
  Item top_;
};

}  // namespace trapline
