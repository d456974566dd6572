// The events of a text, each with all of its text: what a mailer wrapped is joined, quotes, indents
// and prefixes are gone. The look at a text, the search for losses and the reader share it.
//
//   file → TextLines → LogicalLines → TextLine and Event
//
// A line that does not say all of its event takes pieces from the lines below it until it does. One
// that does takes what a mailer moved: the piece's first word had no room in the line above it. No
// piece stands below an empty line, begins like an event, or is of a stack trace. What no event
// takes is a line of its own.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "merge/model/event.h"
#include "merge/source/file.h"
#include "merge/source/trace_text/text_events.h"
#include "merge/source/trace_text/text_lines.h"

namespace trapline::trace_text {

// Whether the line is an address of code, as ftrace and perf script print them below an event.
[[nodiscard]] bool is_of_stack(std::string_view line);

class LogicalLines {
 public:
  // Borrows both.
  LogicalLines(const File& file, TextEvents& events, const TextForm& form, std::uint64_t from = 0,
               std::uint64_t end = std::numeric_limits<std::uint64_t>::max())
      : lines_(file, from), events_(&events), form_(form), end_(end) {}

  // The next line is the one that begins at `from`.
  void go_to(std::uint64_t from, std::uint64_t end) {
    lines_.seek(from);
    end_ = end;
  }
  // Fills all of an event but its time where it is one of those that are wanted, else its type.
  // False at the end. The views are valid until the next call.
  [[nodiscard]] bool next(TextLine& line, Event& event, EventClass wanted);

  // Of the last line:
  [[nodiscard]] std::uint64_t begin() const { return begin_; }       // its offset in the file
  [[nodiscard]] std::string_view text() const { return text_; }      // as it stands there
  [[nodiscard]] bool is_whole() const { return lines_.is_whole(); }  // it has its end
  // It is an event of which nothing was read; not all.
  [[nodiscard]] bool lacks_all() const { return fit_ == Fit::kNone; }
  [[nodiscard]] bool lacks_text() const { return fit_ != Fit::kWhole; }
  [[nodiscard]] std::size_t pieces() const { return pieces_; }  // that were joined to it
  // Of all lines so far: pieces that make an event without a blank before them and none with one,
  // less those of which the contrary holds.
  [[nodiscard]] int folded_in_words() const { return folded_in_words_; }
  // Of the widest physical line that was not its last.
  [[nodiscard]] std::size_t widest() const { return widest_; }
  // After it.
  [[nodiscard]] std::uint64_t offset() const { return lines_.offset(); }
  [[nodiscard]] const Result<void>& status() const { return lines_.status(); }

 private:
  using Fit = TextEvents::Fit;
  Fit decode(const TextLine& line, Event& event) const;
  void join(TextLine& line, Event& event);
  void compare_glued(std::size_t above, std::string_view piece);
  [[nodiscard]] bool may_follow(Fit fit, std::string_view above, std::string_view piece) const;

  TextLines lines_;
  TextEvents* events_;
  TextForm form_;
  std::uint64_t end_, begin_ = 0;
  std::string_view text_;
  std::string joined_;
  std::size_t pieces_ = 0, widest_ = 0;
  int folded_in_words_ = 0;
  Fit fit_ = Fit::kWhole;
};

}  // namespace trapline::trace_text
