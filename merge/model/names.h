// Numbers for names that repeat, so that a group's key has 4 bytes instead of a string.
//
// The table is bounded, because names come from recordings: after kMost different names every new
// name is kOther.
#pragma once

#include <cstdint>
#include <cstring>
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

 private:
  // Random in each process, so that whoever makes a file cannot choose names with the same hash.
  static inline const std::uint64_t kSeed =
      std::uint64_t{std::random_device{}()} << 32 | std::random_device{}();
  // Reads eight bytes at a time for speed: every marker has two names to look up.
  [[nodiscard]] static std::uint32_t hash(std::string_view text) {
    std::uint64_t hash = kSeed ^ text.size(), bytes = 0;
    const auto add = [&hash, &bytes] {
      hash = (hash ^ bytes) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 32;
    };
    const char* at = text.data();
    const char* const end = at + text.size();
    for (; end - at > static_cast<std::ptrdiff_t>(sizeof bytes); at += sizeof bytes) {
      std::memcpy(&bytes, at, sizeof bytes);
      add();
    }
    bytes = 0;
    if (text.size() >= sizeof bytes) {
      std::memcpy(&bytes, end - sizeof bytes, sizeof bytes);
    } else {
      for (; at != end; ++at) bytes = bytes << 8 | static_cast<unsigned char>(*at);
    }
    add();
    return static_cast<std::uint32_t>(hash);
  }
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
