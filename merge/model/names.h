// Numbers for names that repeat, so that a group's key has 4 bytes instead of a string.
//
// The table is bounded, because names come from recordings: after kMost different names every new
// name is kOther.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <string_view>

#include "merge/model/flat_index.h"

namespace trapline {

using NameId = std::uint32_t;
inline constexpr NameId kNoName = 0;

class Names {
 public:
  static constexpr NameId kOther = 1;
  static constexpr std::size_t kMost = 1u << 16;

  Names() : texts_{"", "[other]"} {
    for (const std::string& text : texts_) index_.add(hash(text));
  }

  [[nodiscard]] NameId id(std::string_view text) {
    const NameId id = find(text);
    return id != FlatIndex::kNone ? id : add(text);
  }
  // Returns the number of a name; FlatIndex::kNone if it has none yet.
  [[nodiscard]] NameId find(std::string_view text) const {
    // Skips the two reserved entries, since a recorded name may itself be "" or "[other]".
    return index_.find(hash(text),
                       [this, text](NameId i) { return i > kOther && texts_[i] == text; });
  }
  [[nodiscard]] std::string_view operator[](NameId id) const { return texts_[id]; }
  [[nodiscard]] std::size_t size() const { return texts_.size(); }

  // Reads 16 bytes at a time for speed: every marker is looked up, and a new one has two names.
  [[nodiscard]] static std::uint32_t hash(std::string_view text) {
    std::uint64_t hash = kSeed ^ text.size(), words[2] = {};
    const auto take = [&] {
      text.copy(reinterpret_cast<char*>(words), sizeof words);
      for (const std::uint64_t word : words) {
        hash = (hash ^ word) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 32;
      }
    };
    for (; text.size() > sizeof words; text.remove_prefix(sizeof words)) take();
    take();
    return static_cast<std::uint32_t>(hash);
  }

 private:
  // Random in each process, so that whoever makes a file cannot choose names with the same hash.
  static inline const std::uint64_t kSeed =
      std::uint64_t{std::random_device{}()} << 32 | std::random_device{}();
  NameId add(std::string_view text) {
    if (texts_.size() >= kMost) return kOther;
    texts_.emplace_back(text);
    index_.add(hash(text));
    return static_cast<NameId>(texts_.size() - 1);
  }

  std::deque<std::string> texts_;  // stable, because callers keep views of the texts
  FlatIndex index_;
};

}  // namespace trapline
