// Writes a C program that calls every event of a trace-events file with edge values and prints,
// with the file's own formats and printf, what each backend has to say.
//
//   make_driver GROUP ROUNDS FILE [qemu] > driver.c
//   driver expected.txt expected-simple.txt syslog.txt
//
// With qemu the driver is for code generated for QEMU's tree.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "backend_ftrace/tracetool/trace_events.h"

namespace {

using namespace trapline::tracetool;

bool is_star(const Event& event, int index) {
  for (const Piece& piece : event.format.pieces) {
    if (piece.width_argument == index || piece.precision_argument == index) return true;
  }
  return false;
}

bool is_character(const Event& event, int index) {
  for (const Piece& piece : event.format.pieces) {
    if (piece.argument == index && piece.conversion == 'c') return true;
  }
  return false;
}

// An expression for round `r`: the tables are in the prologue below.
std::string value(const Event& event, std::size_t index, bool simple) {
  const Argument& argument = event.arguments[index];
  if (is_star(event, static_cast<int>(index)))
    return fmt::format("({})widths[(r + {}) % 4]", argument.type, index);
  if (is_character(event, static_cast<int>(index)))
    return fmt::format("({})('a' + (r + {}) % 26)", argument.type, index);
  switch (argument.kind) {
    case TypeKind::kString:
      return fmt::format("({}){}[(r + {}) % 7]", argument.type, simple ? "cut_strings" : "strings",
                         index);
    case TypeKind::kPointer:
      return fmt::format("({})pointers[(r + {}) % 4]", argument.type, index);
    default:
      return fmt::format("({})integers[(r + {}) % 8]", argument.type, index);
  }
}

std::string values(const Event& event, bool simple, const char* separator) {
  std::string list;
  for (std::size_t i = 0; i < event.arguments.size(); ++i) {
    list += (i == 0 ? separator : ", ") + value(event, i, simple);
  }
  return list;
}

// As QEMU's sources begin.
constexpr const char* kQemuPrologue = R"(#include "qemu/osdep.h"
#define trapline_events_set(pattern, on) fake_switch_all(on)
#define vsyslog fake_vsyslog
void syslog(int priority, const char *format, ...);
static void fake_vsyslog(int priority, const char *format, va_list arguments);
void syslog(int priority, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fake_vsyslog(priority, format, arguments);
  va_end(arguments);
}
)";

constexpr const char* kPrologue = R"(#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include "trace-@.h"
#pragma GCC diagnostic ignored "-Wformat"
#pragma GCC diagnostic ignored "-Wpointer-to-int-cast"

static char long_string[700];
static char cut_string[513];
static char *strings[7] = {NULL, "", "plain", "sp ace 'q' \"d\" %d 100%", "\xff\xfe\x80", long_string, "x"};
static char *cut_strings[7] = {"", "", "plain", "sp ace 'q' \"d\" %d 100%", "\xff\xfe\x80", cut_string, "x"};
static void *pointers[4] = {NULL, (void *)0x1234, (void *)UINTPTR_MAX, &pointers};
static uint64_t integers[8] = {0, 1, UINT64_MAX, (uint64_t)INT64_MIN, INT64_MAX, 0x80, 0x8000, 0x80000000u};
static int widths[4] = {0, 1, 8, 20};
static FILE *out, *out_simple, *out_syslog;

/* In place of the C library's: what reaches syslog. */
void openlog(const char *ident, int option, int facility) {
  printf("openlog %s %d %d\n", ident ? ident : "NULL", option == LOG_PID, facility == LOG_DAEMON);
}
void vsyslog(int priority, const char *format, va_list arguments) {
  if (priority != LOG_INFO) fputs("wrong priority ", out_syslog);
  vfprintf(out_syslog, format, arguments);
  fputc('\n', out_syslog);
}

)";

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  auto file = trapline::tracetool::read_trace_events(argv[3]);
  if (!file || !file->errors.empty()) return 1;
  std::string prologue = kPrologue;
  prologue.replace(prologue.find('@'), 1, argv[1]);
  fmt::print("{}{}", argc > 4 ? kQemuPrologue : "", prologue);
  std::size_t number = 0;
  for (const Event& event : file->events) {
    if (event.disable) continue;
    const std::string& source = event.format.source;
    fmt::print("static void call_{}(int r) {{\n  (void)r;\n", number++);
    fmt::print("  trace_{}({});\n", event.name, values(event, false, ""));
    fmt::print("  fprintf(out, \"{} \" {} \"\\n\"{});\n", event.name, source,
               values(event, false, ", "));
    fmt::print("  fprintf(out_simple, \"{} \" {} \"\\n\"{});\n}}\n", event.name, source,
               values(event, true, ", "));
  }
  fmt::print(
      "\nint main(int argc, char **argv) {{\n  if (argc != 4) return 2;\n"
      "  memset(long_string, 'L', sizeof long_string - 1);\n  memset(cut_string, 'L', 512);\n"
      "  out = fopen(argv[1], \"w\");\n  out_simple = fopen(argv[2], \"w\");\n"
      "  out_syslog = fopen(argv[3], \"w\");\n"
      "  trapline_events_set(\"*\", 1);\n  for (int r = 0; r < {}; r++) {{\n",
      argv[2]);
  for (std::size_t i = 0; i < number; ++i) fmt::print("    call_{}(r);\n", i);
  fmt::print("  }}\n  return fclose(out) | fclose(out_simple) | fclose(out_syslog);\n}}\n");
  return 0;
}
