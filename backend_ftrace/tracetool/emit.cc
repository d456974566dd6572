#include "backend_ftrace/tracetool/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

namespace trapline::tracetool {

std::optional<Backend> backend_from_name(std::string_view name) {
  static constexpr std::array<std::string_view, 7> kNames{"nop",    "log", "simple", "ftrace",
                                                          "syslog", "ust", "dtrace"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Backend>(i);
  }
  return std::nullopt;
}

bool Options::has(Backend backend) const {
  return std::find(backends.begin(), backends.end(), backend) != backends.end();
}

void Output::line(std::string_view text) {
  text_.append(text).append("\n");
  lines_ += 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

void Output::origin(const std::string& file, std::uint32_t number) {
  std::string quoted;
  for (const char c : file) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  line(fmt::format("#line {} \"{}\"", number, quoted));
}

void Output::end_origin() { line(fmt::format("#line {} \"{}\"", lines_ + 2, path_)); }

bool is_compiled(const Event& event, const Options& options) {
  const bool only_nop = std::all_of(options.backends.begin(), options.backends.end(),
                                    [](Backend backend) { return backend == Backend::kNop; });
  return !event.disable && !only_nop;
}

std::string c_name(const Argument& argument) {
  static const std::unordered_set<std::string_view> kTaken{
      // Keywords of C++20 and C23 that are valid names in C11.
      "alignas", "alignof", "and", "and_eq", "asm", "bitand", "bitor", "bool", "catch", "char8_t",
      "char16_t", "char32_t", "class", "compl", "concept", "consteval", "constexpr", "constinit",
      "const_cast", "co_await", "co_return", "co_yield", "decltype", "delete", "dynamic_cast",
      "explicit", "export", "false", "friend", "mutable", "namespace", "new", "noexcept", "not",
      "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public",
      "reinterpret_cast", "requires", "static_assert", "static_cast", "template", "this",
      "thread_local", "throw", "true", "try", "typeid", "typename", "typeof", "using", "virtual",
      "wchar_t", "xor", "xor_eq",
      // Macros of common headers and compilers.
      "errno", "stdin", "stdout", "stderr", "linux", "unix", "i386", "NULL", "EOF", "major",
      "minor", "makedev", "assert", "I", "signals", "slots", "emit",
      // Names that the generated functions use.
      "values", "arguments"};
  return kTaken.contains(argument.name) ? argument.name + "_" : argument.name;
}

std::string parameter_list(const Event& event) {
  if (event.arguments.empty()) return "void";
  std::string list;
  for (const Argument& argument : event.arguments) {
    if (!list.empty()) list += ", ";
    list += argument.type;
    if (!argument.type.ends_with('*')) list += ' ';
    list += c_name(argument);
  }
  return list;
}

std::string name_list(const Event& event) {
  std::string list;
  for (const Argument& argument : event.arguments) {
    list += (list.empty() ? "" : ", ") + c_name(argument);
  }
  return list;
}

std::string upper(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

bool has_own_state(const Options& options) {
  return options.has(Backend::kLog) || options.has(Backend::kSimple) ||
         options.has(Backend::kFtrace) || options.has(Backend::kSyslog);
}

namespace {

// Returns the arguments as the format expects them, with a cast only where the argument's type and
// the conversion's differ in spelling but agree in size.
std::string printf_arguments(const Event& event) {
  std::vector<std::string> values;
  for (const Argument& argument : event.arguments) values.push_back(c_name(argument));
  const auto cast = [&](int index, std::string_view type) {
    std::string& value = values[static_cast<std::size_t>(index)];
    value = fmt::format("TRAPLINE_AS({}, {})", type, value);
  };
  for (const Piece& piece : event.format.pieces) {
    for (const int star : {piece.width_argument, piece.precision_argument}) {
      if (star >= 0 && event.arguments[static_cast<std::size_t>(star)].type != "int") {
        cast(star, "int");
      }
    }
    if (piece.conversion == 0) continue;
    const Argument& argument = event.arguments[static_cast<std::size_t>(piece.argument)];
    const bool is_long_long = argument.type.find("long long") != std::string::npos;
    const bool is_signed = argument.kind == TypeKind::kSigned;
    if (piece.conversion == 'p') {
      if (argument.type != "void *") cast(piece.argument, "const void *");
    } else if (piece.length == "ll" && !is_long_long) {
      cast(piece.argument, is_signed ? "long long" : "unsigned long long");
    } else if (piece.length != "ll" && is_long_long) {
      cast(piece.argument, is_signed ? "int64_t" : "uint64_t");
    }
  }
  std::string list;
  for (const std::string& value : values) list += ", " + value;
  return list;
}

}  // namespace

void emit_printing(std::string_view function, const Declared& declared, std::string_view end,
                   Output& out) {
  const Event& event = *declared.event;
  const std::string format = event.format.source.empty() ? "" : " " + event.format.source;
  out.origin(*declared.file, event.line);
  out.line(fmt::format("    {}(\"{} \"{}{}{});", function, event.name, format, end,
                       printf_arguments(event)));
  out.end_origin();
}

}  // namespace trapline::tracetool
