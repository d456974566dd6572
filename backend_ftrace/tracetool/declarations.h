// The declarations of a trace-events file that are parsed when they are asked for: QEMU declares
// 7,000 events, and who reads a recording asks for some ten.
//
// Guarantees: of a file without errors, and without 16 names of one hash, find() gives the first
// event of that name that parse_trace_events() would; nothing changes after construction, so
// threads may share one.
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
  // Of a file; an Error only when it cannot be read.
  [[nodiscard]] static Result<Declarations> read(const std::string& path);

  // Events that are declared, with or without an error; a tcg event is two.
  [[nodiscard]] std::size_t size() const { return places_.size(); }
  // False where none of that name is declared.
  [[nodiscard]] bool may_declare(std::string_view name) const { return !places_of(name).empty(); }
  // Its `line` counts from the declaration's own first line.
  [[nodiscard]] std::optional<Event> find(std::string_view name) const;

 private:
  struct Place {
    std::uint32_t hash, offset;  // of the event's name, of its declaration in the text
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  // Of the events of that name, and of others with its hash.
  [[nodiscard]] std::span<const Place> places_of(std::string_view name) const;
  std::string text_;
  std::vector<Place> places_;  // sorted: of one name, in the order of the file
};

}  // namespace trapline::tracetool
