// Sums by key, in the order in which their keys came. Their number is limited, since keys come from
// recordings; the sums of all keys without room are one more row, "[other]".
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "merge/model/flat_index.h"
#include "merge/report/dimensions.h"

namespace trapline {

// Returns the map's value of the key, or `other` if the key is new and the map has `most` keys.
template <typename Map>
[[nodiscard]] typename Map::mapped_type& bounded(Map& map, const typename Map::key_type& key,
                                                 std::size_t most,
                                                 typename Map::mapped_type& other) {
  const auto found = map.find(key);
  if (found != map.end()) return found->second;
  return map.size() < most ? map[key] : other;
}
// Returns the key's value; that of the key `other` if `key` is new and the map has `most` keys.
template <typename Map>
[[nodiscard]] typename Map::mapped_type& bounded(Map& map, const typename Map::key_type& key,
                                                 std::size_t most,
                                                 const typename Map::key_type& other) {
  return map[map.size() < most || map.contains(key) ? key : other];
}

// Keeps the first `top` rows (0: all), as --top says. Returns how many rows it removed.
template <typename Row>
[[nodiscard]] std::size_t keep_first(std::vector<Row>& rows, std::size_t top) {
  if (top == 0 || rows.size() <= top) return 0;
  const std::size_t left_out = rows.size() - top;
  rows.resize(top);
  return left_out;
}

// Holds a Row of sums for each GroupKey. A new Row has its `key`, and else its initial values.
template <typename Row>
class Grouping {
 public:
  // A key has `words` used words; the others are 0.
  Grouping(std::size_t words, std::size_t most) : words_(words), most_(most) {}

  // Returns the key's index; `most`, that of other(), if there is no more room.
  std::uint32_t place_of(const GroupKey& key) {
    if (!rows_.empty() && is_same(rows_[last_].key, key)) return last_;
    const std::uint32_t hash = hash_of(key);
    const std::uint32_t known =
        index_.find(hash, [this, &key](std::uint32_t i) { return is_same(rows_[i].key, key); });
    if (known != FlatIndex::kNone) [[likely]]
      return last_ = known;
    if (rows_.size() >= most_) return static_cast<std::uint32_t>(most_);
    rows_.emplace_back().key = key;
    index_.add(hash);
    return last_ = static_cast<std::uint32_t>(rows_.size() - 1);
  }
  [[nodiscard]] Row& operator[](std::uint32_t place) {
    return place == most_ ? other_ : rows_[place];
  }
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
  // Returns the sums of the keys without room; the row's key means nothing.
  [[nodiscard]] const Row& other() const { return other_; }
  // Returns all rows and starts afresh; other() keeps its sums.
  [[nodiscard]] std::vector<Row> take() {
    index_ = FlatIndex(kSlots);
    last_ = 0;
    return std::exchange(rows_, {});
  }

 private:
  static constexpr std::size_t kSlots = 256;

  [[nodiscard]] std::uint32_t hash_of(const GroupKey& key) const {
    std::uint64_t hash = key.halted ? 0x2545f4914f6cdd1d : 0x9e3779b97f4a7c15;
    for (std::size_t i = 0; i < words_; ++i) {
      hash = (hash ^ key.words[i]) * 0xbf58476d1ce4e5b9;
      hash ^= hash >> 29;
    }
    return static_cast<std::uint32_t>(hash);
  }
  [[nodiscard]] bool is_same(const GroupKey& a, const GroupKey& b) const {
    for (std::size_t i = 0; i < words_; ++i)
      if (a.words[i] != b.words[i]) return false;
    return a.halted == b.halted;
  }

  std::size_t words_, most_;
  std::vector<Row> rows_;
  Row other_{};
  FlatIndex index_{kSlots};
  std::uint32_t last_ = 0;  // the last key's index: consecutive exits are often of one kind
};

}  // namespace trapline
