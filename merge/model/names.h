// Numbers for names that repeat: a group's key holds 4 bytes instead of a string.
//
// Bounded, since names come from recordings: after kMost different ones every new name is kOther.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace trapline {

using NameId = std::uint32_t;
inline constexpr NameId kNoName = 0;

class Names {
 public:
  static constexpr NameId kOther = 1;
  static constexpr std::size_t kMost = 1u << 16;

  Names() : texts_{"", "[other]"}, table_(64, kNoName) {}

  [[nodiscard]] NameId id(std::string_view text) {
    const std::size_t mask = table_.size() - 1;
    std::size_t slot = std::hash<std::string_view>{}(text)&mask;
    while (table_[slot] != kNoName) {
      if (texts_[table_[slot]] == text) return table_[slot];
      slot = (slot + 1) & mask;
    }
    return add(text, slot);
  }
  [[nodiscard]] std::string_view operator[](NameId id) const { return texts_[id]; }
  [[nodiscard]] std::size_t size() const { return texts_.size(); }

 private:
  NameId add(std::string_view text, std::size_t slot) {
    if (texts_.size() >= kMost) return kOther;
    const auto id = static_cast<NameId>(texts_.size());
    texts_.emplace_back(text);
    table_[slot] = id;
    if (texts_.size() * 2 > table_.size()) grow();
    return id;
  }
  void grow() {
    table_.assign(table_.size() * 2, kNoName);
    const std::size_t mask = table_.size() - 1;
    for (NameId id = kOther + 1; id < texts_.size(); ++id) {
      std::size_t slot = std::hash<std::string_view>{}(texts_[id]) & mask;
      while (table_[slot] != kNoName) slot = (slot + 1) & mask;
      table_[slot] = id;
    }
  }

  std::deque<std::string> texts_;  // stable: views of them are handed out
  std::vector<NameId> table_;      // open addressing, a power of two, at most half full
};

}  // namespace trapline
