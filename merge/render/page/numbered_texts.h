// Numbers for texts, each stored once: the page's lists refer to most of their texts by number.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trapline::page {

class NumberedTexts {
 public:
  [[nodiscard]] std::size_t number(std::string text) {
    const auto [place, is_new] = numbers_.try_emplace(std::move(text), texts_.size());
    if (is_new) texts_.push_back(place->first);
    return place->second;
  }
  [[nodiscard]] const std::vector<std::string>& all() const { return texts_; }

 private:
  std::unordered_map<std::string, std::size_t> numbers_;
  std::vector<std::string> texts_;
};

// Returns the text, or whole UTF-8 characters of at most `most` bytes and "…" if it is longer.
[[nodiscard]] inline std::string clipped(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  text.resize(most);
  return text + "…";
}

}  // namespace trapline::page
