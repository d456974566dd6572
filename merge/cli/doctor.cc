// trapline doctor: what this host can record, and how well.
#include "merge/record/doctor.h"

#include <fmt/format.h>

#include <ostream>

#include "backend_ftrace/base/quoted_text.h"
#include "merge/cli/common.h"
#include "merge/record/running_qemu.h"

namespace trapline::cli {
namespace {

using record::Finding;
using record::Level;

struct DoctorArguments {
  std::string qemu, format = "text";
  Output output;
  std::uint64_t buffer_kb = 8192;
  bool verbose = false;
};

std::vector<Finding> examine(const DoctorArguments& options) {
  record::Host host = record::look_at_host();
  host.buffer_kb = options.buffer_kb;
  std::vector<Finding> all;
  const auto add = [&](const std::vector<Finding>& findings) {
    all.insert(all.end(), findings.begin(), findings.end());
  };
  add(record::check_tracefs(host));
  add(record::check_kvm(host));
  add(record::check_events(host));
  add(record::check_option_events(host));
  add(record::check_kernel_functions(host));
  add(record::check_clocks(host));
  add(record::check_buffer(host));
  add(record::check_disk(record::measure_disk("."), record::bytes_per_exit(host)));
  add(record::check_qemu(record::find_qemu(host, options.qemu)));
  add(record::check_running_qemus());
  add(record::check_worker());
  add(record::check_guest(host));
  return all;
}

// Prints the verdict, then what is missing; with `all` every finding.
void print_text(const std::vector<Finding>& findings, bool all, std::ostream& out,
                const TextStyle& style) {
  out << record::verdict_of(findings) << (all ? ".\n" : " (-v shows all).\n");
  for (const Finding& finding : findings) {
    if (!all && finding.level != Level::kMissing) continue;
    const std::string text = finding_text(finding);
    const std::string_view level = record::name_of(finding.level);
    const std::string_view look = finding.level == Level::kMissing   ? kAlarm
                                  : finding.level == Level::kLimited ? kBold
                                                                     : std::string_view();
    out << looking(look, level, style) << text.substr(level.size());
  }
}

void print_json(const std::vector<Finding>& findings, std::ostream& out) {
  out << fmt::format("{{\n  \"version\": 1,\n  \"worst\": {},\n  \"findings\": [",
                     json_string(record::name_of(record::worst_of(findings))));
  const char* separator = "\n";
  for (const Finding& finding : findings) {
    out << separator
        << fmt::format(
               "    {{\"check\": {}, \"level\": {}, \"found\": {}, \"cost\": {}, "
               "\"command\": {}, \"note\": {}}}",
               json_string(finding.check), json_string(record::name_of(finding.level)),
               json_string(finding.found), json_string(finding.cost), json_string(finding.command),
               json_string(finding.advice));
    separator = ",\n";
  }
  out << "\n  ]\n}\n";
}

Result<int> run_doctor(const DoctorArguments& options) {
  const std::vector<Finding> findings = examine(options);
  const auto printed = print_to(options.output, [&](std::ostream& out) {
    options.format == "json" ? print_json(findings, out)
                             : print_text(findings, options.verbose, out, style_of(options.output));
  });
  if (!printed) return tl::unexpected(printed.error());
  return record::worst_of(findings) == Level::kMissing ? 1 : 0;
}

}  // namespace

void add_doctor(CLI::App& app, int& status) {
  auto options = std::make_shared<DoctorArguments>();
  CLI::App* command = app.add_subcommand("doctor", "Check what this host can record, and how well");
  const OptionGroup rest(*command, kRest), output(*command, kOutput);
  output.choice("--format", options->format, {"text", "json"}, "json is for programs");
  rest.flag("-v,--verbose", options->verbose, "Also print what works, fully or with limits");
  rest.add("--qemu", options->qemu, "PROGRAM", "The QEMU to check (default: the first in PATH)");
  rest.size("--buffer-size", options->buffer_kb, kKib, 64, 4 << 20,
            "Check whether a buffer of this size for each CPU is enough");
  add_output(output, options->output);
  on_run(*command, status, options, run_doctor);
}

}  // namespace trapline::cli
