#include "plugin/options.h"

#include <array>

#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/size.h"
#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

using Value = std::string_view;
using Setter = bool (*)(PluginOptions&, Value);

struct Option {
  std::string_view key;
  std::string_view values;
  std::string_view help;
  Setter set;
};

template <typename T>
bool choose(T& target, Value value, std::initializer_list<std::pair<Value, T>> choices) {
  for (const auto& [name, choice] : choices)
    if (name == value) {
      target = choice;
      return true;
    }
  return false;
}

constexpr std::uint64_t kSmallestBuffer = 4U << 10, kLargestBuffer = 64U << 20;

bool set_output(PluginOptions& o, Value v) {
  o.to_directory = v == "uftrace" || v == "both";
  o.to_ftrace = v == "ftrace" || v == "both";
  return o.to_directory || o.to_ftrace;
}

bool set_text(std::string& target, Value v) {
  target = v;
  return !v.empty();
}

bool set_size(std::uint64_t& target, Value v) {
  const auto size = parse_size("", v);
  if (size) target = *size;
  return size.has_value();
}

bool add_symbols(PluginOptions& o, Value v) {
  auto spec = parse_symbol_file_spec(v);
  if (spec) o.symbols.push_back(*spec);
  return spec.has_value();
}

constexpr std::array kOptions = {
    Option{"out", "DIR", "the uftrace data directory to write (default uftrace.data)",
           [](PluginOptions& o, Value v) { return set_text(o.out, v); }},
    Option{"symbols", "FILE[@OFFSET]", "ELF file, System.map or kallsyms of the guest; repeatable",
           add_symbols},
    Option{"contexts", "vcpu|privilege|stack", "which calls form one task (default vcpu)",
           [](PluginOptions& o, Value v) {
             return choose(o.contexts, v,
                           {{"vcpu", Contexts::kVcpu},
                            {"privilege", Contexts::kPrivilege},
                            {"stack", Contexts::kStack}});
           }},
    Option{"trace-privilege-level", "on|off", "on: contexts=privilege",
           [](PluginOptions& o, Value v) {
             return choose(o.contexts, v, {{"on", Contexts::kPrivilege}, {"off", Contexts::kVcpu}});
           }},
    Option{"level-names", "trapline|qemu",
           "names of privilege levels: EL1, Real (default), or NS-EL1, RealMode",
           [](PluginOptions& o, Value v) {
             return choose(o.level_names, v,
                           {{"trapline", LevelNames::kTrapline}, {"qemu", LevelNames::kQemu}});
           }},
    Option{"clock", "mono|boot|real|tsc", "the records' clock (default mono)",
           [](PluginOptions& o, Value v) {
             return choose(o.clock, v,
                           {{"mono", ClockChoice::kMono},
                            {"boot", ClockChoice::kBoot},
                            {"real", ClockChoice::kReal},
                            {"tsc", ClockChoice::kTsc}});
           }},
    Option{"mode", "instructions|frame-pointer", "how calls are found (default instructions)",
           [](PluginOptions& o, Value v) {
             return choose(o.mode, v,
                           {{"instructions", Detection::kInstructions},
                            {"frame-pointer", Detection::kFramePointer}});
           }},
    Option{"output", "uftrace|ftrace|both", "where calls are written (default uftrace)",
           set_output},
    Option{"instance", "NAME",
           "the ftrace instance for output=ftrace and both (default: that of the environment, else "
           "the top-level buffer)",
           [](PluginOptions& o, Value v) { return set_text(o.instance, v); }},
    Option{"tracefs", "DIR", "where tracefs is (default: where it is mounted)",
           [](PluginOptions& o, Value v) { return set_text(o.tracefs, v); }},
    Option{"include", "PATTERN|0xA-0xB", "record these functions only; repeatable",
           [](PluginOptions& o, Value v) {
             o.include.emplace_back(v);
             return !v.empty();
           }},
    Option{"exclude", "PATTERN|0xA-0xB", "do not record these functions; repeatable",
           [](PluginOptions& o, Value v) {
             o.exclude.emplace_back(v);
             return !v.empty();
           }},
    Option{"code", "symbols|0xA-0xB",
           "follow only this code: that of the symbol files, or a range; repeatable",
           [](PluginOptions& o, Value v) {
             if (v == "symbols") return o.code_of_symbols = true;
             AddressRange range;
             const bool good = parse_range(v, range);
             if (good) o.code.push_back(range);
             return good;
           }},
    Option{"min-duration", "TIME(ns|us|ms|s)", "leave out calls shorter than this (10us)",
           [](PluginOptions& o, Value v) {
             const auto time = parse_duration("min-duration", v);
             if (time) o.min_duration = *time;
             return time.has_value();
           }},
    Option{"max-depth", "N", "leave out calls deeper than this",
           [](PluginOptions& o, Value v) {
             const auto depth = parse_number(v);
             if (depth) o.max_depth = *depth;
             return depth.has_value() && *depth > 0;
           }},
    Option{"start", "FUNCTION|ADDRESS", "record from when this runs",
           [](PluginOptions& o, Value v) { return set_text(o.start, v); }},
    Option{"stop", "FUNCTION|ADDRESS", "stop recording when this runs",
           [](PluginOptions& o, Value v) { return set_text(o.stop, v); }},
    Option{"limit", "SIZE(K|M|G)", "stop recording when this much is written",
           [](PluginOptions& o, Value v) { return set_size(o.limit, v); }},
    Option{"buffer", "SIZE(K|M)",
           "memory for the records of one task, 4K to 64M (default 128K; contexts=stack: 64K)",
           [](PluginOptions& o, Value v) {
             return set_size(o.buffer, v) && o.buffer >= kSmallestBuffer &&
                    o.buffer <= kLargestBuffer;
           }},
    Option{"help", "on", "list the options and do not start",
           [](PluginOptions& o, Value v) {
             o.help = v == "on" || v == "true" || v == "yes";
             return true;
           }},
};

}  // namespace

bool parse_range(std::string_view text, AddressRange& range) {
  const std::size_t dash = text.find('-');
  if (dash == text.npos) return false;
  const auto start = parse_number(text.substr(0, dash));
  const auto end = parse_number(text.substr(dash + 1));
  if (!start || !end || *end <= *start) return false;
  range = {*start, *end};
  return true;
}

std::string plugin_help() {
  std::string text =
      "options of the trapline plugin (-plugin libtrapline_plugin.so,KEY=VALUE,...):\n";
  for (const Option& option : kOptions)
    text +=
        fmt::format("  {:<40} {}\n", fmt::format("{}={}", option.key, option.values), option.help);
  return text;
}

Result<PluginOptions> parse_plugin_options(std::span<const char* const> arguments) {
  PluginOptions options;
  for (const char* argument : arguments) {
    const std::string_view text = argument;
    const std::size_t equals = text.find('=');
    const std::string_view key = text.substr(0, equals);
    // QEMU makes "key=on" of a bare key.
    const std::string_view value = equals == text.npos ? "on" : text.substr(equals + 1);
    const Option* found = nullptr;
    for (const Option& option : kOptions)
      if (option.key == key) found = &option;
    if (found == nullptr) {
      std::vector<std::string_view> keys;
      for (const Option& option : kOptions) keys.push_back(option.key);
      const std::string_view near = nearest(key, keys);
      return fail(ErrorKind::kUsage, "no option is called '{}'{}; help=on lists them", key,
                  near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
    }
    if (!found->set(options, value))
      return fail(ErrorKind::kUsage, "{}={}: expected {}={}", key, value, key, found->values);
  }
  // A marker has the time at which it is written, and the length of a call is known only at its
  // end.
  if (options.to_ftrace && options.min_duration != 0)
    return fail(ErrorKind::kUsage,
                "min-duration= needs output=uftrace: a marker has the time at which it is written; "
                "select with include= or max-depth=");
  return options;
}

}  // namespace trapline
