// trapline top: shows live figures of this host's virtual machines.

#include <algorithm>

#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/text.h"
#include "merge/cli/common.h"
#include "merge/live/top.h"

namespace trapline::cli {
namespace {

struct TopArguments {
  live::TopOptions top;
  std::string by = "reason", sort, interval, save, color = "auto";
  bool no_sched = false;
  std::uint64_t memory_mb = 8;
};

// Checks the options and parses those that are stored as text.
Result<void> complete(TopArguments& options) {
  live::TopOptions& top = options.top;
  std::vector<Dimension>& by = top.engine.by;
  if (auto parsed = assign(by, parse_dimensions(options.by)); !parsed) return parsed;
  if (std::ranges::find(by, Dimension::kKernelFunction) != by.end()) {
    return fail(
        ErrorKind::kUsage,
        "--by kernel-function: needs a recording; use trapline report --by kernel-function");
  }
  const std::string sort = !options.sort.empty() ? options.sort : top.to_batch ? "total" : "share";
  if (auto parsed = assign(top.engine.sort, parse_sort(sort)); !parsed) return parsed;
  top.engine.chosen = shell_text(top.engine.which.vcpu_and_exit_words());
  if (!options.interval.empty()) {
    auto interval = parse_duration("--interval", options.interval, BareNumber::kSeconds);
    if (auto parsed = assign(top.engine.interval_ns, std::move(interval)); !parsed) return parsed;
    if (top.engine.interval_ns < 1'000'000) {
      return fail(ErrorKind::kUsage, "--interval {} is too short; give 1ms or more",
                  options.interval);
    }
  }
  if (!options.save.empty()) {
    auto save = parse_duration("--save-last", options.save, BareNumber::kSeconds);
    if (auto parsed = assign(top.save_ns, std::move(save)); !parsed) return parsed;
  }
  top.ring_bytes = options.memory_mb * kMib;
  top.colours = takes_colours(options.color);
  top.record.events.sched = !options.no_sched;
  top.record.trapline_version = TRAPLINE_VERSION;
  return {};
}

constexpr const char* kBy =
    "Rows by reason, detail, device, qemu-event, function, stack, vcpu, vm, cpu, nested, "
    "preempted-by, blocked-on, several with commas";

}  // namespace

void add_top(CLI::App& app, int& status) {
  auto options = std::make_shared<TopArguments>();
  live::TopOptions& top = options->top;
  CLI::App* command = app.add_subcommand("top", "Show live where the time of this host's VMs goes");
  command->add_option("session", top.input.paths,
                      "A session that is being written, or a recording (default: this host, "
                      "through an ftrace instance of its own)");
  const OptionGroup rest(*command, kRest), tables(*command, kTables), how(*command, kHow);
  rest.add("--instance", top.instance, "NAME", "Read this ftrace instance");
  rest.flag("--batch", top.to_batch, "Print a line of JSON for each interval");
  rest.add("--prometheus", top.prometheus, "FILE",
           "Write the figures into this file, in Prometheus' text format, each interval");
  rest.add("--listen", top.listen, "ADDR:PORT", "Serve them at http://ADDR:PORT/metrics");
  rest.add("--interval", options->interval, "TIME", "How long an interval is (default: 1s)");
  rest.add("--count", top.count, "", "End after N intervals, without the screen");
  tables.add("--by", options->by, "LIST", kBy)->capture_default_str();
  tables.add("--sort", options->sort, "COLUMN",
             "By a column, total or key (default: share; with --batch total)");
  tables.add("--top", top.engine.top, "", "Rows to print with --batch; 0: all")
      ->capture_default_str();
  add_selection(*command, top.engine.which, " (not waits and requests)");
  rest.flag("--no-sched", options->no_sched,
            "Record no scheduler events: preempted and blocked time counts as kernel or "
            "user time");
  rest.add("--save-last", options->save, "TIME",
           "How much the key w saves, if --memory holds that much (default: 60s)");
  rest.size("--buffer-size", top.record.buffer_kb, kKib, 64, 4 << 20, "Buffer for each CPU");
  rest.size("--memory", options->memory_mb, kMib, 1, 4096, "Memory for the last events");
  how.add("--symbols", top.input.symbols, "FILE[@OFFSET]",
          "Guest symbols: ELF, kallsyms, System.map; repeatable");
  how.add("--trace-events", top.input.trace_events, "FILE",
          "The trace-events-all of the running QEMU");
  add_color(OptionGroup(*command, kOutput), options->color);
  top.say = top.record.say = [](const std::string& line) { say(line); };
  on_run(*command, status, options, [](TopArguments& given) {
    const auto ready = complete(given);
    return ready ? live::run_top(given.top) : ready;
  });
}

}  // namespace trapline::cli
