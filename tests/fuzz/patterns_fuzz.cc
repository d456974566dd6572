// What a user types: durations, times, names with * and ?, expressions, specifications, options of
// the plugin, QEMU's command line. The first byte chooses.
#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/events/pattern_list.h"
#include "merge/analyze/guest_intervals.h"
#include "merge/clock/alignment.h"
#include "merge/compare/compare_fail_if.h"
#include "merge/pass/selection.h"
#include "merge/record/cgroups.h"
#include "merge/record/qemu_command.h"
#include "merge/record/trigger.h"
#include "merge/record/vm_names.h"
#include "merge/report/groups.h"
#include "merge/report/options.h"
#include "merge/report/phases.h"
#include "plugin/format/symbol_table.h"
#include "plugin/options.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"

namespace {

using namespace trapline;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) lines.emplace_back(take_line(text));
  return lines;
}

// Nothing else may have the meaning that * and ? have.
bool matches_slowly(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*') {
    return matches_slowly(pattern.substr(1), name) ||
           (!name.empty() && matches_slowly(pattern, name.substr(1)));
  }
  return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) &&
         matches_slowly(pattern.substr(1), name.substr(1));
}

void read_patterns(std::string_view input) {
  const std::string_view pattern = take_line(input);
  const bool matched = matches(pattern, input);
  if (pattern.size() < 8 && input.size() < 16)
    fuzz::hold(matched == matches_slowly(pattern, input), "a pattern matches otherwise");
  const auto names = lines_of(input);
  const std::vector<std::string_view> views(names.begin(), names.end());
  (void)nearest(pattern, views);
  (void)record::parse_cpu_stat(input);
  (void)record::cpu_cgroup_of(input);
  (void)record::Cgroups(input);
}

void read_list(std::string_view input) {
  std::string list(input.substr(0, input.find('\0')));
  // No other file is opened than those that the target made.
  for (auto at = list.find("file="); at != std::string::npos; at = list.find("file="))
    list[at] = 'x';
  static const fuzz::MemoryFile file;
  file.fill(list);
  const PatternVisitor visitor{[](const char* text, bool, void*) { (void)std::string(text); },
                               [](const char*, const char*, const char*, void*) {}, nullptr};
  visit_pattern_list(list.c_str(), visitor);
  visit_pattern_file(file.path().c_str(), visitor);
}

void read_specs(std::string_view input) {
  (void)parse_time_spec("--from", input);
  (void)parse_sort(input);
  (void)parse_dimensions(input, "span");
  (void)parse_request_spec(input);
  (void)parse_phase_spec(input);
  (void)parse_fail_condition(input);
  (void)clocks::parse_offset(input);
  (void)parse_symbol_file_spec(input);
  (void)parse_duration("--slower-than", input);
  (void)record::parse_functions(input);
  if (const auto spec = parse_guest_span(input)) (void)told_length(spec->marker, input);
  if (const auto trigger = record::parse_trigger(input))
    fuzz::hold(trigger->text == input, "a trigger is not what was given");
}

void read_plugin_options(std::string_view input) {
  const auto lines = lines_of(input);
  std::vector<const char*> words;
  for (const std::string& line : lines) words.push_back(line.c_str());
  (void)parse_plugin_options(words);
}

void read_qemu_command(std::string_view input) {
  auto words = lines_of(input);
  if (words.empty()) return;
  (void)record::is_qemu(words[0]);
  (void)record::qemu_vm_name(words);
  (void)record::vm_name_of(words);
  (void)record::vm_name_of_cgroup(words.empty() ? "" : words.front());
  record::QemuFacts facts;
  record::QemuOptions requested;
  requested.events = {"memory_region_ops_*"};
  requested.marker = "/marker";
  requested.plugin = "plugin.so";
  requested.functions = record::Functions::kUftrace;
  requested.plugin_out = "out";
  for (const auto tracing : {record::QemuTracing::kLog, record::QemuTracing::kFtrace}) {
    facts.tracing = tracing;
    const auto done = record::complete_qemu(words, facts, requested);
    fuzz::hold(!done || !done->words.empty(), "a command line without words");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input = fuzz::text_of(data, size).substr(1);
  fuzz::bounded(size, [&] {
    switch (data[0] % 5) {
      case 0:
        return read_patterns(input);
      case 1:
        return read_list(input);
      case 2:
        return read_specs(input);
      case 3:
        return read_plugin_options(input);
      default:
        return read_qemu_command(input);
    }
  });
  return 0;
}
