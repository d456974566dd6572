#include "merge/record/summary.h"

#include <algorithm>

#include "backend_ftrace/base/size.h"
#include "backend_ftrace/base/text.h"
#include "merge/analyze/guest_stacks.h"
#include "merge/session/input.h"

namespace trapline::record {
namespace {

std::string duration(std::uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1'000'000) return fmt::format("{:.1f} µs", value / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.2f} ms", value / 1e6);
  return fmt::format("{:.2f} s", value / 1e9);
}

enum class Holds : std::uint8_t { kNothing, kEvents, kCalls };

// The first calls of guest functions come early; what comes after `most` events is not looked at.
Holds holds(Source& source, std::uint64_t most) {
  Holds found = Holds::kNothing;
  Event event;
  for (std::uint64_t i = 0; i < most && source.next(event) == Read::kEvent; ++i) {
    if (std::holds_alternative<GuestCall>(event.payload)) return Holds::kCalls;
    if (!std::holds_alternative<Lost>(event.payload)) found = Holds::kEvents;
  }
  return found;
}

void add_snapshot(const Session& session, const Outcome& outcome, double seconds,
                  std::vector<std::string>& lines) {
  const SnapshotFacts& facts = session.snapshot_facts;
  const double around = static_cast<double>(session.around_ns) / 1e9;
  if (facts.hits == 0) {
    lines.push_back(fmt::format("no hit of '{}' in {:.1f} s; none of the {:.1f} MiB read is kept",
                                session.snapshot_on, seconds, mib(outcome.went_by)));
    return;
  }
  lines.push_back(fmt::format("{} hit{} of '{}' in {:.1f} s, the longest {} ({}, thread {})",
                              facts.hits, facts.hits == 1 ? "" : "s", session.snapshot_on, seconds,
                              duration(facts.longest.end - facts.longest.start),
                              facts.longest.reason,
                              static_cast<std::int32_t>(facts.longest.thread)));
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

void add_losses(const Session& session, bool whole, std::vector<std::string>& lines) {
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
  if (!any && whole && session.warnings.empty()) lines.emplace_back("lost nothing");
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

}  // namespace

// Opened as the command will open it, what it suggests works. It is read by its descriptor and with
// its owner's rights.
std::string next_command(const Session& session, const Outcome& outcome) {
  const Folder& folder = outcome.folder;
  const std::string path = shell_text({folder.path()});
  const std::string report = "trapline report " + path;
  // The functions are in a folder that --user's programs write into: root does not go there.
  if (!session.user.empty() && session.out_in_session) return report;
  // Without exits or guest calls nothing has to be looked for: to open a recording without exits
  // reads all of it.
  const bool may_have_exits =
      std::ranges::find(session.enabled_events, EventName{"kvm", "kvm_exit"}) !=
      session.enabled_events.end();
  if (!may_have_exits && session.plugin_calls == Functions::kNone && session.qemu_version.empty() &&
      outcome.written != 0) {
    return "trapline timeline " + path;
  }
  const ActAs as(folder.identity());
  InputOptions how;
  how.paths = {fmt::format("/proc/self/fd/{}", folder.fd())};
  auto input = open_input(how);
  if (!input) return "trapline info " + path;
  if (has_exits(input->capabilities)) {
    return session.snapshot_facts.hits != 0 ? "trapline timeline " + path + " --around max"
                                            : report;
  }
  Holds most = Holds::kNothing;
  // To look at a million events takes as long as recording them: only where calls were asked for.
  const std::uint64_t looked_at = in_markers(session.plugin_calls) ? 1u << 20 : 1u << 14;
  for (const auto& source : input->sources) most = std::max(most, holds(*source, looked_at));
  if (most == Holds::kCalls) return report;
  return most == Holds::kEvents ? "trapline timeline " + path : "";
}

std::vector<std::string> summary(const Session& session, const Outcome& outcome) {
  std::vector<std::string> lines;
  const double seconds = static_cast<double>(outcome.took_ns) / 1e9;
  if (session.snapshot_on.empty()) {
    lines.push_back(fmt::format("recorded {:.1f} MiB in {:.1f} s", mib(outcome.written), seconds));
  } else {
    add_snapshot(session, outcome, seconds, lines);
  }
  add_losses(session, outcome.whole, lines);
  if (const std::string next = next_command(session, outcome); !next.empty()) {
    lines.push_back("next: " + next);
  } else if (session.snapshot_on.empty()) {
    lines.emplace_back("no events were recorded");
  }
  return lines;
}

}  // namespace trapline::record
