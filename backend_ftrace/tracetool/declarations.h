// The declarations of a trace-events file, each parsed on first use: QEMU declares 7,000 events,
// and reading a recording needs some ten.
//
// Guarantees: find() returns the first event of a name that parse_trace_events() would return, if
// the file has no errors and no 16 names with the same hash. Nothing changes after construction, so
// threads may share an object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/tracetool/trace_events.h"

namespace trapline::tracetool {

class Declarations {
 public:
  Declarations() = default;
  // Finds where each declaration begins.
  explicit Declarations(std::string text);
  // Reads a file. Returns an Error only when it cannot be read.
  [[nodiscard]] static Result<Declarations> read(const std::string& path);

  // Returns how many events are declared, including those with errors; a tcg event counts as two.
  [[nodiscard]] std::size_t size() const { return places_.size(); }
  // False only if no event has that name; true also if another name has the same hash.
  [[nodiscard]] bool may_declare(std::string_view name) const { return !places_of(name).empty(); }
  // Parses the declaration of an event. `line` of the result counts from the declaration's own
  // first line. Returns nullopt if the name is not declared or its declaration has an error.
  [[nodiscard]] std::optional<Event> find(std::string_view name) const;

 private:
  struct Place {
    std::uint32_t hash, offset;  // hash of the event's name; offset of its declaration in the text
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  // Returns the places of all events whose names have the same hash.
  [[nodiscard]] std::span<const Place> places_of(std::string_view name) const;
  std::string text_;
  std::vector<Place> places_;  // sorted by hash, then by position in the file
};

}  // namespace trapline::tracetool
