// The formats that the build of QEMU's own tree requests from its generator, one file per call. The
// files declare what QEMU's sources and its trace/control.h use (TraceEvent, _TRACE_NAME_EVENT,
// _TRACE_NAME_DSTATE, TRACE_NAME_ENABLED, TRACE_NAME_BACKEND_DSTATE), one line per event. The
// inline trace_NAME() only tests whether a backend wants the event; what the backends write is in
// one function per event, trapline_emit_NAME(), in the C file of the group. Rust calls the same
// function, so that an event says the same in both languages and through every backend.
#pragma once

#include <span>
#include <string_view>

#include "backend_ftrace/tracetool/emit.h"

namespace trapline::tracetool {

struct QemuFormat {
  std::string_view name;         // name for --format
  std::string_view description;  // for --help
  void (*emit)(const Options& options, std::span<const Declared> events, Output& out);
  bool wants_binary = false;        // needs --binary
  bool wants_probe_prefix = false;  // needs --probe-prefix
};

[[nodiscard]] std::span<const QemuFormat> qemu_formats();

void emit_qemu_header(const Options& options, std::span<const Declared> events, Output& out);
void emit_qemu_source(const Options& options, std::span<const Declared> events, Output& out);
void emit_qemu_rust(const Options& options, std::span<const Declared> events, Output& out);

}  // namespace trapline::tracetool
