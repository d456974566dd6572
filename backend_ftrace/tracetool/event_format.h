// Reads back what an event's format printed: the text of a marker, "NAME ARGS", as typed values.
//
// Guarantees: no allocation while matching; time linear in the text for each %s in the format,
// whatever the text holds; a match covers the whole text (one newline at its end is dropped).
//
// How an ambiguous text is read:
// - a number is read greedily, but one that is followed by the next conversion without text in
//   between ("%02x%02x") has exactly the digits of its width;
// - a string ends where the rest up to the next string first fits; the last string ends where the
//   rest fits the end of the text. Strings may be empty and hold blanks and quotes;
// - a value is cut and extended to the argument's type: -1 printed by %x as ffffffff is -1 again.
// What a format does not print (the width of %*d) is kAbsent. A NULL string reads "(null)".
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

// One argument. Integers and pointers are in `bits`, sign-extended where signed; text points into
// the line that was matched.
struct Value {
  ValueKind kind = ValueKind::kAbsent;
  std::uint64_t bits = 0;
  std::string_view text;

  [[nodiscard]] std::int64_t as_signed() const { return static_cast<std::int64_t>(bits); }
};

using Values = std::array<Value, kMaxArguments>;

// The compiled form of one event's format.
class EventFormat {
 public:
  explicit EventFormat(const Event& event);

  // Matches the text after "NAME ". On success values[i] is argument i; false leaves them
  // unspecified.
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
  std::uint8_t count = 0;        // of values that are filled in
  Values values;
};

// Finds the event of a marker text by its name and reads its arguments. Events are parsed and
// compiled when first seen, so one MarkerParser belongs to one thread.
class MarkerParser {
 public:
  // Borrows them; nullptr: none are declared.
  explicit MarkerParser(const Declarations* declared) : declared_(declared) {}

  // Nothing when the text does not begin with the name of an event.
  [[nodiscard]] bool parse(std::string_view text, ParsedMarker& out);

 private:
  struct Entry {
    std::string name;
    std::optional<Event> event;  // none: its declaration is in error
    std::optional<EventFormat> format;
  };
  // nullptr where none of this name is declared without an error.
  [[nodiscard]] const Entry* find(std::string_view name);

  const Declarations* declared_;
  std::unordered_map<std::string_view, std::unique_ptr<Entry>> seen_;  // by their own names
};

}  // namespace trapline::tracetool
