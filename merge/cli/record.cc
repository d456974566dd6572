// trapline record: records one session of kernel, QEMU and guest.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "backend_ftrace/base/duration.h"
#include "merge/cli/common.h"
#include "merge/record/doctor.h"
#include "merge/record/flight_store.h"
#include "merge/record/recorder.h"
#include "merge/record/running_qemu.h"
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
  std::uint64_t budget_mb = record::FlightOptions().budget_mb;
  bool no_qemu_events = false;
  std::string domain, connect, qmp;
};

Result<void> read_snapshot(RecordArguments& options) {
  if (!options.snapshot_on) return {};
  record::SnapshotOptions requested;
  auto trigger = assign(requested.trigger, record::parse_trigger(*options.snapshot_on));
  if (!trigger) return trigger;
  if (requested.trigger.stall) options.record.events.stalls = true;
  requested.ring_mb = options.ring_mb.value_or(requested.ring_mb);
  if (!options.around.empty()) {
    auto around = assign(requested.around_ns, parse_duration("--around", options.around));
    if (!around) return around;
  }
  options.record.snapshot = std::move(requested);
  return {};
}

// Says in the doctor's words what cannot be recorded here, before the recorder reports its errors.
void say_what_is_missing(const record::RecordOptions& options) {
  const record::Host host = record::look_at_host();
  std::vector<record::Finding> findings = record::check_tracefs(host);
  if (options.events.kvm) {
    for (record::Finding& finding : record::check_events(host))
      findings.push_back(std::move(finding));
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
  record::FlightOptions requested;
  auto span = assign(requested.span_ns, parse_duration("--flight", options.flight));
  if (!span) return span;
  if (requested.span_ns == 0) return fail(ErrorKind::kUsage, "--flight 0 holds nothing; use 60s");
  if (!options.spacing.empty()) {
    auto spacing = assign(requested.spacing_ns, parse_duration("--spacing", options.spacing));
    if (!spacing) return spacing;
  }
  requested.ring_mb = options.ring_mb.value_or(requested.ring_mb);
  requested.budget_mb = options.budget_mb;
  if (requested.budget_mb < 2 * requested.ring_mb) {
    return fail(ErrorKind::kUsage,
                "--disk-budget {}: a snapshot may take {} (--ring-size, and the kernel's symbols); "
                "give at least {}",
                size_text(requested.budget_mb * kMib), size_text((requested.ring_mb + 16) * kMib),
                size_text(2 * requested.ring_mb * kMib));
  }
  if (!options.record.command.empty()) {
    return fail(ErrorKind::kUsage,
                "--flight records the whole host, or --pid PID, and starts no COMMAND; start it "
                "yourself, then give --pid");
  }
  if (!folder_given) options.record.folder = record::kDefaultFlightFolder;
  options.record.flight = requested;
  return {};
}

// Completes the session of a recorder that was killed.
Result<int> finish(const std::string& session) {
  std::uint64_t torn = 0;
  const auto finished = finish_session(session, &torn);
  if (!finished) return tl::unexpected(finished.error());
  if (torn != 0) {
    return fail(
        ErrorKind::kDamaged,
        "{}: trace.dat is complete but for {} pages of events, which the disk does not give "
        "back as they were written: they are lost",
        session, torn);
  }
  say(fmt::format(
      "{}: {}", session,
      *finished == Finish::kFinished ? "trace.dat is whole now" : "there was nothing to finish"));
  return 0;
}

// With --from-instance or --finish, refuses options that choose what to record.
Result<void> check_chooses_nothing(const CLI::App& command, std::string_view given,
                                   std::initializer_list<const char*> together) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 ||
        std::ranges::any_of(together, [option](auto* name) { return option->check_name(name); }))
      continue;
    return fail(ErrorKind::kUsage,
                "{}: takes what is recorded already; leave out {}, which says what to record",
                given, option->get_name());
  }
  return {};
}

// Finds a QEMU that runs already, by its libvirt domain or by its QMP socket, to switch its events.
Result<void> find_running(RecordArguments& options) {
  record::RecordOptions& record = options.record;
  if (options.domain.empty() && options.qmp.empty()) return {};
  if (!record.command.empty())
    return fail(ErrorKind::kUsage, "--domain and --qmp record a QEMU that runs; give no COMMAND");
  if (record.flight)
    return fail(ErrorKind::kUsage,
                "--flight holds no events of QEMU, which --domain and --qmp switch on; give the "
                "PID of its process instead: --flight TIME --pid PID");
  auto found = options.qmp.empty() ? record::find_domain(options.domain, options.connect)
                                   : record::find_qmp(options.qmp, record.pid);
  if (!found) return tl::unexpected(std::move(found).error());
  record.pid = found->pid;
  record.monitor = std::move(found->monitor);
  return {};
}

Result<int> run_record(RecordArguments& options, const CLI::App& command) {
  if (!options.finish.empty()) {
    if (auto checked = check_chooses_nothing(command, "--finish", {"--finish"}); !checked)
      return tl::unexpected(std::move(checked).error());
    return finish(options.finish);
  }
  const bool folder_given = command.count("--output") != 0;
  if (options.record.from_instance) {
    if (auto checked = check_chooses_nothing(command, "--from-instance",
                                             {"--from-instance", "--output", "--symbols"});
        !checked)
      return tl::unexpected(std::move(checked).error());
  }
  record::RecordOptions& record = options.record;
  if (record.folder == "-")
    return fail(ErrorKind::kUsage, "-o -: a session is a folder; give its name");
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
    if (record.events.stalls) record.qemu_events.emplace_back("vm_state_notify");
  }
  if (auto found = find_running(options); !found) return tl::unexpected(std::move(found).error());
  record.trapline_version = TRAPLINE_VERSION;
  record.say = [](const std::string& line) { say(line); };
  if (!record.from_instance) say_what_is_missing(record);
  return record::record(record);
}

// Adds the options that choose which events are written: those around slow exits, or the last
// minute on request.
void add_snapshots(CLI::App& command, RecordArguments& options) {
  const OptionGroup snapshots(command, kSnapshot);
  auto* trigger =
      snapshots.add("--snapshot-on", options.snapshot_on, "EXPR",
                    "Keep what is around 'exit > 1ms' (any but a halt), 'exit(REASON) > 1ms', "
                    "'stall > 50ms' (several exits)");
  snapshots
      .add("--around", options.around, "TIME", "Kept before and after each of them (default: 1s)")
      ->needs(trigger);
  auto* flight = snapshots
                     .add("--flight", options.flight, "TIME",
                          "Hold the last TIME in memory, for trapline snapshot")
                     ->excludes(command.get_option("--follow"));
  snapshots.rare()
      .add("--spacing", options.spacing, "TIME",
           "With --flight: at most one snapshot within this time (default: 5m)")
      ->needs(flight);
  snapshots.rare()
      .size("--disk-budget", options.budget_mb, kMib, 1, 1 << 30,
            "With --flight: disk space for all snapshots; beyond it the oldest is deleted")
      ->needs(flight);
  snapshots.rare().size("--ring-size", options.ring_mb, kMib, 1, 4096,
                        "Memory for events that may still be written (default: 16M with "
                        "--snapshot-on, 64M with --flight)");
}

void add_kernel_events(CLI::App& command, record::RecordOptions& options) {
  record::EventChoice& choice = options.events;
  const OptionGroup events(command, kEvents);
  events.flag("--kvm,!--no-kvm", choice.kvm, "KVM's events (on unless --no-kvm)");
  events.flag("--sched", choice.sched, "Scheduler events: blocked and preempted time");
  events.flag("--stalls", choice.stalls, "Events for trapline stalls, and those of --sched");
  events.flag("--faults", choice.faults, "Events for report --faults, and those of --sched");
  events.flag("--host-cpu", choice.host_cpu, "Events for report --host-cpu, and those of --sched");
  events.flag("--irq", choice.irq, "The host's interrupts, not those of report --irq");
  events.flag("--syscalls", choice.syscalls, "All system calls");
  events.flag("--block", choice.block, "The host's disks: for report --waits, --by span");
  events.flag("--kernel-functions", options.kernel_functions,
              "Functions of kvm.ko and such (Linux 6.11+; slow)");
  events
      .add("--events", choice.patterns, "PATTERN",
           "More kernel events: SYSTEM or SYSTEM:NAME, with *")
      ->delimiter(',')
      ->allow_extra_args(false);
}

}  // namespace

void add_record(CLI::App& app, int& status) {
  auto options = std::make_shared<RecordArguments>();
  record::RecordOptions& record = options->record;
  CLI::App* command =
      app.add_subcommand("record", "Record a VM, a command or, given neither, the whole host");
  const OptionGroup what(*command, kWhat), qemu(*command, kQemu), buffer(*command, kBuffer);
  const OptionGroup rare = OptionGroup(*command, kRest).rare();
  what.add("-o,--output", record.folder, "DIR", "The session's folder")->capture_default_str();
  auto* pid = what.add("--pid", record.pid, "PID", "Record this process, with all of its threads")
                  ->transform(in_range(1, std::numeric_limits<int>::max()));
  auto* domain =
      what.add("--domain", options->domain, "NAME", "Record this VM of libvirt, with QEMU's events")
          ->excludes(pid);
  rare.add("--connect", options->connect, "URI", "libvirt's, as for virsh")->needs(domain);
  what.add("--qmp", options->qmp, "SOCKET", "Record the QEMU of this QMP socket, with its events")
      ->excludes(domain);
  what.add("--duration", options->duration, "TIME", "Stop after this time (and end COMMAND)");
  add_kernel_events(*command, record);
  add_qemu_events(*command, kQemu, record.qemu_events, options->no_qemu_events);
  qemu.flag("--functions{uftrace}", options->functions,
            "Functions of a TCG guest: =uftrace, =ftrace, =both");
  rare.add("--instance", record.instance, "NAME", "The name of the ftrace instance to make");
  rare.add("--from-instance", record.from_instance, "NAME",
           "Record nothing: take what the ftrace instance NAME, which somebody else has set up, "
           "holds already");
  rare.flag("--follow", record.follow,
            "Write events within a tenth of a second, for readers of the growing session");
  rare.add("--finish", options->finish, "DIR",
           "Record nothing: complete trace.dat in the session of a recorder that was killed");
  qemu.add("--symbols", record.symbols, "FILE",
           "The guest's symbols (default: -kernel, if it is ELF)")
      ->allow_extra_args(false);
  what.add("--user", record.user, "NAME", "Run COMMAND as this user");
  buffer.add("--clock", record.clock, "NAME", "The recording's clock")->capture_default_str();
  buffer.size("--buffer-size", record.buffer_kb, kKib, 64, 4 << 20, "Buffer for each CPU");
  add_snapshots(*command, *options);
  command->add_option("COMMAND", record.command, "What to run and record, after --");
  on_run(*command, status, options,
         [command](RecordArguments& given) { return run_record(given, *command); });
}

}  // namespace trapline::cli
