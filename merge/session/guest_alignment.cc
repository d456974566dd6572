#include "merge/session/guest_alignment.h"

#include <fmt/format.h>

#include <algorithm>

#include "merge/session/sync_records.h"
#include "merge/source/uftrace/facts.h"

namespace trapline {
namespace {

Result<TimesByCpu> sample_records(const DataDirectory& directory) {
  TimeSample sample;
  for (const std::uint32_t tid : directory.tids()) {
    const std::int32_t vcpu = vcpu_of_task(tid);
    if (vcpu == kNoVcpu) continue;
    auto reader = directory.records(tid);
    if (!reader) return tl::unexpected(std::move(reader).error());
    while (true) {
      auto record = reader->next();
      if (!record) return tl::unexpected(std::move(record).error());
      if (!*record) break;
      if ((*record)->type() != RecordType::kLost) sample.add(vcpu, (*record)->time());
    }
  }
  return sample.take();
}

std::string seconds(std::uint64_t ns) {
  return fmt::format("{}.{:09}", ns / 1'000'000'000, ns % 1'000'000'000);
}

// Holds the guest's records against when its vCPUs ran; adds the bounds that they give.
std::optional<ImpossibleRecord> check_runs(GuestAlignment& alignment, const TimesByCpu& times,
                                           const RunLog& runs, std::vector<ClockBound>& bounds) {
  const ClockLine& line = alignment.line;
  std::optional<ImpossibleRecord> impossible;
  alignment.gaps = {};
  for (const auto& [cpu, all] : times) {
    const auto thread = thread_of_cpu(alignment.threads, cpu);
    if (!thread) continue;
    std::vector<PlacedRecord> placed;
    for (const std::uint64_t time : all)
      if (time >= line.from() && time <= line.to())
        placed.push_back({time, line.at(time), line.error_at(time)});
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

// The bounds of all ways that agree. The first one that gives any is what the others are held
// against.
struct Evidence {
  std::vector<ClockBound> bounds;
  std::vector<std::string> left_out;

  // Whether it was taken. `identified`: what was taken before is this guest's beyond doubt;
  // without, nobody can tell which of two that contradict each other is right.
  Result<bool> add(const std::vector<ClockBound>& more, std::string_view name, bool identified) {
    if (more.empty()) return false;
    std::vector<ClockBound> all = bounds;
    all.insert(all.end(), more.begin(), more.end());
    std::ranges::stable_sort(all, {}, &ClockBound::source);
    const auto line = ClockLine::fit(all, all.front().source(), all.back().source());
    if (!bounds.empty()) {
      if (!line && !identified) return tl::unexpected(line.error());
      if (!line || (line->tolerance() > tolerance_ && line->error() >= error_)) {
        left_out.emplace_back(name);
        return false;
      }
    }
    if (line) {
      tolerance_ = line->tolerance();
      error_ = line->error();
    }
    bounds = std::move(all);
    return true;
  }

 private:
  std::uint64_t tolerance_ = 0, error_ = ~std::uint64_t{0};
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
  for (const std::string& way : left_out)
    text += fmt::format("; {} contradicts and is left out", way);
  if (alignment.line.tolerance() != 0)
    text += fmt::format("; no line fits all of them: the error includes a tolerance of {} ns",
                        alignment.line.tolerance());
  if (alignment.gaps.records != 0)
    text +=
        fmt::format("; of {} records {} lie inside exits, residual {} ns", alignment.gaps.records,
                    alignment.gaps.impossible, alignment.gaps.residual_ns);
  return text;
}

std::optional<clocks::Interval> interval_of(const TimesByCpu& times) {
  std::optional<clocks::Interval> interval;
  for (const auto& [cpu, all] : times) {
    if (all.empty()) continue;
    if (!interval) interval = {all.front(), all.back()};
    interval = {std::min(interval->first, all.front()), std::max(interval->last, all.back())};
  }
  return interval;
}

Result<Evidence> agreed(GuestBounds& guest, const HostRecording& host,
                        const std::vector<clocks::SyncEntry>& brackets,
                        GuestSyncCounters& counters) {
  Evidence evidence;
  const auto by_exits = evidence.add(guest.bounds(), "the exits", true);
  if (!by_exits) return tl::unexpected(by_exits.error());
  counters = guest.counters();
  const bool identified = !evidence.bounds.empty();
  if (host.readable() != ClockId::kTsc) {
    const auto tsc = guest.host_tsc_bounds();
    const auto taken = evidence.add(bounds_through(ClockId::kTsc, tsc, brackets, host.cycles),
                                    "the TSC", identified);
    if (!taken) return tl::unexpected(taken.error());
    counters.tsc = *taken ? guest.counters().tsc : 0;
  }
  const auto ptp = guest.host_real_bounds();
  const auto taken =
      evidence.add(bounds_through(ClockId::kReal, ptp, brackets, host.cycles), "PTP", identified);
  if (!taken) return tl::unexpected(taken.error());
  counters.ptp = *taken ? guest.counters().ptp : 0;
  return evidence;
}

// Some rounds: each decides more records than the last. More bounds can only narrow the band,
// unless they contradict: then the line stays, and the residual says by how much.
std::optional<ImpossibleRecord> refine(GuestAlignment& alignment, const TimesByCpu& times,
                                       const RunLog& runs, const std::vector<ClockBound>& bounds) {
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<ClockBound> all = bounds;
    if (const auto impossible = check_runs(alignment, times, runs, all)) return impossible;
    const auto refined = ClockLine::fit(all, alignment.line.from(), alignment.line.to());
    if (!refined || refined->tolerance() > alignment.line.tolerance() ||
        refined->error() >= alignment.line.error())
      break;
    const bool much = refined->error() < alignment.line.error() - alignment.line.error() / 10;
    alignment.line = *refined;
    if (!much) break;
  }
  return std::nullopt;
}

// The time of the guest's records, or that in which the vCPUs ran; without both, that of the
// bounds.
Result<ClockLine> fit(const GuestRecording& guest, const std::vector<ClockBound>& bounds,
                      const VcpuThreads& vcpus) {
  auto line = ClockLine::fit(bounds, bounds.front().source(), bounds.back().source());
  if (!line) return line;
  const auto inside = guest.inside ? interval_of(guest.times) : std::nullopt;
  if (inside) return ClockLine::fit(bounds, inside->first, inside->last);
  if (vcpus.empty()) return line;
  return ClockLine::fit(bounds, line->source_of(vcpus.first()), line->source_of(vcpus.last()));
}

// Whether the evidence is this guest's, and the recording its host's.
bool belongs(const GuestRecording& guest, const GuestBounds& bounds, const HostRecording& host) {
  if (bounds.made_by_the_guest()) return true;
  // What is on the same clock of the same host is where it is.
  if (guest.kinship == Kinship::kSameMachine && guest.clock == host.clock && !guest.inside)
    return false;
  return !bounds.threads().empty() || (guest.inside && guest.kinship != Kinship::kSameMachine);
}

// Whose sync records were put beside a recording, only its records can show: some must lie where
// the host's recording covers the vCPUs, so that a wrong relation would put one of them into an
// exit.
Result<void> shown_by_runs(const GuestRecording& guest, const GuestAlignment& alignment) {
  constexpr std::size_t kEnough = 16, kEnoughIntervals = 4;
  if (!guest.inside || guest.own_syncs) return {};
  std::size_t of_cpus = 0;
  for (const auto& [cpu, times] : guest.times)
    if (thread_of_cpu(alignment.threads, cpu)) of_cpus += times.size();
  const GuestRunCounters& seen = alignment.gaps;
  // Where the error is wide, few records decide for one of those times.
  const bool spread = seen.intervals >= kEnoughIntervals || seen.decided < kEnough;
  if (of_cpus < kEnough || (seen.records >= kEnough && spread)) return {};
  return fail(
      "the guest's {} records lie in {} runs of its vCPUs, too few to show that the sync records "
      "are of this guest; record host and guest at the same time, and for longer",
      of_cpus, seen.intervals);
}

}  // namespace

std::optional<ClockId> HostRecording::readable() const {
  const auto id = clock_from_name(clock);
  if (id == ClockId::kTsc && !cycles) return std::nullopt;  // nanoseconds that a file made of it
  return id;
}

std::optional<ThreadId> thread_of_cpu(const std::map<std::int32_t, ThreadId>& vcpus,
                                      std::int32_t cpu) {
  if (vcpus.empty() || cpu < 0) return std::nullopt;
  const auto count = static_cast<std::int32_t>(vcpus.size());
  if (vcpus.rbegin()->first < count || cpu >= count) {  // none is left out, or one was not seen
    const auto found = vcpus.find(cpu);
    return found == vcpus.end() ? std::nullopt : std::optional(found->second);
  }
  return std::next(vcpus.begin(), cpu)->second;
}

Result<GuestRecording> guest_recording(const DataDirectory& directory) {
  GuestRecording guest;
  const auto stamps = clocks::read_sync_file(directory.path() + "/sync.txt");
  if (stamps) guest.clock = stamps->clock;
  guest.syncs = read_guest_sync_file(directory.path() + "/sync.txt");
  if (guest.syncs.empty()) return guest;
  auto times = sample_records(directory);
  if (!times) return tl::unexpected(std::move(times).error());
  guest.times = std::move(*times);
  return guest;
}

Result<GuestBounds> guest_bounds(const GuestRecording& guest, const HostRecording& host) {
  GuestBounds bounds(host.readable());
  auto added = add_readings(bounds, guest.syncs, guest.clock, guest.cycles, guest.brackets);
  if (!added) return tl::unexpected(std::move(added).error());
  return bounds;
}

Result<std::optional<GuestAlignment>> align_guest(const GuestRecording& guest, GuestBounds& bounds,
                                                  const HostRecording& host,
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
        "run `trapline "
        "sync` in the guest while the host is recorded with -e kvm (kvm_pio, kvm_mmio)");
  }
  std::optional<Evidence> evidence;
  if (belongs(guest, bounds, host)) {
    auto ways = agreed(bounds, host, of_host.syncs, alignment.syncs);
    if (!ways) return tl::unexpected(std::move(ways).error());
    evidence = std::move(*ways);
  }
  if (!evidence || evidence->bounds.empty()) {
    if (!guest.inside || of_host.vcpus.empty() || bounds.made_by_the_guest()) return std::nullopt;
    return fail(
        "the host's recording has nothing of what `trapline sync` did in the guest; record the "
        "host with -e kvm (kvm_pio, kvm_mmio, kvm_write_tsc_offset), and for PTP_KVM with trapline "
        "record");
  }
  auto line = fit(guest, evidence->bounds, of_host.vcpus);
  if (!line) return tl::unexpected(std::move(line).error());
  alignment.line = std::move(*line);
  alignment.clock = host.clock;
  const auto impossible = refine(alignment, guest.times, of_host.runs, evidence->bounds);
  // Tasks of a plugin are those of the machine around the host, whose CPUs are no vCPUs of the
  // guest.
  if (impossible && guest.inside) {
    return fail(
        "the guest's record of {} would be at {} ± {} ns, but its vCPU left the guest at {} and "
        "went back at {}: the sync records are not those of this guest, or not of this boot",
        seconds(impossible->record.source), seconds(impossible->record.target),
        impossible->record.error, seconds(impossible->exit), seconds(impossible->entry));
  }
  if (auto shown = shown_by_runs(guest, alignment); !shown) return tl::unexpected(shown.error());
  alignment.method = describe(alignment, evidence->left_out);
  return alignment;
}

}  // namespace trapline
