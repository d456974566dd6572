// Generated code. For a group of events:
//
//   trace-GROUP.h        trace_NAME(): tests the state word, calls the out-of-line part
//   trace-GROUP.c        state words, registration, and for each event the calls of its backends
//   trace-ust-GROUP.h/.c LTTng-UST's tracepoint provider
//   GROUP.stp, GROUP-log.stp  SystemTap: probes with named arguments, and probes that print
//
// The C code is in the common subset of C11 and C++20; every function has C linkage. What QEMU's
// build asks for instead is in emit_qemu.h.
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
  std::string provider = "trapline";  // of UST and dtrace
  std::string binary;                 // in the tapset
  std::string probe_prefix;           // of the tapset: "qemu.system.x86_64"
  bool for_qemu = false;              // code for QEMU's tree, which links no library of ours
  [[nodiscard]] bool has(Backend backend) const;
};

// An event and the file that declares it.
struct Declared {
  const Event* event;
  const std::string* file;
};

// One file's text, built line by line; it knows its own line numbers for #line.
class Output {
 public:
  explicit Output(std::string path) : path_(std::move(path)) {}
  void line(std::string_view text);
  void blank() { line(""); }
  // What follows comes from a trace-events file, until end_origin().
  void origin(const std::string& file, std::uint32_t number);
  void end_origin();
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::string text_;
  std::size_t lines_ = 0;
};

// Whether the event is compiled at all.
[[nodiscard]] bool is_compiled(const Event& event, const Options& options);

// The argument's name in generated C and C++: keywords and common macros get a '_'.
[[nodiscard]] std::string c_name(const Argument& argument);
[[nodiscard]] std::string parameter_list(const Event& event);  // "int a, const char *b" or "void"
[[nodiscard]] std::string name_list(const Event& event);       // "a, b" or ""
[[nodiscard]] std::string upper(std::string_view name);

// Whether any backend is switched by the event's own state, not only by UST's and dtrace's
// switches.
[[nodiscard]] bool has_own_state(const Options& options);

// FUNCTION("NAME " FORMAT END, values); as a line of the trace-events file.
void emit_printing(std::string_view function, const Declared& declared, std::string_view end,
                   Output& out);

void emit_header(const Options& options, std::span<const Declared> events, Output& out);
void emit_source(const Options& options, std::span<const Declared> events, Output& out);
void emit_ust_header(const Options& options, std::span<const Declared> events, Output& out);
void emit_ust_source(const Options& options, Output& out);
void emit_tapset(const Options& options, std::span<const Declared> events, Output& out);
void emit_log_tapset(const Options& options, std::span<const Declared> events, Output& out);
void emit_simpletrace_tapset(const Options& options, std::span<const Declared> events, Output& out);

}  // namespace trapline::tracetool
