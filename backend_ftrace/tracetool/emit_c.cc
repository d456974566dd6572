// Generates trace-GROUP.h and trace-GROUP.c: everything except the files for LTTng and SystemTap.
#include <fmt/format.h>

#include "backend_ftrace/tracetool/emit.h"

namespace trapline::tracetool {
namespace {

std::string state_of(const Options& options, std::size_t index) {
  return fmt::format("trapline_states_{}[{}]", options.group, index);
}

std::string as_u64(const Argument& argument) {
  const bool integer = argument.kind == TypeKind::kSigned || argument.kind == TypeKind::kUnsigned;
  return integer ? fmt::format("TRAPLINE_AS(uint64_t, {})", c_name(argument))
                 : fmt::format("TRAPLINE_ADDRESS({})", c_name(argument));
}

void emit_simple(const Options& options, const Event& event, std::size_t index, Output& out) {
  const std::string id = fmt::format("trapline_events_{}[{}].id", options.group, index);
  bool strings = false;
  for (const Argument& argument : event.arguments) {
    strings = strings || argument.kind == TypeKind::kString;
  }
  if (event.arguments.empty()) {
    out.line(fmt::format("    trapline_simple_integers({}, NULL, 0);", id));
    return;
  }
  out.line("    {");
  out.line(strings ? "      struct trapline_simple_argument arguments[] = {"
                   : "      const uint64_t values[] = {");
  for (const Argument& argument : event.arguments) {
    if (!strings) {
      out.line(fmt::format("        {},", as_u64(argument)));
    } else if (argument.kind == TypeKind::kString) {
      out.line("        {NULL, 0},");
    } else {
      out.line(fmt::format("        {{NULL, {}}},", as_u64(argument)));
    }
  }
  out.line("      };");
  for (std::size_t i = 0; strings && i < event.arguments.size(); ++i) {
    if (event.arguments[i].kind != TypeKind::kString) continue;
    out.line(fmt::format("      arguments[{}] = trapline_simple_string({});", i,
                         c_name(event.arguments[i])));
  }
  out.line(fmt::format("      trapline_simple_{}({}, {}, {});", strings ? "mixed" : "integers", id,
                       strings ? "arguments" : "values", event.arguments.size()));
  out.line("    }");
}

void emit_function(const Options& options, const Declared& declared, std::size_t index,
                   Output& out) {
  const Event& event = *declared.event;
  out.line(fmt::format("void trapline_emit_{}({}) {{", event.name, parameter_list(event)));
  if (has_own_state(options)) {
    out.line(fmt::format("  if (trapline_state_is_on(&{})) {{", state_of(options, index)));
    if (options.has(Backend::kFtrace)) emit_printing("trapline_ftrace_event", declared, "", out);
    if (options.has(Backend::kSimple)) emit_simple(options, event, index, out);
    if (options.has(Backend::kLog)) emit_printing("trapline_log_event", declared, "", out);
    if (options.has(Backend::kSyslog)) emit_printing("trapline_syslog_event", declared, "", out);
    out.line("  }");
  }
  const std::string names = name_list(event);
  if (options.has(Backend::kUst)) {
    out.line(fmt::format("  lttng_ust_tracepoint({}, {}{}{});", options.provider, event.name,
                         names.empty() ? "" : ", ", names));
  }
  if (options.has(Backend::kDtrace)) {
    const std::string count = event.arguments.empty() ? "" : std::to_string(event.arguments.size());
    out.line(fmt::format("  STAP_PROBE{}({}, {}{}{});", count, options.provider, event.name,
                         names.empty() ? "" : ", ", names));
  }
  out.line("}");
  out.blank();
}

void emit_off(const Event& event, Output& out) {
  const std::string name = upper(event.name);
  out.line(fmt::format("#define TRACE_{}_ENABLED 0", name));
  out.line(fmt::format("#define TRACE_{}_BACKEND_DSTATE() false", name));
  out.line(fmt::format("static inline void trace_{}({}) {{", event.name, parameter_list(event)));
  for (const Argument& argument : event.arguments) {
    out.line(fmt::format("  (void){};", c_name(argument)));
  }
  out.line("}");
  out.blank();
}

void emit_on(const Options& options, const Event& event, std::size_t index, Output& out) {
  const std::string name = upper(event.name);
  std::string state;
  const auto add = [&](const std::string& condition) {
    state += (state.empty() ? "" : " || ") + condition;
  };
  if (has_own_state(options))
    add(fmt::format("trapline_state_is_on(&{})", state_of(options, index)));
  if (options.has(Backend::kDtrace)) {
    const std::string semaphore = fmt::format("{}_{}_semaphore", options.provider, event.name);
    out.line(fmt::format("extern unsigned short {};", semaphore));
    add(fmt::format("__builtin_expect(__atomic_load_n(&{}, __ATOMIC_RELAXED) != 0, 0)", semaphore));
  }
  if (options.has(Backend::kUst)) {
    const std::string point =
        fmt::format("lttng_ust_tracepoint_{}___{}", options.provider, event.name);
    out.line(fmt::format("extern struct lttng_ust_tracepoint {};", point));
    add(fmt::format("__builtin_expect(__atomic_load_n(&{}.state, __ATOMIC_RELAXED) != 0, 0)",
                    point));
  }
  out.line(fmt::format("#define TRACE_{}_ENABLED 1", name));
  out.line(fmt::format("#define TRACE_{}_BACKEND_DSTATE() ({})", name, state));
  out.line(fmt::format("void trapline_emit_{}({});", event.name, parameter_list(event)));
  out.line(fmt::format("static inline void trace_{}({}) {{", event.name, parameter_list(event)));
  out.line(fmt::format("  if (TRACE_{}_BACKEND_DSTATE()) trapline_emit_{}({});", name, event.name,
                       name_list(event)));
  out.line("}");
  out.blank();
}

std::string backend_mask(const Options& options) {
  std::string mask = "0";
  if (options.has(Backend::kLog)) mask += " | TRAPLINE_BACKEND_LOG";
  if (options.has(Backend::kSimple)) mask += " | TRAPLINE_BACKEND_SIMPLE";
  if (options.has(Backend::kFtrace)) mask += " | TRAPLINE_BACKEND_FTRACE";
  if (options.has(Backend::kSyslog)) mask += " | TRAPLINE_BACKEND_SYSLOG";
  return mask;
}

void emit_registration(const Options& options, std::span<const Declared> events,
                       std::size_t compiled, Output& out) {
  const std::string& group = options.group;
  out.line(fmt::format("uint32_t trapline_states_{}[{}];", group, compiled));
  out.blank();
  out.line(
      fmt::format("static struct trapline_event trapline_events_{}[{}] = {{", group, compiled));
  std::size_t index = 0;
  for (const Declared& declared : events) {
    if (!is_compiled(*declared.event, options)) continue;
    std::string types;
    for (const Argument& argument : declared.event->arguments) {
      types += argument.kind == TypeKind::kString ? 's' : 'i';
    }
    out.line(fmt::format("  {{\"{}\", \"{}\", &trapline_states_{}[{}], 0}},", declared.event->name,
                         types, group, index++));
  }
  out.line("};");
  out.blank();
  out.line(fmt::format("static struct trapline_event_group trapline_group_{0} = {{", group));
  out.line(fmt::format("  \"{0}\", trapline_events_{0}, {1}, {2}, NULL}};", group, compiled,
                       backend_mask(options)));
  out.blank();
  out.line("__attribute__((constructor)) static void trapline_register_group(void) {");
  out.line(fmt::format("  trapline_events_register(&trapline_group_{});", group));
  out.line("}");
  out.line("__attribute__((destructor)) static void trapline_unregister_group(void) {");
  out.line(fmt::format("  trapline_events_unregister(&trapline_group_{});", group));
  out.line("}");
  out.blank();
}

std::size_t count_compiled(const Options& options, std::span<const Declared> events) {
  std::size_t compiled = 0;
  for (const Declared& declared : events)
    compiled += is_compiled(*declared.event, options) ? 1u : 0u;
  return compiled;
}

constexpr std::string_view kNotice = "/* Generated by trapline-tracetool; do not edit. */";

}  // namespace

void emit_header(const Options& options, std::span<const Declared> events, Output& out) {
  const std::string guard = fmt::format("TRAPLINE_TRACE_{}_H", upper(options.group));
  const std::size_t compiled = count_compiled(options, events);
  out.line(kNotice);
  out.line(fmt::format("#ifndef {0}\n#define {0}\n", guard));
  out.line(
      "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <sys/types.h>");
  out.line("#include \"trapline/events.h\"");
  if (options.has(Backend::kUst) && compiled > 0) out.line("#include <lttng/tracepoint-types.h>");
  out.line("\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
  if (compiled > 0) {
    out.line(
        fmt::format("extern uint32_t trapline_states_{}[{}] "
                    "__attribute__((visibility(\"hidden\")));\n",
                    options.group, compiled));
  }
  std::size_t index = 0;
  for (const Declared& declared : events) {
    if (is_compiled(*declared.event, options)) {
      emit_on(options, *declared.event, index++, out);
    } else {
      emit_off(*declared.event, out);
    }
  }
  out.line("#ifdef __cplusplus\n}\n#endif\n\n#endif");
}

void emit_source(const Options& options, std::span<const Declared> events, Output& out) {
  const std::size_t compiled = count_compiled(options, events);
  out.line(kNotice);
  out.line(fmt::format("#include \"trace-{}.h\"\n", options.group));
  out.line("#include <inttypes.h>");
  if (compiled == 0) {
    out.line("typedef int trapline_group_is_empty;  /* C wants a declaration */");
    return;
  }
  if (options.has(Backend::kUst)) {
    out.line("#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored \"-Wpedantic\"");
    out.line(fmt::format("#include \"trace-ust-{}.h\"", options.group));
    out.line("#pragma GCC diagnostic pop");
  }
  if (options.has(Backend::kDtrace)) {
    out.line("#define _SDT_HAS_SEMAPHORES 1\n#include <sys/sdt.h>");
  }
  out.line("\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
  if (options.has(Backend::kDtrace)) {
    for (const Declared& declared : events) {
      if (!is_compiled(*declared.event, options)) continue;
      out.line(fmt::format("unsigned short {}_{}_semaphore __attribute__((section(\".probes\")));",
                           options.provider, declared.event->name));
    }
    out.blank();
  }
  emit_registration(options, events, compiled, out);
  std::size_t index = 0;
  for (const Declared& declared : events) {
    if (is_compiled(*declared.event, options)) emit_function(options, declared, index++, out);
  }
  out.line("#ifdef __cplusplus\n}\n#endif");
}

}  // namespace trapline::tracetool
