#include "backend_ftrace/tracetool/emit_qemu.h"

#include <array>

namespace trapline::tracetool {

std::span<const QemuFormat> qemu_formats() {
  static constexpr std::array<QemuFormat, 10> kFormats{{
      {"c", "trace-GROUP.c: registration, and what the backends write", emit_qemu_source},
      {"d", "trace-dtrace-GROUP.dtrace: the probes, for dtrace(1)", emit_probes},
      {"h", "trace-GROUP.h: trace_NAME() and the guards", emit_qemu_header},
      {"log-stap", "tapset that prints as the log backend does", emit_log_tapset, false, true},
      {"o", "trace-dtrace-GROUP.o: what dtrace -G makes of the probes", emit_probes},
      {"rs", "trace-GROUP.rs: trace_NAME() for QEMU's Rust code", emit_qemu_rust},
      {"simpletrace-stap", "tapset that prints simpletrace records", emit_simpletrace_tapset, false,
       true},
      {"stap", "tapset: the probes with named arguments", emit_tapset, true, true},
      {"ust-events-c", "trace-ust-GROUP.c: LTTng's provider",
       [](const Options& options, std::span<const Declared>, Output& out) {
         emit_ust_source(options, out);
       }},
      {"ust-events-h", "trace-ust-GROUP.h: LTTng's tracepoints", emit_ust_header},
  }};
  return kFormats;
}

}  // namespace trapline::tracetool
