// The syntax that sync records and guest sync records share (docs/formats/sync.md):
//   PREFIX SERIES INDEX [WORD…] [before KEY=VALUE…] [after KEY=VALUE…]
// Only the readers include this file.
#pragma once

#include <optional>
#include <string_view>

#include "backend_ftrace/base/text.h"

namespace trapline::sync_words {

inline std::string_view next_word(std::string_view& text, char separator = ' ') {
  const auto end = text.find(separator);
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

// Parses a word that is a decimal number as a whole. False when it is not, or when T cannot hold
// it.
template <typename T>
bool number(std::string_view word, T& value) {
  return take_number(word, value) && word.empty();
}

// Parses a record into series, index, before and after. Calls take(part, key, value) for each word
// between: `part` is the reading that the word belongs to, nullptr for words before the readings;
// `value` is empty for a word without '='. False when take() returns false or the text is no such
// record.
template <typename Record, typename Take>
bool walk(std::string_view text, std::string_view prefix, Record& record, Take take) {
  if (!take_text(text, prefix)) return false;
  while (text.ends_with('\n') || text.ends_with('\0')) text.remove_suffix(1);
  if (!number(next_word(text), record.series) || !number(next_word(text), record.index)) {
    return false;
  }
  decltype(&record.before) part = nullptr;
  while (!text.empty()) {
    const std::string_view word = next_word(text);
    if (word == "before" || word == "after") {
      part = word == "before" ? &record.before : &record.after;
      if (part->has_value()) return false;
      part->emplace();
      continue;
    }
    const auto equals = word.find('=');
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view{} : word.substr(equals + 1);
    if (!take(part == nullptr ? nullptr : &**part, word.substr(0, equals), value)) return false;
  }
  return true;
}

}  // namespace trapline::sync_words
