// trapline sync: runs inside a guest and relates the guest's clocks to the host's.
// docs/examples/sync/trapline-sync.c, which also builds on its own, does the work.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "backend_ftrace/base/duration.h"
#include "merge/cli/common.h"

extern "C" int trapline_sync_main(int argc, char** argv);

namespace trapline::cli {
namespace {

struct SyncArguments {
  unsigned port = 0x80;
  unsigned long mmio = 0;
  std::string ptp = "/dev/ptp_kvm";
  std::string marker = "/sys/kernel/tracing/trace_marker";
  std::string interval = "1s";
  unsigned rounds = 0;  // 0: until it is ended
};

Result<int> run_sync(const SyncArguments& o) {
  constexpr std::uint64_t kMillisecond = 1'000'000, kMost = 3'600'000;
  const auto interval = parse_duration("--interval", o.interval);
  if (!interval) return tl::unexpected(interval.error());
  if (*interval % kMillisecond != 0 || *interval == 0 || *interval / kMillisecond > kMost) {
    return fail(ErrorKind::kUsage,
                "--interval: {} is out of range; give whole milliseconds, 1ms to 1h", o.interval);
  }
  std::vector<std::string> words{"trapline sync"};
  const auto add = [&words](const char* option, const std::string& value) {
    words.insert(words.end(), {option, value});
  };
  add("-p", std::to_string(o.port));
  add("-m", std::to_string(o.mmio));
  add("-d", o.ptp);
  add("-t", o.marker);
  add("-i", fmt::format("{}ms", *interval / kMillisecond));
  if (o.rounds != 0) add("-n", std::to_string(o.rounds));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::optind = 1;
  return trapline_sync_main(static_cast<int>(words.size()), arguments.data());
}

}  // namespace

void add_sync(CLI::App& app, int& status) {
  auto options = std::make_shared<SyncArguments>();
  CLI::App* command = app.add_subcommand(
      "sync", "In a guest: read its clocks, to align its recordings with the host's");
  const OptionGroup rest(*command, kRest);
  rest.add("--port", options->port, "PORT", "I/O port to write to (x86, as root); 0: none")
      ->transform(in_range(0U, 0xffffU))
      ->capture_default_str();
  rest.add("--mmio", options->mmio, "ADDRESS",
           "Physical address of a device register to write to, through /dev/mem; the write "
           "must be harmless");
  rest.add("--ptp", options->ptp, "DEVICE", "The PTP_KVM device")->capture_default_str();
  rest.add("--marker", options->marker, "FILE", "The guest's trace_marker")->capture_default_str();
  rest.add("--interval", options->interval, "TIME", "Time between two rounds")
      ->capture_default_str();
  rest.add("--rounds", options->rounds, "",
           "How many rounds of readings; without it until it is ended (Ctrl-C, SIGTERM), "
           "and then one more")
      ->transform(in_range(1U, 4294967295U));
  on_run(*command, status, options, run_sync);
}

}  // namespace trapline::cli
