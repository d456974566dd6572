// Parses QEMU's `trace-events` files: one per folder of QEMU's sources, and the merged
// `trace-events-all` that a QEMU package installs.
//
//   [disable] [vcpu] [tcg] NAME(TYPE ARG, TYPE ARG, ...) "format" PRIx64 " more"
//
// A declaration may continue over several lines: after a backslash, inside the argument list, and
// where the next line begins with a string or a PRI macro. A tcg event has two formats, separated
// by a comma: the first for translation, the second for execution.
//
// Sizes are those of LP64 Linux: long, size_t and pointers have 8 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"

namespace trapline::tracetool {

// The most arguments that LTTng-UST and QEMU allow, with the implicit CPU of a vcpu event.
inline constexpr std::size_t kMaxArguments = 10;
// The file in which distributions install the declarations of all of QEMU's events.
inline constexpr const char* kInstalledTraceEvents = "/usr/share/qemu/trace-events-all";

enum class TypeKind : std::uint8_t { kSigned, kUnsigned, kPointer, kString };

struct Argument {
  std::string type;  // as C writes it, with normalised white space: "const char *", "unsigned int"
  std::string name;
  TypeKind kind = TypeKind::kSigned;
  std::uint8_t bytes = 4;  // size of an integer; 8 for pointers and strings
  bool implicit = false;   // the CPU of a vcpu event
};

// One conversion of a format, with the literal text that stands before it (%% and escapes
// resolved). The last piece of a format has only literal text: `conversion` is 0.
struct Piece {
  std::string literal;
  char conversion = 0;     // d i u x X o c s p, or 0
  std::string length;      // "", hh, h, l, ll, z, t, j: PRI macros resolved
  bool alternate = false;  // #
  bool zero = false;       // 0
  bool left = false;       // -
  bool plus = false;       // +
  bool space = false;
  int width = -1;               // -1: none
  int precision = -1;           // -1: none
  int argument = -1;            // index into the event's arguments
  int width_argument = -1;      // the argument that is the width of %*; it is not printed itself
  int precision_argument = -1;  // the argument that is the precision of %.*
};

struct Format {
  std::string source;         // a C expression on one line: "\"pc=0x%\" PRIx64"; empty: no format
  std::vector<Piece> pieces;  // at least one
};

struct Event {
  std::string name;
  bool disable = false;          // no code is generated
  bool vcpu = false;             // arguments[0] is the CPU; the format begins with "cpu=%p "
  bool tcg_translation = false;  // NAME_trans: only the arguments known at translation
  bool tcg_execution = false;    // NAME_exec: the arguments at execution
  std::vector<Argument> arguments;
  Format format;
  std::uint32_t line = 0;
};

struct Diagnostic {
  std::string file;
  std::uint32_t line = 0;
  std::uint32_t column = 0;  // 1-based, in bytes
  std::string message;       // says what is wrong and what was expected

  // Formats the diagnostic as compilers do: "hw/char/trace-events:12:8: error: …".
  [[nodiscard]] std::string text() const;
};

// The events of one file in file order, with two for each tcg event, and the errors in other
// declarations. A code generator refuses a file with errors; a reader of recordings does without
// the declarations that have errors.
struct EventFile {
  std::string name;
  std::vector<Event> events;
  std::vector<Diagnostic> errors;
};

// Parses a file's text; `name` is only for messages. Never fails: everything that it cannot parse
// becomes a Diagnostic.
[[nodiscard]] EventFile parse_trace_events(std::string_view text, std::string_view name);

// Parses the declaration at the beginning of the text. Returns its event, both events of a tcg
// declaration, or none if it has an error.
[[nodiscard]] std::vector<Event> parse_declaration(std::string_view text);

// Reads a trace-events file. Returns an Error only when it cannot be read.
[[nodiscard]] Result<std::string> read_trace_events_text(const std::string& path);
[[nodiscard]] Result<EventFile> read_trace_events(const std::string& path);

// Returns a diagnostic for each name that is declared twice, in one file or in several.
[[nodiscard]] std::vector<Diagnostic> find_duplicates(std::span<const EventFile> files);

}  // namespace trapline::tracetool
