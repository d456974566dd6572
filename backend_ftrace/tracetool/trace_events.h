// QEMU `trace-events` files: what a folder of QEMU declares, and the merged `trace-events-all` that
// a QEMU package installs.
//
//   [disable] [vcpu] [tcg] NAME(TYPE ARG, TYPE ARG, ...) "format" PRIx64 " more"
//
// A declaration may go on over several lines: after a backslash, inside the argument list, and
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

// LTTng-UST's and QEMU's limit; the implicit CPU of a vcpu event counts.
inline constexpr std::size_t kMaxArguments = 10;
// Where the distributions install the declarations of all of QEMU.s events.
inline constexpr const char* kInstalledTraceEvents = "/usr/share/qemu/trace-events-all";

enum class TypeKind : std::uint8_t { kSigned, kUnsigned, kPointer, kString };

struct Argument {
  std::string type;  // as C writes it, white space normalised: "const char *", "unsigned int"
  std::string name;
  TypeKind kind = TypeKind::kSigned;
  std::uint8_t bytes = 4;  // of an integer; 8 for pointers and strings
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
  int width_argument = -1;      // of %*: the argument that is the width, which is not printed
  int precision_argument = -1;  // of %.*
};

struct Format {
  std::string source;         // a C expression on one line: "\"pc=0x%\" PRIx64", or empty: none
  std::vector<Piece> pieces;  // at least one
};

struct Event {
  std::string name;
  bool disable = false;          // compiled to nothing
  bool vcpu = false;             // arguments[0] is the CPU; the format begins with "cpu=%p "
  bool tcg_translation = false;  // NAME_trans: only the arguments known at translation
  bool tcg_execution = false;    // NAME_exec
  std::vector<Argument> arguments;
  Format format;
  std::uint32_t line = 0;
};

struct Diagnostic {
  std::string file;
  std::uint32_t line = 0;
  std::uint32_t column = 0;  // 1-based, in bytes
  std::string message;       // what is wrong and what was expected

  // "hw/char/trace-events:12:8: error: …", as compilers write it.
  [[nodiscard]] std::string text() const;
};

// The events of one file in file order, a tcg event as its two, and what is wrong with the rest.
// Whoever generates code refuses a file with errors; whoever reads a recording goes on without the
// declarations that have some.
struct EventFile {
  std::string name;
  std::vector<Event> events;
  std::vector<Diagnostic> errors;
};

// `name` is only for messages. Never fails: what it cannot read becomes a Diagnostic.
[[nodiscard]] EventFile parse_trace_events(std::string_view text, std::string_view name);

// The event of the declaration that the text begins with, of tcg both; none where it is in error.
[[nodiscard]] std::vector<Event> parse_declaration(std::string_view text);

// The text of a file, and what it declares; an Error only when it cannot be read.
[[nodiscard]] Result<std::string> read_trace_events_text(const std::string& path);
[[nodiscard]] Result<EventFile> read_trace_events(const std::string& path);

// Names that are declared twice, in one file or in several.
[[nodiscard]] std::vector<Diagnostic> find_duplicates(std::span<const EventFile> files);

}  // namespace trapline::tracetool
