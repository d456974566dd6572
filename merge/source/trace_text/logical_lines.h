// Reads the events of a text, each with its complete text: joins lines that a mailer wrapped, and
// removes quotes, indents and prefixes. The first pass over a text, the search for losses and the
// reader share this class.
//
//   file → TextLines → LogicalLines → TextLine and Event
//
// A line whose event is incomplete takes pieces from the lines below until the event is complete. A
// line whose event is complete takes only what a mailer moved down, because the piece's first word
// had no room in the line above. A piece is never below an empty line, does not begin like an
// event, and is not part of a stack trace. A line that no event takes is returned as it is.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "merge/model/event.h"
#include "merge/source/file.h"
#include "merge/source/trace_text/text_events.h"
#include "merge/source/trace_text/text_lines.h"

namespace trapline::trace_text {

// Returns whether the line is part of a stack trace, which ftrace and perf script print below an
// event.
[[nodiscard]] bool is_of_stack(std::string_view line);

class LogicalLines {
 public:
  // Borrows `file` and `events`.
  LogicalLines(const File& file, TextEvents& events, const TextForm& form, std::uint64_t from = 0,
               std::uint64_t end = std::numeric_limits<std::uint64_t>::max())
      : lines_(file, from), events_(&events), form_(form), end_(end) {}

  // Continues with the line that begins at `from`.
  void go_to(std::uint64_t from, std::uint64_t end) {
    lines_.seek(from);
    end_ = end;
  }
  // Returns the next line. If its event is of a wanted class, fills all of `event` but the time;
  // otherwise fills only the type. False at the end. The views are valid until the next call.
  [[nodiscard]] bool next(TextLine& line, Event& event, EventClass wanted);

  // The following functions are about the line that next() returned last.
  [[nodiscard]] std::uint64_t begin() const { return begin_; }       // its offset in the file
  [[nodiscard]] std::string_view text() const { return text_; }      // as it is in the file
  [[nodiscard]] bool is_whole() const { return lines_.is_whole(); }  // it has a line end
  // Return whether the line is an event that could not be read at all, or not completely.
  [[nodiscard]] bool lacks_all() const { return fit_ == Fit::kNone; }
  [[nodiscard]] bool lacks_text() const { return fit_ != Fit::kWhole; }
  // Returns how many pieces from the lines below were joined to the line.
  [[nodiscard]] std::size_t pieces() const { return pieces_; }
  // Returns more than 0 if lines seem to be broken within words: the number of pieces so far that
  // complete an event only if joined without a blank, minus those that do so only with a blank.
  [[nodiscard]] int folded_in_words() const { return folded_in_words_; }
  // Returns the width of the widest of the lines that were joined, without the last of them.
  [[nodiscard]] std::size_t widest() const { return widest_; }
  // Returns the offset after the line in the file.
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
