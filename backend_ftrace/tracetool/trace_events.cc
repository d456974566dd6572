#include "backend_ftrace/tracetool/trace_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "backend_ftrace/tracetool/c_format.h"
#include "backend_ftrace/tracetool/c_type.h"

namespace trapline::tracetool {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Reads one file: a cursor over the text, one declaration after the other. An error skips to the
// next line that begins a declaration.
class Parser {
 public:
  Parser(std::string_view text, EventFile& out) : text_(text), out_(out) {}

  void run() {
    if (!text_.empty() && text_.back() != '\n') {
      report(text_.size(), "the file does not end with a newline");
    }
    while (at_ < text_.size()) {
      skip_blanks();
      if (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '#') {
        if (!declaration()) resume();
      }
      skip_line();
    }
  }

 private:
  struct Draft {
    Event event;
    bool tcg = false;
    std::vector<bool> late;  // per argument: known only at execution
    std::array<Format, 2> formats;
    int format_count = 0;
  };

  // --- places -----------------------------------------------------------------------------------
  bool report(std::size_t offset, std::string message) {
    offset = std::min(offset, text_.size());
    count_lines(offset);
    std::uint32_t line = line_;
    std::size_t start = line_start_;
    if (offset < line_start_) {  // an earlier place of the same declaration
      const std::string_view before = text_.substr(0, offset);
      line = 1 + static_cast<std::uint32_t>(std::count(before.begin(), before.end(), '\n'));
      start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    }
    out_.errors.push_back(
        {out_.name, line, static_cast<std::uint32_t>(offset - start + 1), std::move(message)});
    return false;
  }

  void count_lines(std::size_t offset) {
    for (;;) {
      const std::size_t end = text_.find('\n', counted_to_);
      if (end >= offset) break;
      counted_to_ = line_start_ = end + 1;
      ++line_;
    }
  }

  std::uint32_t line_of(std::size_t offset) {
    count_lines(offset);
    return line_;
  }

  // --- cursor -----------------------------------------------------------------------------------
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_line() { at_ = std::min(text_.find('\n', at_), text_.size() - 1) + 1; }
  void skip_blanks() {
    for (;;) {
      while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
      if (peek() != '\\') return;
      const std::size_t after = text_.find_first_not_of(" \t\r", at_ + 1);
      if (after == std::string_view::npos || text_[after] != '\n') return;
      at_ = after + 1;
    }
  }
  void skip_space() {
    for (skip_blanks(); peek() == '\n'; skip_blanks()) ++at_;
  }
  std::string_view word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  // What stands here, for a message.
  std::string here() const {
    if (at_ >= text_.size()) return "the end of the file";
    if (text_[at_] == '\n') return "the end of the line";
    return fmt::format("'{}'", text_[at_]);
  }
  // Steps over line ends while the next line goes on with the format.
  void skip_to_continuation() {
    skip_blanks();
    while (peek() == '\n') {
      const std::size_t next = text_.find_first_not_of(" \t\r\n", at_);
      if (next == std::string_view::npos) return;
      std::size_t end = next;
      while (end < text_.size() && is_word(text_[end])) ++end;
      const bool macro = !pri_macro(text_.substr(next, end - next)).empty() &&
                         (end >= text_.size() || text_[end] != '(');
      if (text_[next] != '"' && !macro) return;
      at_ = next;
    }
  }
  // After an error: lines that only continue the bad declaration are not worth further messages.
  void resume() {
    for (;;) {
      const std::size_t end = text_.find('\n', at_);
      if (end == std::string_view::npos) return;
      std::size_t last = end;
      while (last > at_ && is_blank(text_[last - 1])) --last;
      const bool continued = last > at_ && text_[last - 1] == '\\';
      const std::size_t next = text_.find_first_not_of(" \t", end + 1);
      if (!continued && (next == std::string_view::npos || text_[next] != '"')) return;
      at_ = end + 1;
    }
  }

  // --- grammar ----------------------------------------------------------------------------------
  bool declaration() {
    Draft draft;
    for (FormatText& resolved : texts_) resolved.text.clear(), resolved.runs.clear();
    draft.event.arguments.reserve(4);
    draft.event.line = line_of(at_);
    if (!head(draft) || !arguments(draft)) return false;
    if (!expression(draft, 0)) return false;
    skip_blanks();
    if (peek() == ',') {
      ++at_;
      if (!draft.tcg) {
        return report(at_ - 1,
                      "a second format belongs to tcg events only; expected the end of "
                      "the line");
      }
      if (!expression(draft, 1)) return false;
      skip_blanks();
    }
    if (at_ < text_.size() && peek() != '\n') {
      return report(at_, fmt::format("expected a string, a PRI macro or the end of the line, found "
                                     "{}",
                                     here()));
    }
    return finish(draft);
  }

  bool head(Draft& draft) {
    for (;;) {
      const std::size_t begin = at_;
      const std::string_view name = word();
      if (name.empty()) {
        return report(at_, fmt::format("expected the name of an event, found {}", here()));
      }
      skip_blanks();
      if (peek() == '(') {
        if (name[0] >= '0' && name[0] <= '9') {
          return report(
              begin, fmt::format("'{}' is no C identifier; expected the name of an event", name));
        }
        draft.event.name = name;
        ++at_;
        return true;
      }
      if (name == "disable")
        draft.event.disable = true;
      else if (name == "vcpu")
        draft.event.vcpu = true;
      else if (name == "tcg")
        draft.tcg = true;
      else if (is_word(peek())) {
        return report(begin,
                      fmt::format("unknown property '{}'; expected disable, vcpu or tcg", name));
      } else {
        return report(
            at_, fmt::format("expected '(' after the event's name '{}', found {}", name, here()));
      }
    }
  }

  bool arguments(Draft& draft) {
    for (;;) {
      skip_space();
      const std::size_t begin = at_;
      std::vector<std::string_view>& words = words_;
      words.clear();
      std::size_t stars = 0;
      for (skip_space(); is_word(peek()) || peek() == '*'; skip_space()) {
        if (peek() == '*')
          ++stars, ++at_;
        else
          words.push_back(word());
      }
      const char stop = peek();
      if (stop != ',' && stop != ')') {
        return report(at_,
                      fmt::format("expected ',' or ')' in the argument list, found {}", here()));
      }
      const bool only_void = words.size() == 1 && words[0] == "void" && stars == 0;
      const bool alone = draft.event.arguments.empty() && stop == ')';
      if (words.empty() && stars == 0) {
        return report(begin,
                      "an argument is missing; expected a type and a name, or void for none");
      }
      if (only_void && !alone) {
        return report(begin, "void stands alone in an argument list");
      }
      if (!only_void && !argument(draft, begin, words, stars)) return false;
      ++at_;
      if (stop == ')') return true;
    }
  }

  bool argument(Draft& draft, std::size_t begin, std::vector<std::string_view>& words,
                std::size_t stars) {
    Argument argument;
    std::string_view name;
    if (words.size() >= 2 || (stars > 0 && words.size() == 1)) {
      name = words.back();
      words.pop_back();
    }
    if (name.empty() || words.empty() || allowed_word(name) || name == "const") {
      return report(begin, "an argument needs a type and a name");
    }
    argument.name = name;
    bool late = false;
    if (!type_of(begin, words, stars, draft.tcg, argument, late)) return false;
    for (const Argument& other : draft.event.arguments) {
      if (other.name == argument.name) {
        return report(begin, fmt::format("argument '{}' is declared twice", argument.name));
      }
    }
    const std::size_t limit = kMaxArguments - (draft.event.vcpu ? 1 : 0);
    if (draft.event.arguments.size() >= limit) {
      return report(begin, fmt::format("too many arguments; expected at most {}{}", limit,
                                       draft.event.vcpu ? " beside the CPU" : ""));
    }
    draft.event.arguments.push_back(std::move(argument));
    draft.late.push_back(late);
    return true;
  }

  bool type_of(std::size_t begin, std::vector<std::string_view>& words, std::size_t stars, bool tcg,
               Argument& argument, bool& late) {
    std::vector<std::string_view>& base = words;
    const bool is_const = std::erase(base, "const") > 0;
    if (tcg && stars == 0 && base.size() == 1 && !tcg_host_type(base[0]).empty()) {
      const std::string_view host = tcg_host_type(base[0]);
      late = true;
      argument.type = host;
      argument.kind = host.ends_with('*') ? TypeKind::kPointer : TypeKind::kUnsigned;
      argument.bytes = host == "uint32_t" ? 4 : 8;
      return true;
    }
    if (is_const) argument.type = "const ";
    for (std::size_t i = 0; i < base.size(); ++i) {
      if (i > 0) argument.type += ' ';
      argument.type += base[i];
    }
    if (stars > 0) argument.type.append(" ").append(stars, '*');
    for (const std::string_view word : base) {
      if (word == "float" || word == "double") {
        return report(begin,
                      fmt::format("'{}' is floating point, which tracers cannot carry; scale "
                                  "it to an integer",
                                  argument.type));
      }
      if (!allowed_word(word)) {
        return report(begin, fmt::format("type '{}' is not allowed; expected a C integer, a "
                                         "fixed-size integer such as uint64_t, "
                                         "char *, or void * for a pointer to anything else",
                                         argument.type));
      }
    }
    const auto integer = integer_type(base);
    const bool is_void = base.size() == 1 && base[0] == "void";
    if ((!integer && !is_void) || (is_void && stars == 0)) {
      return report(begin, fmt::format("'{}' is no type", argument.type));
    }
    argument.bytes = stars > 0 ? 8 : integer->bytes;
    argument.kind = stars == 0 ? integer->kind : TypeKind::kPointer;
    if (stars == 1 && base.size() == 1 && base[0] == "char") argument.kind = TypeKind::kString;
    return true;
  }

  // String literals and PRI macros up to something else; none at all is a format too.
  bool expression(Draft& draft, int index) {
    Format& format = draft.formats[static_cast<std::size_t>(index)];
    FormatText& resolved = texts_[static_cast<std::size_t>(index)];
    draft.format_count = index + 1;
    for (skip_to_continuation();; skip_to_continuation()) {
      const std::size_t begin = at_;
      if (peek() == '"') {
        if (!literal(resolved)) return false;
      } else if (const std::string_view macro = word(); !macro.empty()) {
        const std::string_view letters = pri_macro(macro);
        if (letters.empty() || format.source.empty()) {
          return report(begin,
                        fmt::format("'{}' is unknown here; expected a string, or a PRI macro "
                                    "of <inttypes.h> after one",
                                    macro));
        }
        for (const char c : letters) put(resolved, c, begin);
      } else {
        if (index == 1 && format.source.empty()) {
          return report(at_, fmt::format("expected the format for execution, found {}", here()));
        }
        return true;
      }
      if (!format.source.empty()) format.source += ' ';
      format.source += text_.substr(begin, at_ - begin);
    }
  }

  static void put(FormatText& to, char c, std::size_t offset) { to.append({&c, 1}, offset); }

  bool literal(FormatText& to) {
    const std::size_t open = at_++;
    for (;;) {
      const std::size_t begin = at_;
      const char c = peek();
      if (at_ >= text_.size() || c == '\n') {
        return report(open, "the string is not closed; expected '\"' before the end of the line");
      }
      ++at_;
      if (c == '"') return true;
      if (c == '\0') return report(begin, "a NUL byte in a string");
      if (c == '\\') {
        if (!escape(to, begin)) return false;
        continue;
      }
      while (at_ < text_.size() && std::strchr("\"\\\n", text_[at_]) == nullptr) ++at_;
      to.append(text_.substr(begin, at_ - begin), begin);
    }
  }

  bool escape(FormatText& to, std::size_t begin) {
    static constexpr std::string_view kFrom = "ntrabfv\\\"'?";
    static constexpr std::string_view kTo = "\n\t\r\a\b\f\v\\\"'?";
    const char c = peek();
    if (const auto simple = kFrom.find(c); c != '\0' && simple != std::string_view::npos) {
      ++at_;
      put(to, kTo[simple], begin);
      return true;
    }
    const bool hex = c == 'x';
    if (hex) ++at_;
    unsigned value = 0;
    int digits = 0;
    for (; digits < (hex ? 2 : 3); ++digits, ++at_) {
      const char d = peek();
      if (d >= '0' && d <= (hex ? '9' : '7'))
        value = value * (hex ? 16 : 8) + unsigned(d - '0');
      else if (hex && d >= 'a' && d <= 'f')
        value = value * 16 + unsigned(d - 'a' + 10);
      else if (hex && d >= 'A' && d <= 'F')
        value = value * 16 + unsigned(d - 'A' + 10);
      else
        break;
    }
    if (digits == 0 || value == 0 || value > 255) {
      return report(begin, "an escape that C does not have, or NUL");
    }
    put(to, static_cast<char>(value), begin);
    return true;
  }

  // --- the event --------------------------------------------------------------------------------
  bool finish(Draft& draft) {
    if (draft.tcg && draft.format_count != 2) {
      return report(at_,
                    "a tcg event has two formats, for translation and for execution; expected "
                    "',' and the second");
    }
    if (!draft.tcg) return add(draft, draft.event, 0);
    Event translation = draft.event;
    translation.name += "_trans";
    translation.tcg_translation = true;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < draft.late.size(); ++i) {
      if (!draft.late[i]) translation.arguments[kept++] = draft.event.arguments[i];
    }
    translation.arguments.resize(kept);
    Event execution = draft.event;
    execution.name += "_exec";
    execution.tcg_execution = true;
    return add(draft, std::move(translation), 0) && add(draft, std::move(execution), 1);
  }

  bool add(Draft& draft, Event event, std::size_t index) {
    const FormatText& resolved = texts_[index];
    event.format = std::move(draft.formats[index]);
    if (resolved.text.ends_with('\n')) {
      return report(resolved.origin(resolved.text.size() - 1),
                    "the format ends with a newline; expected none, the backends add their own");
    }
    if (event.format.source.empty()) {  // no format at all: the name alone is printed
      event.format.pieces.emplace_back();
      if (!event.arguments.empty()) {
        return report(at_, "expected a format string for the event's arguments");
      }
    } else if (auto error = split_format(resolved.text, event.arguments, event.format.pieces)) {
      const std::size_t place =
          error->position < resolved.text.size() ? resolved.origin(error->position) : at_;
      return report(place, std::move(error->message));
    }
    if (event.vcpu) {
      Argument cpu{"void *", "__cpu", TypeKind::kPointer, 8, true};
      event.arguments.insert(event.arguments.begin(), std::move(cpu));
      prepend_cpu(event.format);
    }
    out_.events.push_back(std::move(event));
    return true;
  }

  std::string_view text_;
  EventFile& out_;
  std::array<FormatText, 2> texts_;  // kept from event to event for their memory, like words_
  std::vector<std::string_view> words_;
  std::size_t at_ = 0;
  std::size_t counted_to_ = 0;
  std::uint32_t line_ = 1;
  std::size_t line_start_ = 0;
};

}  // namespace

EventFile parse_trace_events(std::string_view text, std::string_view name) {
  EventFile file;
  file.name = name;
  file.events.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')));
  Parser(text, file).run();
  return file;
}

}  // namespace trapline::tracetool
