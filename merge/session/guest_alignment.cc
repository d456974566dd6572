#include "merge/session/guest_alignment.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/model/kernel_events.h"

namespace trapline {
namespace {

using clocks::Assumption;
using clocks::Interval;
using clocks::Relation;

Result<Relation> fit(const std::vector<ClockBound>& bounds, const Assumption& assumption,
                     std::optional<Interval> interval = std::nullopt) {
  const auto in_one_place = [&bounds](bool low) {
    std::optional<std::uint64_t> first;
    return std::ranges::all_of(bounds, [&](const ClockBound& bound) {
      if (!(low ? bound.has_low() : bound.has_high())) return true;
      const std::uint64_t place = low ? bound.low_source : bound.high_source;
      if (!first) first = place;
      return place == *first;
    });
  };
  if (in_one_place(true) || in_one_place(false)) {
    return fail(
        "their sync records bound the alignment at one time only, which shows no rate; run "
        "`trapline sync` as long as is recorded");
  }
  std::vector<ClockBound> wide;
  for (const ClockBound& bound : bounds) wide.push_back(bound.with_grains());
  return Relation::fit(wide, assumption, interval, Relation::Reach::kIntervalOnly);
}

// Compares the guest's records with the times in which its vCPUs ran, and adds the bounds that
// result.
std::optional<ImpossibleRecord> check_runs(const Relation& line, GuestAlignment& alignment,
                                           const TimesByCpu& times, const RunLog& runs,
                                           std::vector<ClockBound>& bounds) {
  std::optional<ImpossibleRecord> impossible;
  alignment.gaps = {};
  for (const auto& [cpu, all] : times) {
    const auto thread = thread_of_cpu(alignment.threads, cpu);
    if (!thread) continue;
    std::vector<PlacedRecord> placed;
    for (const std::uint64_t time : all)
      if (time >= line.interval().first && time <= line.interval().last)
        placed.push_back({time, line.map()(time), line.error_at(time)});
    GuestRunIntervals intervals(std::move(placed));
    runs.replay(*thread, intervals);
    const GuestRunCounters& counted = intervals.counters();
    alignment.gaps.records += counted.records;
    alignment.gaps.decided += counted.decided;
    alignment.gaps.intervals += counted.intervals;
    alignment.gaps.impossible += counted.impossible;
    alignment.gaps.residual_ns = std::max(alignment.gaps.residual_ns, counted.residual_ns);
    bounds.insert(bounds.end(), intervals.bounds().begin(), intervals.bounds().end());
    if (!impossible) impossible = intervals.first_impossible();
  }
  std::ranges::stable_sort(bounds, {}, &ClockBound::source);
  return impossible;
}

// Collects the bounds of all kinds of evidence that agree under an assumption. The first kind that
// gives bounds is the reference for the others.
struct Evidence {
  Assumption assumption;
  std::vector<ClockBound> bounds = {};
  std::vector<std::string> left_out = {};

  // Adds bounds; returns whether they were taken. `identified`: the bounds that were taken before
  // are certainly this guest's, so contradicting ones are left out; otherwise these are an Error,
  // because nothing shows which of two contradicting kinds is right.
  Result<bool> add(const Result<std::vector<ClockBound>>& more, std::string_view name,
                   bool identified) {
    if (!more) {
      left_out.push_back(fmt::format("{} ({})", name, more.error().message));
      return false;
    }
    if (more->empty()) return false;
    std::vector<ClockBound> all = bounds;
    all.insert(all.end(), more->begin(), more->end());
    std::ranges::stable_sort(all, {}, &ClockBound::source);
    if (!bounds.empty()) {
      const auto line = fit(all, assumption);
      if (!line && !identified) return tl::unexpected(line.error());
      if (!line) {
        left_out.push_back(fmt::format("{}, which contradicts,", name));
        return false;
      }
    }
    bounds = std::move(all);
    return true;
  }
};

std::string describe(const GuestAlignment& alignment, const std::vector<std::string>& left_out) {
  std::string ways;
  const auto add = [&ways](std::uint64_t count, std::string_view what) {
    if (count != 0) ways += fmt::format("{}{} {}", ways.empty() ? "" : ", ", count, what);
  };
  add(alignment.syncs.readings, "readings");
  add(alignment.syncs.markers, "markers");
  add(alignment.syncs.exits, "exits");
  add(alignment.syncs.tsc, "TSC readings");
  add(alignment.syncs.ptp, "PTP readings");
  std::string text = "sync records of the guest: " + ways;
  if (alignment.syncs.tsc != 0) text += " (a TSC that is scaled is not seen)";
  for (const std::string& way : left_out) text += fmt::format("; {} is left out", way);
  if (alignment.gaps.records != 0)
    text +=
        fmt::format("; of {} records {} lie inside exits, residual {} ns", alignment.gaps.records,
                    alignment.gaps.impossible, alignment.gaps.residual_ns);
  return text;
}

std::optional<Interval> interval_of(const TimesByCpu& times) {
  std::optional<Interval> interval;
  for (const auto& [cpu, all] : times) {
    if (all.empty()) continue;
    if (!interval) interval = {all.front(), all.back()};
    interval = {std::min(interval->first, all.front()), std::max(interval->last, all.back())};
  }
  return interval;
}

Result<Evidence> agreed(GuestBounds& guest, const StampClock& host,
                        const std::vector<clocks::SyncEntry>& brackets,
                        const Assumption& assumption, GuestSyncCounters& counters) {
  Evidence evidence{assumption};
  const auto by_exits = evidence.add(guest.bounds(), "the exits", true);
  if (!by_exits) return tl::unexpected(by_exits.error());
  counters = guest.counters();
  const bool identified = !evidence.bounds.empty();
  if (host.readable() != ClockId::kTsc) {
    const auto tsc = guest.host_tsc_bounds();
    const auto taken =
        evidence.add(bounds_through(ClockId::kTsc, tsc, brackets, host), "the TSC", identified);
    if (!taken) return tl::unexpected(taken.error());
    counters.tsc = *taken ? guest.counters().tsc : 0;
  }
  const auto ptp = guest.host_real_bounds();
  const auto taken =
      evidence.add(bounds_through(ClockId::kReal, ptp, brackets, host), "PTP", identified);
  if (!taken) return tl::unexpected(taken.error());
  counters.ptp = *taken ? guest.counters().ptp : 0;
  return evidence;
}

std::string impossible_text(const ImpossibleRecord& impossible) {
  return fmt::format(
      "the guest's record of {} would be at {} ± {} ns, but its vCPU left the guest at {} and "
      "went back at {}",
      seconds_text(impossible.record.source), seconds_text(impossible.record.target),
      impossible.record.error, seconds_text(impossible.exit), seconds_text(impossible.entry));
}

// Narrows the alignment by comparing the guest's records with its vCPUs' runs, in a few rounds:
// each decides more records than the last. The result holds if the assumption does; the Error: a
// record cannot be in any run, or the records contradict the assumption.
Result<void> refine(GuestAlignment& alignment, const TimesByCpu& times, const RunLog& runs,
                    const Evidence& evidence) {
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<ClockBound> all = evidence.bounds;
    if (const auto impossible = check_runs(alignment.line, alignment, times, runs, all)) {
      return fail("{}: the sync records are not those of this guest, or not of this boot",
                  impossible_text(*impossible));
    }
    auto refined = fit(all, evidence.assumption, alignment.line.interval());
    if (!refined) return tl::unexpected(std::move(refined).error());
    if (refined->error() >= alignment.line.error()) break;
    const bool much = refined->error() < alignment.line.error() - alignment.line.error() / 10;
    alignment.line = std::move(*refined);
    if (!much) break;
  }
  return {};
}

// Returns the best guess if it is not known how the kernels adjusted their clocks: the line that
// holds if they did not. Nullopt: the sync records contradict that line. The Error: the guest's own
// records contradict it, so the clocks' error between sync records is not known.
Result<std::optional<Relation>> steady_line(const GuestAlignment& alignment,
                                            const GuestRecording& guest, GuestBounds& bounds,
                                            StampClock host, const CollectedEvidence& of_host) {
  Assumption steady = alignment.line.assumption();
  host.rate_change_ppm = steady.change_ppm = clocks::kSteadyPpm;
  GuestSyncCounters unused;
  const auto evidence = agreed(bounds, host, of_host.syncs, steady, unused);
  if (!evidence || evidence->bounds.empty()) return std::nullopt;
  auto line = fit(evidence->bounds, steady, alignment.line.interval());
  if (!line) return std::nullopt;
  GuestAlignment guess = alignment;
  guess.line = std::move(*line);
  const auto kept = refine(guess, guest.times, of_host.runs, *evidence);
  if (kept) return guess.line;
  // A plugin records the machine that its QEMU runs. If the host itself runs in that machine, the
  // CPUs of the plugin's records are not the host's vCPUs, so the contradiction proves nothing.
  if (!guest.inside) return std::nullopt;
  return fail(
      "{}, or a clock was slewed between them; run `trapline sync` as long as is recorded, or say "
      "with --rate-change by how much",
      kept.error().message);
}

// Fits the relation of the two clocks for a time range: that of the guest's records if they were
// made inside the guest, else that of the vCPUs' exits, else that of the bounds.
Result<Relation> fit_interval(const GuestRecording& guest, const Evidence& evidence,
                              const VcpuThreads& vcpus) {
  const auto& bounds = evidence.bounds;
  const Interval of_bounds{bounds.front().source(), bounds.back().source()};
  auto line = fit(bounds, evidence.assumption, of_bounds);
  if (!line) return line;
  const auto inside = guest.inside ? interval_of(guest.times) : std::nullopt;
  if (inside) return fit(bounds, evidence.assumption, *inside);
  if (vcpus.empty()) return line;
  return fit(bounds, evidence.assumption,
             Interval{line->map().source_of(vcpus.first()), line->map().source_of(vcpus.last())});
}

// Returns how much the clocks' rates are assumed to change: each kernel may adjust its clocks, but
// nothing adjusts a clock that follows the hardware's counter.
Result<Assumption> assumption_of(const GuestRecording& guest, const StampClock& host,
                                 const std::vector<clocks::SyncEntry>& of_host) {
  std::vector<std::vector<clocks::NotedAdjustment>> kernels;
  if (StampClock{guest.clock, guest.cycles}.drive() != clocks::Drive::kCounter)
    kernels.push_back(noted_in(guest.syncs));
  if (host.drive() != clocks::Drive::kCounter) kernels.push_back(clocks::noted_in(of_host));
  const auto change = assumed_change(kernels, host.rate_change_ppm);
  if (!change) return tl::unexpected(change.error());
  const bool same_unit = guest.cycles == host.cycles;
  return Assumption{same_unit ? clocks::kGuestNanoseconds : clocks::kAnyRate, *change};
}

// Returns whether the evidence is this guest's, and the recording its host's.
bool belongs(const GuestRecording& guest, const GuestBounds& bounds, const StampClock& host) {
  if (bounds.made_by_the_guest()) return true;
  // Recordings on the same clock of the same host need no alignment.
  if (guest.same_machine && guest.clock == host.name && !guest.inside) return false;
  return !bounds.threads().empty() || (guest.inside && !guest.same_machine);
}

// If sync records were only put beside a recording, the recording's own records must show that they
// belong to it: some must be where the host's recording covers the vCPUs, so that a wrong relation
// would place one of them inside an exit.
Result<void> shown_by_runs(const GuestRecording& guest, const GuestAlignment& alignment) {
  constexpr std::size_t kEnough = 16, kEnoughIntervals = 4;
  if (!guest.inside || guest.own_syncs) return {};
  std::size_t of_cpus = 0;
  for (const auto& [cpu, times] : guest.times)
    if (thread_of_cpu(alignment.threads, cpu)) of_cpus += times.size();
  const GuestRunCounters& seen = alignment.gaps;
  // If the alignment's error is large, few records are decided, and need not be in many intervals.
  const bool spread = seen.intervals >= kEnoughIntervals || seen.decided < kEnough;
  if (of_cpus < kEnough || (seen.records >= kEnough && spread)) return {};
  return fail(
      "the guest's {} records lie in {} runs of its vCPUs, too few to show that the sync records "
      "are of this guest; record host and guest at the same time, and for longer",
      of_cpus, seen.intervals);
}

}  // namespace

std::optional<ThreadId> thread_of_cpu(const std::map<std::int32_t, ThreadId>& vcpus,
                                      std::int32_t cpu) {
  if (vcpus.empty() || cpu < 0) return std::nullopt;
  const auto count = static_cast<std::int32_t>(vcpus.size());
  // If KVM's numbers have no gap, or if not all vCPUs were seen, the guest's CPU number is KVM's
  // number. Otherwise the guest's CPU N is the vCPU with the Nth number, counted from 0.
  if (vcpus.rbegin()->first < count || cpu >= count) {
    const auto found = vcpus.find(cpu);
    return found == vcpus.end() ? std::nullopt : std::optional(found->second);
  }
  return std::next(vcpus.begin(), cpu)->second;
}

Result<GuestBounds> guest_bounds(const GuestRecording& guest, const StampClock& host) {
  GuestBounds bounds(host.readable());
  auto added = add_readings(bounds, guest.syncs, {guest.clock, guest.cycles, host.rate_change_ppm},
                            guest.brackets);
  if (!added) return tl::unexpected(std::move(added).error());
  return bounds;
}

Result<std::optional<GuestAlignment>> align_guest(const GuestRecording& guest, GuestBounds& bounds,
                                                  const StampClock& host,
                                                  const CollectedEvidence& of_host,
                                                  const Processes& processes) {
  if (guest.syncs.empty()) return std::nullopt;
  GuestAlignment alignment;
  const auto vm = of_host.vcpus.of_vm(bounds.threads(), processes);
  if (vm) {
    alignment.threads = *vm;
    std::set<ThreadId> threads;
    for (const auto& [vcpu, thread] : *vm) threads.insert(thread);
    bounds.take_threads(std::move(threads));
  } else if (!bounds.threads().empty()) {
    return fail("exits of several virtual machines have the values that the guest wrote");
  } else if (guest.inside && !of_host.vcpus.empty()) {
    return fail(
        "several virtual machines ran, and no exit shows which of them made the guest's recording; "
        "run `trapline sync` in the guest while the host is recorded with -e kvm ({}, {})",
        events::kvm_pio.name, events::kvm_mmio.name);
  }
  if (auto kept = clocks::check_not_set(of_host.syncs, ClockId::kMono, ClockId::kMono); !kept)
    return tl::unexpected(std::move(kept).error());
  const auto assumption = assumption_of(guest, host, of_host.syncs);
  if (!assumption) return tl::unexpected(assumption.error());
  Evidence evidence;
  if (belongs(guest, bounds, host)) {
    auto ways = assign(evidence, agreed(bounds, host, of_host.syncs, *assumption, alignment.syncs));
    if (!ways) return tl::unexpected(std::move(ways).error());
  }
  if (evidence.bounds.empty()) {
    if (!guest.inside || of_host.vcpus.empty() || bounds.made_by_the_guest()) return std::nullopt;
    return fail(
        "the host's recording has nothing of what `trapline sync` did in the guest; record the "
        "host with -e kvm ({}, {}, {}), and for PTP_KVM with trapline record",
        events::kvm_pio.name, events::kvm_mmio.name, events::kvm_write_tsc_offset.name);
  }
  if (auto line = assign(alignment.line, fit_interval(guest, evidence, of_host.vcpus)); !line)
    return tl::unexpected(std::move(line).error());
  alignment.clock = host.name;
  std::optional<Relation> steady;
  if (!host.rate_change_ppm && assumption->change_ppm == clocks::kSlewedPpm) {
    if (auto guess = assign(steady, steady_line(alignment, guest, bounds, host, of_host)); !guess)
      return tl::unexpected(std::move(guess).error());
  }
  const auto refined = refine(alignment, guest.times, of_host.runs, evidence);
  if (!refined && guest.inside) return tl::unexpected(refined.error());
  if (steady) alignment.line.take_map(*steady);
  if (auto shown = shown_by_runs(guest, alignment); !shown) return tl::unexpected(shown.error());
  alignment.method = describe(alignment, evidence.left_out);
  return alignment;
}

}  // namespace trapline
