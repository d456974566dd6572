#include "merge/source/trace_text/logical_lines.h"

#include <algorithm>

namespace trapline::trace_text {
namespace {

using Kind = TextLine::Kind;

constexpr std::size_t kMostPieces = 8, kLongestJoined = 4U << 10;

bool is_small(char c) { return c >= 'a' && c <= 'z'; }
bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }
bool is_number(char c) { return c >= '0' && c <= '9'; }

// Returns whether a line is prose, so that it is not joined to an event above it whose text may be
// complete.
bool is_prose(std::string_view piece) {
  return piece.starts_with('#') || piece.starts_with("```") ||
         (piece.size() > 1 && is_capital(piece[0]) && (is_small(piece[1]) || piece[1] == ' '));
}

}  // namespace

bool is_of_stack(std::string_view line) {
  const std::size_t digits = std::min(line.find_first_not_of("0123456789abcdefx"), line.size());
  return line.starts_with("=>") || line.starts_with("<stack trace>") ||
         (digits >= 8 && digits < line.size() && line[digits] == ' ' &&
          (line.find("+0x") != line.npos || line.find('(') != line.npos));
}

// Returns whether the line `piece` may continue the event that the line before it, `above`, is part
// of. `fit`: whether the event's text is already complete (kWhole), incomplete or not readable.
bool LogicalLines::may_follow(Fit fit, std::string_view above, std::string_view piece) const {
  if (fit == Fit::kNone) return true;
  if (is_prose(piece) || is_of_stack(piece)) return false;
  const bool had_room = above.size() + 1 + std::min(piece.find(' '), piece.size()) <= form_.wrapped;
  return fit == Fit::kPart || (form_.wrapped != 0 && !had_room);
}

LogicalLines::Fit LogicalLines::decode(const TextLine& line, Event& event) const {
  if (line.kind != Kind::kEvent || (line.name.empty() && line.text.empty())) return Fit::kNone;
  return events_->decode(line, events_->type_of(line), event);
}

bool LogicalLines::next(TextLine& line, Event& event, EventClass wanted) {
  pieces_ = widest_ = 0;
  fit_ = Fit::kWhole;
  if (lines_.offset() >= end_ || !lines_.next(text_)) return false;
  begin_ = lines_.line_offset();
  line = parse_text_line(text_, form_);
  if (line.kind == Kind::kOther && begins_event(text_, form_)) {
    fit_ = Fit::kNone;
    join(line, event);
    return true;
  }
  if (line.kind != Kind::kEvent) return true;
  event.type = events_->type_of(line);
  const bool has_text = !line.name.empty() || !line.text.empty();
  if (form_.wrapped == 0 && has_text && !has(wanted, events_->class_of(event.type))) return true;
  fit_ = decode(line, event);
  // A line without an event's name is the function tracer's, or was broken within the name.
  const bool may_be_name = form_.learns && line.name.empty();
  if (fit_ != Fit::kWhole || form_.wrapped != 0 || may_be_name) join(line, event);
  return true;
}

// Updates folded_in_words_: tests whether the event is complete with the piece joined directly, as
// the rest of a broken word, or with a blank between. The text above the piece is the first `above`
// bytes of joined_.
void LogicalLines::compare_glued(std::size_t above, std::string_view piece) {
  const auto is_of_word = [](char c) {
    return is_small(c) || is_capital(c) || is_number(c) || c == '_';
  };
  if (above == 0 || !is_of_word(joined_.back()) || !is_of_word(piece.front())) return;
  Event event;
  const auto known = [&](const std::string& text) {
    const TextLine line = parse_text_line(text, form_);
    return line.kind == Kind::kEvent && events_->is_known(line) &&
           decode(line, event) == Fit::kWhole;
  };
  const bool glued = known(joined_.substr(0, above).append(piece)),
             apart = known(joined_.substr(0, above).append(" ").append(piece));
  folded_in_words_ += (glued ? 1 : 0) - (apart ? 1 : 0);
}

// Joins the line with its pieces. Before, fit_ says how well the line alone is decoded; afterwards,
// how well the joined one is.
void LogicalLines::join(TextLine& line, Event& event) {
  joined_ = text_.substr(0, text_.find_last_not_of(" \t\r") + 1);
  std::size_t kept = joined_.size(), widest = 0, width = joined_.size();
  std::uint64_t kept_to = lines_.offset();
  std::string above = joined_;
  Fit best = fit_;
  for (std::size_t pieces = 1; pieces <= kMostPieces; ++pieces) {
    std::string_view more;
    if (lines_.offset() >= end_ || !lines_.next(more)) break;
    const std::string_view piece = unquoted(more);
    const bool may = parse_text_line(more, form_).kind == Kind::kOther && !piece.empty() &&
                     !begins_event(more, form_) && joined_.size() + piece.size() < kLongestJoined;
    if (!may || (!may_follow(best, above, piece) && (!form_.learns || pieces > 1))) break;
    widest = std::max(widest, width);
    width = more.size();
    above = more;
    compare_glued(joined_.size(), piece);
    (joined_ += ' ') += piece;
    const TextLine longer = parse_text_line(joined_, form_);
    const Fit fit = decode(longer, event);
    if (fit < best || (fit == best && fit != Fit::kWhole) ||
        (best == Fit::kWhole && form_.wrapped == 0))
      continue;
    best = fit;
    kept = joined_.size();
    kept_to = lines_.offset();
    pieces_ = pieces;
    widest_ = widest;
  }
  lines_.seek(kept_to);
  joined_.resize(kept);
  text_ = joined_;
  line = parse_text_line(joined_, form_);
  fit_ = best;
  if (line.kind == Kind::kEvent) (void)decode(line, event);
}

}  // namespace trapline::trace_text
