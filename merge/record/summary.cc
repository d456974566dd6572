#include "merge/record/summary.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "backend_ftrace/base/size.h"
#include "backend_ftrace/base/text.h"
#include "merge/analyze/guest_stacks.h"
#include "merge/model/kernel_events.h"
#include "merge/record/doctor.h"
#include "merge/record/vm_names.h"
#include "merge/session/input.h"

namespace trapline::record {
namespace {

std::string duration(std::uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1'000'000) return fmt::format("{:.1f} µs", value / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.2f} ms", value / 1e6);
  return fmt::format("{:.2f} s", value / 1e9);
}

void add_snapshot(const SessionJson& session, const Outcome& outcome, double seconds,
                  std::vector<std::string>& lines) {
  const SessionSnapshot& facts = *session.snapshot;
  const double around = static_cast<double>(facts.around_ns) / 1e9;
  if (facts.hits == 0) {
    lines.push_back(fmt::format("no hit of '{}' in {:.1f} s; none of the {:.1f} MiB read is kept",
                                facts.on, seconds, mib(outcome.went_by)));
    return;
  }
  lines.push_back(fmt::format("{} hit{} of '{}' in {:.1f} s, the longest {} ({}, thread {})",
                              facts.hits, facts.hits == 1 ? "" : "s", facts.on, seconds,
                              duration(facts.longest->ns), facts.longest->reason,
                              facts.longest->tid));
  lines.push_back(
      fmt::format("kept {:g} s before and after each, in {} piece{}: {:.1f} MiB written, "
                  "{:.1f} MiB read",
                  around, facts.windows, facts.windows == 1 ? "" : "s", mib(outcome.written),
                  mib(outcome.went_by)));
  if (facts.near_loss != 0) {
    lines.push_back(fmt::format("{} of them may be several exits: the kernel lost events meanwhile",
                                facts.near_loss));
  }
  if (facts.shortened != 0) {
    lines.push_back(
        fmt::format("{} of them lack a part of the time before, which was no longer in "
                    "memory; give more (--ring-size) or ask for less (--around); an exit of more "
                    "than a minute always lacks its middle",
                    facts.shortened));
  }
  if (facts.unwritten_events != 0) {
    lines.push_back(fmt::format("{} events around them were in memory and could not be written",
                                facts.unwritten_events));
  }
}

void add_losses(const SessionJson& session, const Outcome& outcome,
                std::vector<std::string>& lines) {
  bool any = false;
  std::uint64_t events = 0, others = 0;
  for (const CpuLoss& loss : session.losses) {
    if (!loss.any()) continue;
    any = true;
    events += loss.overwritten + loss.dropped;
    others += loss.read_by_others;
    lines.push_back(fmt::format(
        "lost on CPU {}: {} events overwritten, {} dropped from a full buffer, {} pages not "
        "written{}{}",
        loss.cpu, loss.overwritten, loss.dropped, loss.unwritten_pages,
        loss.unread == 0 ? "" : fmt::format(", {} events left in the kernel", loss.unread),
        loss.read_by_others == 0
            ? ""
            : fmt::format(", at least {} events read by another process", loss.read_by_others)));
  }
  if (!any && outcome.whole && session.warnings.empty())
    lines.emplace_back(outcome.watched ? "lost nothing" : "lost nothing that was counted");
  if (events != 0) {
    lines.push_back(fmt::format("fewer are lost with larger buffers: --buffer-size {}",
                                size_text(session.buffer_kb * 4 * kKib)));
  }
  if (others != 0) {
    lines.push_back(fmt::format(
        "who reads trace_pipe or trace_pipe_raw of the ftrace instance {} takes its events away; "
        "its file trace can be read without loss",
        session.instance));
  }
}

std::string no_exit_text(const Capabilities& has) {
  if (has.kvm_exit) return {};
  return fmt::format("{}: {}; trapline doctor checks this host",
                     has.kvm_userspace_exit ? fmt::format("no {} came, only exits to user space",
                                                          events::kvm_exit.name)
                                            : "no VM exit came",
                     why_no_exit(look_at_host(), has.any_kvm));
}

}  // namespace

std::string beginning(const RecordOptions& options, std::optional<std::size_t> vms) {
  std::string line =
      options.pid != 0 ? fmt::format("recording process {}", options.pid) : "recording this host";
  if (vms == 0u && options.command.empty()) line += ", no VM seen,";
  if (vms > 0u) line += fmt::format(", {} VM{},", *vms, *vms == 1 ? "" : "s");
  line += " into " + (options.flight ? "memory" : shell_text({options.folder})) + "; ";
  std::vector<std::string> ends;
  if (!options.command.empty()) ends.push_back("with " + printable(options.command.front()));
  if (options.pid != 0) ends.emplace_back("with the process");
  if (options.duration_ns)
    ends.push_back(fmt::format("after {:g} s", static_cast<double>(*options.duration_ns) / 1e9));
  if (ends.empty()) return line + "Ctrl-C ends";
  return line + fmt::format("ends {}, or by Ctrl-C", fmt::join(ends, ", or "));
}

std::optional<std::size_t> count_vms(const RecordOptions& options) {
  if (!options.events.kvm || options.pid != 0 || ::geteuid() != 0) return std::nullopt;
  return running_vms().size();
}

// Chooses the command that the summary suggests. Opens the session to see which command works on
// it, through the folder's descriptor and with its owner's rights.
Ending ending_of(const SessionJson& session, const Outcome& outcome) {
  const Folder& folder = outcome.folder;
  const std::string path = shell_text({folder.path()});
  const std::string report = "trapline report " + path;
  if (session.snapshot && session.snapshot->hits == 0) return {};
  // The functions are in a folder that programs of --user can write to, so root does not read it.
  const bool has_functions = session.clocks.size() > 1;  // uftrace.data has a clock too
  if (!session.user.empty() && has_functions) return {report, {}};
  const std::string timeline = outcome.written == 0 ? "" : "trapline timeline " + path;
  // If the session can have neither exits nor guest calls, does not open it: opening a recording
  // without exits reads all of it.
  const bool may_have_exits =
      std::ranges::find(session.events, events::kvm_exit.full_name) != session.events.end();
  if (!may_have_exits && session.functions.empty() && outcome.written != 0) return {timeline, {}};
  InputOptions how;
  how.paths = {fmt::format("/proc/self/fd/{}", folder.fd())};
  auto input = [&] {
    const ActAs as(folder.identity());
    return open_input(how);
  }();
  if (!input) return {"trapline info " + path, {}};
  // A snapshot contains only the time around hits, and a guest under TCG has calls instead of
  // exits.
  const bool expects_exits = may_have_exits && !session.snapshot && session.functions.empty();
  const std::string no_exit = expects_exits ? no_exit_text(input->capabilities) : std::string();
  if (has_exits(input->capabilities)) {
    const bool hits = session.snapshot && session.snapshot->hits != 0;
    return {hits ? "trapline timeline " + path + " --around max" : report, no_exit};
  }
  return {session.functions.empty() ? timeline : report, no_exit};
}

std::vector<std::string> summary(const SessionJson& session, const Outcome& outcome) {
  std::vector<std::string> lines;
  const double seconds = static_cast<double>(outcome.took_ns) / 1e9;
  if (!session.snapshot) {
    lines.push_back(fmt::format("recorded {:.1f} MiB in {:.1f} s", mib(outcome.written), seconds));
  } else {
    add_snapshot(session, outcome, seconds, lines);
  }
  add_losses(session, outcome, lines);
  const Ending ending = ending_of(session, outcome);
  if (!ending.no_exit.empty()) lines.push_back(ending.no_exit);
  if (!ending.next.empty()) {
    lines.push_back("next: " + ending.next);
  } else if (!session.snapshot) {
    lines.emplace_back("no events were recorded");
  }
  return lines;
}

std::vector<std::string> summary_of_held(const SessionJson& session, const Outcome& outcome,
                                         const FtraceControl& instance) {
  const bool on = instance.get("tracing_on").value_or("").starts_with('1');
  std::vector<std::string> lines{fmt::format(
      "took {:.1f} MiB of events out of the ftrace instance {}: they are no longer in "
      "it, and its settings are as they were ({})",
      mib(outcome.written), session.instance, on ? "it records on" : "it is switched off")};
  std::uint64_t overwritten = 0, dropped = 0;
  for (const CpuLoss& loss : session.losses) {
    overwritten += loss.overwritten;
    dropped += loss.dropped;
  }
  if (overwritten != 0)
    lines.push_back(
        fmt::format("{} older events had been overwritten in its buffers before", overwritten));
  if (dropped != 0)
    lines.push_back(fmt::format("{} events had found no room in its buffers", dropped));
  if (const std::string next = ending_of(session, outcome).next; !next.empty())
    lines.push_back("next: " + next);
  return lines;
}

}  // namespace trapline::record
