#include "backend_ftrace/tracetool/trace_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "backend_ftrace/tracetool/c_format.h"
#include "backend_ftrace/tracetool/c_type.h"
#include "backend_ftrace/tracetool/text_cursor.h"

namespace trapline::tracetool {
namespace {

// Parses one file, declaration by declaration. After an error it skips to the next line that begins
// a declaration.
class Parser : TextCursor {
 public:
  Parser(std::string_view text, EventFile& out) : TextCursor(text), out_(out) {}

  void run() {
    while (at_ < text_.size()) {
      skip_blanks();
      if (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '#') {
        if (!declaration()) resume();
      }
      skip_line();
    }
    if (!text_.empty() && text_.back() != '\n') {
      report(text_.size(), "the file does not end with a newline");
    }
  }

  // Parses only the declaration at the cursor.
  void run_once() {
    skip_blanks();
    (void)declaration();
  }

 private:
  struct Draft {
    Event event;
    bool tcg = false;
    std::vector<bool> late;  // per argument: its value is known only at execution
    std::array<Format, 2> formats;
    int format_count = 0;
  };

  bool report(std::size_t offset, std::string message) {
    const Place place = place_of(offset);
    out_.errors.push_back({out_.name, place.line, place.column, std::move(message)});
    return false;
  }

  bool declaration() {
    Draft draft;
    for (FormatText& resolved : texts_) resolved.text.clear(), resolved.runs.clear();
    draft.event.arguments.reserve(4);
    draft.event.line = place_of(at_).line;
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
              begin,
              fmt::format("'{}' is not a C identifier; expected the name of an event", name));
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
      return report(begin, fmt::format("'{}' is not a type", argument.type));
    }
    argument.bytes = stars > 0 ? 8 : integer->bytes;
    argument.kind = stars == 0 ? integer->kind : TypeKind::kPointer;
    if (stars == 1 && base.size() == 1 && base[0] == "char") argument.kind = TypeKind::kString;
    return true;
  }

  // Parses string literals and PRI macros up to anything else; an empty format is valid too.
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
    FormatText& resolved = texts_[index];
    event.format = std::move(draft.formats[index]);
    if (resolved.text.ends_with('\n')) {
      return report(resolved.origin(resolved.text.size() - 1),
                    "the format ends with a newline; expected none, the backends add their own");
    }
    if (event.format.source.empty() && !event.arguments.empty()) {
      const std::string text = default_format(event.arguments);
      resolved.append(text, at_);
      event.format.source = '"' + text + '"';
    }
    if (event.format.source.empty()) {  // no format: only the name is printed
      event.format.pieces.emplace_back();
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

  EventFile& out_;
  std::array<FormatText, 2> texts_;  // kept across events to reuse their memory, like words_
  std::vector<std::string_view> words_;
};

}  // namespace

EventFile parse_trace_events(std::string_view text, std::string_view name) {
  EventFile file;
  file.name = name;
  file.events.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')));
  Parser(text, file).run();
  return file;
}

std::vector<Event> parse_declaration(std::string_view text) {
  EventFile file;
  Parser(text, file).run_once();
  return std::move(file.events);
}

}  // namespace trapline::tracetool
