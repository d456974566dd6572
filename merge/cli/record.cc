// trapline record: one session of kernel, QEMU and guest.
#include <fmt/format.h>

#include <cstdio>
#include <limits>

#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/text.h"
#include "merge/cli/commands.h"
#include "merge/cli/common.h"
#include "merge/cli/finding_text.h"
#include "merge/record/doctor.h"
#include "merge/record/flight_store.h"
#include "merge/record/recorder.h"
#include "merge/session/finish.h"

namespace trapline::cli {
namespace {

struct RecordArguments {
  record::RecordOptions record;
  std::string duration, functions, finish;
  std::optional<std::string> snapshot_on;
  std::string around;
  std::optional<std::uint64_t> ring_mb;
  std::string flight, spacing;
  std::uint64_t budget_mb = record::FlightWish().budget_mb;
  bool no_qemu_events = false;
};

Result<void> read_snapshot(RecordArguments& options) {
  if (!options.snapshot_on) return {};
  auto trigger = record::parse_trigger(*options.snapshot_on);
  if (!trigger) return tl::unexpected(std::move(trigger).error());
  record::SnapshotWish wish;
  wish.trigger = std::move(*trigger);
  wish.ring_mb = options.ring_mb.value_or(record::kDefaultRingMb);
  if (!options.around.empty()) {
    const auto around = parse_duration("--around", options.around);
    if (!around) return tl::unexpected(around.error());
    wish.around_ns = *around;
  }
  options.record.snapshot = std::move(wish);
  return {};
}

// What cannot be recorded here, in the doctor's words; errors of the recorder come after them.
void say_what_is_missing(const record::RecordOptions& options) {
  const record::Host host = record::look_at_host("");
  std::vector<record::Finding> findings = record::check_tracefs(host);
  if (options.events.kvm) {
    for (record::Finding& finding : record::check_events(host)) {
      findings.push_back(std::move(finding));
    }
  }
  for (const record::Finding& finding : findings) {
    if (finding.level != record::Level::kMissing) continue;
    const std::string text = finding_text(finding);
    (void)std::fwrite(text.data(), 1, text.size(), stderr);
  }
}

Result<void> read_flight(RecordArguments& options, bool folder_given) {
  if (options.flight.empty()) {
    if (!options.ring_mb || options.snapshot_on) return {};
    return fail(ErrorKind::kUsage, "--ring-size: memory for --flight or --snapshot-on; give one");
  }
  record::FlightWish wish;
  const auto span = parse_duration("--flight", options.flight);
  if (!span) return tl::unexpected(span.error());
  if (*span == 0) return fail(ErrorKind::kUsage, "--flight 0 holds nothing; use 60s");
  wish.span_ns = *span;
  if (!options.spacing.empty()) {
    const auto spacing = parse_duration("--spacing", options.spacing);
    if (!spacing) return tl::unexpected(spacing.error());
    wish.spacing_ns = *spacing;
  }
  wish.ring_mb = options.ring_mb.value_or(wish.ring_mb);
  wish.budget_mb = options.budget_mb;
  if (wish.budget_mb < 2 * wish.ring_mb) {
    return fail(
        ErrorKind::kUsage,
        "--disk-budget {}: a snapshot may take {} MiB (--ring-size, and the kernel's symbols); "
        "give at least {}",
        wish.budget_mb, wish.ring_mb + 16, 2 * wish.ring_mb);
  }
  if (!options.record.command.empty()) {
    return fail(ErrorKind::kUsage,
                "--flight records the whole host, or --pid PID, and starts no COMMAND; start it "
                "yourself, then give --pid");
  }
  if (!folder_given) options.record.folder = record::kDefaultFlightFolder;
  options.record.flight = wish;
  return {};
}

// The session of a recorder that was killed.
Result<int> finish(const std::string& session) {
  const auto finished = finish_session(session);
  if (!finished) return tl::unexpected(finished.error());
  say(fmt::format(
      "{}: {}", session,
      *finished == Finish::kFinished ? "trace.dat is whole now" : "there was nothing to finish"));
  return 0;
}

Result<int> run_record(RecordArguments& options, bool folder_given) {
  if (!options.finish.empty()) return finish(options.finish);
  record::RecordOptions& record = options.record;
  if (!options.duration.empty()) {
    const auto duration = parse_duration("--duration", options.duration, BareNumber::kSeconds);
    if (!duration) return tl::unexpected(duration.error());
    if (*duration == 0) return fail(ErrorKind::kUsage, "--duration 0 records nothing; use 10s");
    record.duration_ns = *duration;
  }
  if (!options.functions.empty()) {
    const auto functions = record::parse_functions(options.functions);
    if (!functions) return tl::unexpected(functions.error());
    record.functions = *functions;
  }
  if (auto read = read_snapshot(options); !read) return tl::unexpected(std::move(read).error());
  if (auto read = read_flight(options, folder_given); !read)
    return tl::unexpected(std::move(read).error());
  if (options.no_qemu_events) {
    record.qemu_events.clear();
  } else if (record.qemu_events.empty()) {
    record.qemu_events.emplace_back(record.kDefaultQemuEvents);
  }
  record.trapline_version = TRAPLINE_VERSION;
  record.say = [](const std::string& line) { say(line); };
  say_what_is_missing(record);
  return record::record(record);
}

// Which of the events are written: around slow exits, or the last minute on request.
void add_snapshots(CLI::App& command, RecordArguments& options) {
  auto* trigger = command
                      .add_option("--snapshot-on", options.snapshot_on,
                                  "Keep only the time around exits like 'exit > 500us'")
                      ->type_name("EXPR");
  command
      .add_option("--around", options.around,
                  "How much to keep before and after each exit of --snapshot-on (default: 1s)")
      ->type_name("TIME")
      ->needs(trigger);
  auto* flight = command
                     .add_option("--flight", options.flight,
                                 "Keep the last TIME of events in memory, and write them only on "
                                 "request: trapline snapshot, SIGUSR1, --snapshot-on")
                     ->type_name("TIME");
  command
      .add_option("--spacing", options.spacing,
                  "With --flight: at most one snapshot within this time (default: 5m)")
      ->type_name("TIME")
      ->needs(flight);
  command
      .add_option(
          "--disk-budget", options.budget_mb,
          "With --flight: disk space for all snapshots, in MiB; beyond it the oldest is deleted")
      ->type_name("MIB")
      ->capture_default_str()
      ->needs(flight);
  command
      .add_option("--ring-size", options.ring_mb,
                  "Memory for events that may still be written, in MiB (default: 16 with "
                  "--snapshot-on, 64 with --flight)")
      ->type_name("MIB")
      ->check(CLI::Range(1, 4096));
}

}  // namespace

// More than 60 lines: the options of the command, one after the other.
void add_record(CLI::App& app, int& status) {
  auto options = std::make_shared<RecordArguments>();
  record::RecordOptions& record = options->record;
  CLI::App* command = app.add_subcommand("record", "Record a session: kernel, QEMU and guest");
  auto* folder =
      command
          ->add_option("-o,--output", record.folder,
                       fmt::format("The session's folder (default: {}; with --flight: {})",
                                   record.folder, record::kDefaultFlightFolder))
          ->type_name("DIR")
          ->capture_default_str();
  command->add_option("--pid", record.pid, "Record this process, with all of its threads")
      ->type_name("PID")
      ->check(CLI::Range(1, std::numeric_limits<int>::max()));
  command->add_option("--duration", options->duration, "Stop after this time (and end COMMAND)")
      ->type_name("TIME");
  command->add_flag("--kvm,!--no-kvm", record.events.kvm, "KVM's events (on unless --no-kvm)");
  command->add_flag("--sched", record.events.sched, "Scheduler events: blocked and preempted time");
  command->add_flag("--irq", record.events.irq, "The host's interrupts");
  command->add_flag("--syscalls", record.events.syscalls, "All system calls");
  command->add_flag("--block", record.events.block, "Reads and writes of the host's disks");
  command
      ->add_option("--events", record.events.patterns,
                   "More kernel events: SYSTEM or SYSTEM:NAME, with *")
      ->type_name("PATTERN")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_qemu_events(*command, record.qemu_events, options->no_qemu_events);
  command->add_flag("--functions{uftrace}", options->functions,
                    "Record the guest's functions (QEMU under TCG) into uftrace.data; "
                    "--functions=ftrace: into the recording; --functions=both: into both");
  command->add_option("--instance", record.instance, "The name of the ftrace instance to make")
      ->type_name("NAME");
  command->add_flag("--follow", record.follow,
                    "Write events within a tenth of a second, for readers of the growing session");
  command
      ->add_option(
          "--finish", options->finish,
          "Record nothing: complete trace.dat in the session of a recorder that was killed")
      ->type_name("DIR");
  command
      ->add_option("--symbols", record.symbols,
                   "The guest's symbols, kept in the session (default: -kernel, if it is ELF)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->add_option("--user", record.user, "Run COMMAND as this user")->type_name("NAME");
  command->add_option("--clock", record.clock, "The recording's clock")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--buffer-size", record.buffer_kb, "Buffer for each CPU, in KiB")
      ->type_name("KIB")
      ->check(CLI::Range(64, 4 << 20))
      ->capture_default_str();
  add_snapshots(*command, *options);
  command->add_option("COMMAND", record.command, "What to run and record, after --");
  command->callback([options, folder, &status] {
    auto done = run_record(*options, folder->count() != 0);
    status = done ? *done : fail_with(done.error());
  });
}

}  // namespace trapline::cli
