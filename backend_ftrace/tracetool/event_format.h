// Parses what an event's format printed, the text "NAME ARGS" of a marker, into typed values.
//
// Guarantees: no allocation while matching; time linear in the text for each %s in the format,
// whatever the text holds; a match covers the whole text (one newline at its end is dropped).
//
// How an ambiguous text is read:
// - a number takes as many digits as there are; with no text before the next conversion
//   ("%02x%02x") it takes exactly the digits of its width;
// - a string ends at the first place where the format's part up to the next string fits; the last
//   string ends where the rest of the format fits the end of the text. Strings may be empty and
//   hold blanks and quotes;
// - a value is truncated or sign-extended to the argument's type: -1 printed by %x as ffffffff is
//   -1 again. An argument that the format does not print (the width of %*d) is kAbsent. A NULL
//   string reads "(null)".
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backend_ftrace/tracetool/declarations.h"
#include "backend_ftrace/tracetool/trace_events.h"

namespace trapline::tracetool {

enum class ValueKind : std::uint8_t { kAbsent, kSigned, kUnsigned, kPointer, kString };

// The value of one argument. Integers and pointers are in `bits`, sign-extended if signed; `text`
// points into the line that was matched.
struct Value {
  ValueKind kind = ValueKind::kAbsent;
  std::uint64_t bits = 0;
  std::string_view text;

  [[nodiscard]] std::int64_t as_signed() const { return static_cast<std::int64_t>(bits); }
};

using Values = std::array<Value, kMaxArguments>;

// One event's format, compiled for matching.
class EventFormat {
 public:
  explicit EventFormat(const Event& event);

  // Matches the text after "NAME ". If it returns true, values[i] is argument i; if false, the
  // values are unspecified.
  [[nodiscard]] bool match(std::string_view arguments, Values& values) const;

  [[nodiscard]] std::size_t argument_count() const { return kinds_.size(); }

 private:
  struct Step {
    std::string literal;
    char conversion = 0;
    bool fixed = false;  // exactly `width` digits
    bool padded = false;
    bool left = false;
    int width = 0;
    int argument = -1;
    std::uint8_t bytes = 8;
    ValueKind kind = ValueKind::kAbsent;
  };
  [[nodiscard]] const char* fit(std::size_t first, std::size_t last, const char* at,
                                const char* end, Values& values) const;
  [[nodiscard]] static const char* number(const Step& step, const char* at, const char* end,
                                          Value& value);
  void take_string(const Step& step, std::string_view text, Values& values) const;

  std::vector<Step> steps_;
  std::vector<std::size_t> strings_;  // indexes of the %s steps
  std::vector<ValueKind> kinds_;
};

struct ParsedMarker {
  const Event* event = nullptr;  // never null in a result
  bool matched = false;          // false: the event is known but the text does not fit its format
  std::string_view arguments;    // the text after the name
  std::uint8_t count = 0;        // how many of `values` are set
  Values values;
};

// Finds the event that a marker text names and parses its arguments. It parses and compiles an
// event on first use, so one MarkerParser belongs to one thread.
class MarkerParser {
 public:
  // Borrows the declarations; nullptr: there are none.
  explicit MarkerParser(const Declarations* declared) : declared_(declared) {}

  // False when the text does not begin with the name of a declared event.
  [[nodiscard]] bool parse(std::string_view text, ParsedMarker& out);

 private:
  struct Entry {
    std::string name;
    std::optional<Event> event;  // nullopt: the declaration has an error
    std::optional<EventFormat> format;
  };
  // Returns nullptr when no declaration without an error has this name.
  [[nodiscard]] const Entry* find(std::string_view name);

  const Declarations* declared_;
  std::unordered_map<std::string_view, std::unique_ptr<Entry>> seen_;  // keys point to Entry::name
};

}  // namespace trapline::tracetool
