#include "backend_ftrace/tracetool/c_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace trapline::tracetool {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Splitter {
 public:
  Splitter(std::string_view text, const std::vector<Argument>& arguments,
           std::vector<Piece>& pieces)
      : text_(text), arguments_(arguments), pieces_(pieces) {}

  std::optional<FormatError> run() {
    Piece piece;
    while (at_ < text_.size()) {
      const std::size_t percent = std::min(text_.find('%', at_), text_.size());
      piece.literal.append(text_.substr(at_, percent - at_));
      at_ = percent;
      if (at_ == text_.size()) break;
      if (text_.substr(at_).starts_with("%%")) {
        piece.literal += '%';
        at_ += 2;
        continue;
      }
      start_ = at_++;
      if (auto error = conversion(piece)) return error;
      pieces_.push_back(std::move(piece));
      piece = Piece{};
    }
    pieces_.push_back(std::move(piece));
    if (next_ < arguments_.size()) {
      return FormatError{text_.size(), fmt::format("the format has no conversion for argument '{}'",
                                                   arguments_[next_].name)};
    }
    return std::nullopt;
  }

 private:
  FormatError error(std::string message) const { return {start_, std::move(message)}; }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  std::optional<FormatError> conversion(Piece& piece) {
    for (;; ++at_) {
      const char c = peek();
      if (c == '#')
        piece.alternate = true;
      else if (c == '0')
        piece.zero = true;
      else if (c == '-')
        piece.left = true;
      else if (c == '+')
        piece.plus = true;
      else if (c == ' ')
        piece.space = true;
      else
        break;
    }
    if (auto bad = number(piece.width, piece.width_argument)) return bad;
    if (peek() == '.') {
      ++at_;
      piece.precision = 0;
      if (auto bad = number(piece.precision, piece.precision_argument)) return bad;
    }
    for (const std::string_view length : {"hh", "h", "ll", "l", "z", "t", "j"}) {
      if (!text_.substr(at_).starts_with(length)) continue;
      piece.length = length;
      at_ += length.size();
      break;
    }
    piece.conversion = peek();
    if (piece.conversion != 0) ++at_;
    return check(piece);
  }

  std::optional<FormatError> number(int& value, int& argument) {
    if (peek() == '*') {
      ++at_;
      if (next_ >= arguments_.size())
        return error("'*' has no argument left to take its value from");
      if (arguments_[next_].kind > TypeKind::kUnsigned || arguments_[next_].bytes != 4) {
        return error(fmt::format("'*' takes an int; argument '{}' is '{}'", arguments_[next_].name,
                                 arguments_[next_].type));
      }
      argument = static_cast<int>(next_++);
      return std::nullopt;
    }
    int parsed = 0;
    bool any = false;
    for (; is_digit(peek()); ++at_, any = true) {
      parsed = parsed * 10 + (peek() - '0');
      if (parsed > 4096) return error("a width or precision above 4096");
    }
    if (any) value = parsed;
    return std::nullopt;
  }

  std::optional<FormatError> check(Piece& piece) {
    const std::string_view shown = text_.substr(start_, at_ - start_);
    switch (piece.conversion) {
      case 'm':
        return error("'%m' is not allowed; pass the error number as an argument");
      case 'a':
      case 'A':
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return error(fmt::format(
            "'{}' is floating point, which tracers cannot carry; scale it to an integer", shown));
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
      case 'c':
      case 's':
      case 'p':
        break;
      default:
        return error(
            fmt::format("'{}' is not a conversion; expected one of d i u x X o c s p", shown));
    }
    if (next_ >= arguments_.size()) {
      return error(fmt::format("'{}' has no argument; {} declared", shown, arguments_.size()));
    }
    const Argument& argument = arguments_[next_];
    piece.argument = static_cast<int>(next_++);
    if (const std::string_view wanted = disagreement(piece, argument); !wanted.empty()) {
      return error(fmt::format("'{}' prints {}, but argument '{}' is '{}'", shown, wanted,
                               argument.name, argument.type));
    }
    return std::nullopt;
  }

  // Returns the type that the conversion expects if the argument has another. Signedness is not
  // compared, as in compilers: printing an unsigned with %d is common.
  static std::string_view disagreement(const Piece& piece, const Argument& argument) {
    const bool integer = argument.kind <= TypeKind::kUnsigned;
    if (piece.conversion == 's') {
      if (!piece.length.empty()) return "wide characters, which are not supported";
      return argument.kind == TypeKind::kString ? "" : "a string (char *)";
    }
    if (piece.conversion == 'p') {
      if (!piece.length.empty()) return "a pointer without a length";
      return integer ? "a pointer" : "";
    }
    if (!integer) return "an integer";
    const bool wide = !piece.length.empty() && piece.length[0] != 'h';
    if (piece.conversion == 'c' && wide) return "a wide character, which is not supported";
    if (wide && argument.bytes != 8) return "64 bits";
    if (!wide && argument.bytes == 8) return "at most 32 bits";
    return "";
  }

  std::string_view text_;
  const std::vector<Argument>& arguments_;
  std::vector<Piece>& pieces_;
  std::size_t at_ = 0;
  std::size_t start_ = 0;
  std::size_t next_ = 0;  // next argument
};

}  // namespace

std::string_view pri_macro(std::string_view name) {
  if (name.size() < 5 || !name.starts_with("PRI")) return {};
  const std::size_t letter = std::string_view("diouxX").find(name[3]);
  if (letter == std::string_view::npos) return {};
  static constexpr std::array<std::string_view, 6> kLong{"ld", "li", "lo", "lu", "lx", "lX"};
  static constexpr std::array<std::string_view, 6> kInt{"d", "i", "o", "u", "x", "X"};
  static constexpr std::array<std::string_view, 6> kShort{"hd", "hi", "ho", "hu", "hx", "hX"};
  static constexpr std::array<std::string_view, 6> kChar{"hhd", "hhi", "hho", "hhu", "hhx", "hhX"};
  std::string_view size = name.substr(4);
  if (size == "FAST16" || size == "FAST32") return kLong[letter];
  for (const std::string_view prefix : {"LEAST", "FAST"}) {
    if (size.starts_with(prefix)) size.remove_prefix(prefix.size());
  }
  if (size == "64" || size == "MAX" || size == "PTR") return kLong[letter];
  if (size == "32") return kInt[letter];
  if (size == "16") return kShort[letter];
  if (size == "8") return kChar[letter];
  return {};
}

std::optional<FormatError> split_format(std::string_view text,
                                        const std::vector<Argument>& arguments,
                                        std::vector<Piece>& pieces) {
  pieces.reserve(arguments.size() + 1);
  return Splitter(text, arguments, pieces).run();
}

std::string default_format(const std::vector<Argument>& arguments) {
  std::string text;
  for (const Argument& argument : arguments) {
    const std::string_view length = argument.bytes == 8 ? "l" : "";
    std::string conversion;
    switch (argument.kind) {
      case TypeKind::kSigned:
        conversion = fmt::format("{}d", length);
        break;
      case TypeKind::kUnsigned:
        conversion = fmt::format("{}u", length);
        break;
      case TypeKind::kPointer:
        conversion = "p";
        break;
      case TypeKind::kString:
        conversion = "s";
        break;
    }
    text += fmt::format("{}{}=%{}", text.empty() ? "" : " ", argument.name, conversion);
  }
  return text;
}

void prepend_cpu(Format& format) {
  format.source = format.source.empty() ? "\"cpu=%p \"" : "\"cpu=%p \" " + format.source;
  for (Piece& piece : format.pieces) {
    for (int* index : {&piece.argument, &piece.width_argument, &piece.precision_argument}) {
      if (*index >= 0) ++*index;
    }
  }
  Piece cpu;
  cpu.literal = "cpu=";
  cpu.conversion = 'p';
  cpu.argument = 0;
  format.pieces.front().literal.insert(0, " ");
  format.pieces.insert(format.pieces.begin(), std::move(cpu));
}

}  // namespace trapline::tracetool
