// The examples in each command's --help: one row for a command, "" for trapline itself. man_test
// compares them with the man pages, and help_test runs them.
#include <array>
#include <string_view>

#include "merge/cli/help.h"

namespace trapline::cli {
namespace {

struct Row {
  std::string_view command;
  std::array<std::string_view, 3> lines;
};
constexpr Row kRows[] = {
    {"", {"trapline doctor", "trapline report run --by reason,device", "trapline help recording"}},
    {"record",
     {"trapline record -o run -- qemu-system-x86_64 -accel kvm disk.img",
      "trapline record --sched --pid 4711 --duration 10s",
      "trapline record --snapshot-on 'exit > 500us' --around 100ms --duration 1h"}},
    {"report",
     {"trapline report run --by reason,device --top 10",
      "trapline report run --slower-than 500us --from +1s --to +2s",
      "trapline report run --format html -o run.html"}},
    {"explain",
     {"trapline explain run", "trapline explain run --around +1.5s",
      "trapline explain run --vcpu 0 --format json"}},
    {"stalls",
     {"trapline stalls run", "trapline stalls run --min 200ms --vcpu 0",
      "trapline stalls run --format json -o stalls.json"}},
    {"advise",
     {"trapline advise run", "trapline advise run --vcpu 0 --from +1s",
      "trapline advise run --format json -o advice.json"}},
    {"top",
     {"trapline top", "trapline top --by reason,device --batch --count 10 > figures.jsonl",
      "trapline top --prometheus /var/lib/node_exporter/trapline.prom > /dev/null"}},
    {"snapshot",
     {"trapline snapshot", "trapline snapshot /var/lib/trapline/flight",
      "trapline snapshot /var/lib/trapline/flight --why 'web01 did not answer'"}},
    {"bench",
     {"trapline bench --a '-m 512' --b '-m 1024' -- qemu-system-x86_64 -accel kvm",
      "trapline bench --a '-smp 1' --b '-smp 2' -n 10 -- qemu-system-x86_64",
      "trapline bench --a 'qemu-system-x86_64 -m 512' --b 'firecracker'"}},
    {"diff",
     {"trapline diff before after", "trapline diff --before a1 a2 a3 --after b1 b2 b3",
      "trapline diff --before a1 a2 a3 --after b1 b2 b3 --fail-if 'mean(io) > +10%'"}},
    {"timeline",
     {"trapline timeline run --around max", "trapline timeline run --from +1s --to +1100ms",
      "trapline timeline run --around max --reason io --context 400us"}},
    {"export",
     {"trapline export run --format perfetto -o run.pftrace",
      "trapline export run --format jsonl --rows exits --host db7 -o run.jsonl",
      "trapline export run --format folded --weight user -o run.folded"}},
    {"doctor",
     {"trapline doctor", "trapline doctor --format json -o doctor.json",
      "trapline doctor --buffer-size 32M --qemu qemu-system-x86_64"}},
    {"info", {"trapline info run", "trapline info trace.dat", "trapline info run -o info.txt"}},
    {"print",
     {"trapline print trace-4711 --events trace-events-all",
      "trapline print trace-4711 --events trace-events-all --format text",
      "trapline print trace-4711 --events trace-events-all | head"}},
    {"events",
     {"trapline events --qmp vm.qmp 'memory_region_ops_*'",
      "trapline events --qmp vm.qmp 'memory_region_ops_*' on",
      "trapline events --monitor program.sock --trace-file flush"}},
    {"symbols",
     {"trapline symbols -o uftrace.data vmlinux", "trapline symbols -o uftrace.data System.map",
      "trapline symbols -o uftrace.data --prefix --no-lines vmlinux"}},
    {"sync",
     {"trapline sync --rounds 100 --interval 10ms > sync.txt &",
      "trapline sync --port 0 --ptp /dev/ptp1 --rounds 10 --interval 10ms",
      "trapline sync --rounds 1 --marker /sys/kernel/tracing/trace_marker"}},
    {"help", {"trapline help", "trapline help exit-model", "trapline help record"}},
};

}  // namespace

std::span<const std::string_view> examples_of(std::string_view command) {
  for (const Row& row : kRows)
    if (row.command == command) return row.lines;
  return {};
}

}  // namespace trapline::cli
