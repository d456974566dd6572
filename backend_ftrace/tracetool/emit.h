// Writes the generated code. For a group of events:
//
//   trace-GROUP.h        trace_NAME(): tests the state word, calls the out-of-line part
//   trace-GROUP.c        state words, registration, and for each event the calls of its backends
//   trace-ust-GROUP.h/.c LTTng-UST's tracepoint provider
//   GROUP.stp, GROUP-log.stp  SystemTap: probes with named arguments, and probes that print
//   trace-dtrace-GROUP.dtrace the probes, for dtrace(1)
//
// The C code is in the common subset of C11 and C++20; every function has C linkage. emit_qemu.h
// has the files that QEMU's own build uses instead.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/tracetool/trace_events.h"

namespace trapline::tracetool {

enum class Backend : std::uint8_t { kNop, kLog, kSimple, kFtrace, kSyslog, kUst, kDtrace };

[[nodiscard]] std::optional<Backend> backend_from_name(std::string_view name);

struct Options {
  std::string group;  // "root" for the top folder; '/' and '-' become '_'
  std::vector<Backend> backends;
  std::string provider = "trapline";  // provider name for UST and dtrace
  std::string binary;                 // the program that the tapset probes
  std::string probe_prefix;           // prefix of the tapset's probes: "qemu.system.x86_64"
  bool for_qemu = false;              // generate for QEMU's tree, which links no library of ours
  [[nodiscard]] bool has(Backend backend) const;
};

// An event and the file that declares it.
struct Declared {
  const Event* event;
  const std::string* file;
};

// Builds one file's text line by line and counts its lines for #line.
class Output {
 public:
  explicit Output(std::string path) : path_(std::move(path)) {}
  void line(std::string_view text);
  void blank() { line(""); }
  // Marks the following lines, until end_origin(), as coming from a trace-events file.
  void origin(const std::string& file, std::uint32_t number);
  void end_origin();
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::string text_;
  std::size_t lines_ = 0;
};

// Returns whether any code is generated for the event.
[[nodiscard]] bool is_compiled(const Event& event, const Options& options);

// Returns the argument's name in generated C and C++: keywords and common macros get a '_' at the
// end.
[[nodiscard]] std::string c_name(const Argument& argument);
[[nodiscard]] std::string parameter_list(const Event& event);  // "int a, const char *b" or "void"
[[nodiscard]] std::string name_list(const Event& event);       // "a, b" or ""
[[nodiscard]] std::string upper(std::string_view name);

// Returns whether the event's own state word switches any backend; UST and dtrace have switches of
// their own.
[[nodiscard]] bool has_own_state(const Options& options);

// Emits FUNCTION("NAME " FORMAT END, values); with a #line for the trace-events file.
void emit_printing(std::string_view function, const Declared& declared, std::string_view end,
                   Output& out);

void emit_header(const Options& options, std::span<const Declared> events, Output& out);
void emit_source(const Options& options, std::span<const Declared> events, Output& out);
void emit_ust_header(const Options& options, std::span<const Declared> events, Output& out);
void emit_ust_source(const Options& options, Output& out);
void emit_tapset(const Options& options, std::span<const Declared> events, Output& out);
void emit_log_tapset(const Options& options, std::span<const Declared> events, Output& out);
void emit_probes(const Options& options, std::span<const Declared> events, Output& out);
void emit_simpletrace_tapset(const Options& options, std::span<const Declared> events, Output& out);

}  // namespace trapline::tracetool
