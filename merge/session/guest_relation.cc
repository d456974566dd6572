#include "merge/session/guest_relation.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "merge/clock/relation.h"
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

// Which thread is which vCPU, and when they ran. Where the exits do not say which (arm64), the
// timers do; where nothing does and there is one, it is vCPU 0.
class Vcpus {
 public:
  void on(const Event& event) {
    if (const auto* exit = std::get_if<KvmExit>(&event.payload)) {
      const auto [seen, fresh] = seen_.emplace(event.thread, exit->vcpu);
      if (!fresh && exit->vcpu != kNoVcpu) seen->second = exit->vcpu;
      if (first_ == 0) first_ = event.at.ns();
      last_ = event.at.ns();
    } else if (const auto* reload = std::get_if<KvmReload>(&event.payload)) {
      const auto seen = seen_.find(event.thread);
      if (seen != seen_.end() && reload->vcpu != kNoVcpu) seen->second = reload->vcpu;
    }
  }
  [[nodiscard]] std::map<std::int32_t, ThreadId> threads() const {
    std::map<std::int32_t, ThreadId> threads;
    for (const auto& [thread, vcpu] : seen_)
      threads.emplace(vcpu == kNoVcpu && seen_.size() == 1 ? 0 : vcpu, thread);
    return threads;
  }
  [[nodiscard]] std::uint64_t first() const { return first_; }
  [[nodiscard]] std::uint64_t last() const { return last_; }

 private:
  std::map<ThreadId, std::int32_t> seen_;
  std::uint64_t first_ = 0, last_ = 0;
};

template <typename Visit>
Result<void> read_all(const OpenSource& open, Visit&& visit) {
  auto source = open();
  if (!source) return tl::unexpected(std::move(source).error());
  Event event;
  while ((*source)->next(event) == Read::kEvent) visit(event);
  return {};  // a damaged recording serves up to the damage; its reader tells of it
}

Result<void> check_gaps(GuestRelation& relation, const TimesByCpu& times, const OpenSource& open,
                        std::vector<ClockBound>& bounds) {
  std::map<ThreadId, GuestGaps> gaps;
  for (const auto& [vcpu, all] : times) {
    const auto thread = thread_of_cpu(relation.threads, vcpu);
    if (!thread) continue;
    std::vector<PlacedRecord> placed;
    for (const std::uint64_t time : all)
      if (time >= relation.line.from && time <= relation.line.to)
        placed.push_back({time, relation.line.at(time), relation.line.error_at(time)});
    gaps.emplace(*thread, std::move(placed));
  }
  auto read = read_all(open, [&gaps](const Event& event) {
    if (std::holds_alternative<Lost>(event.payload))
      for (auto& [thread, of_thread] : gaps) of_thread.on_hole();
    const auto of_thread = gaps.find(event.thread);
    if (of_thread == gaps.end()) return;
    if (std::holds_alternative<KvmExit>(event.payload))
      of_thread->second.on_exit(event.at.ns());
    else if (std::holds_alternative<KvmEntry>(event.payload))
      of_thread->second.on_entry(event.at.ns());
  });
  if (!read) return read;
  relation.gaps = {};
  for (const auto& [thread, of_thread] : gaps) {
    const GuestGapCounters& counted = of_thread.counters();
    relation.gaps.records += counted.records;
    relation.gaps.decided += counted.decided;
    relation.gaps.impossible += counted.impossible;
    relation.gaps.residual_ns = std::max(relation.gaps.residual_ns, counted.residual_ns);
    bounds.insert(bounds.end(), of_thread.bounds().begin(), of_thread.bounds().end());
  }
  std::ranges::stable_sort(bounds, {}, &ClockBound::source);
  return {};
}

// The bounds of all ways that agree: each is taken if a line still meets all of them, or misses
// them by less than was known before.
struct Ways {
  std::vector<ClockBound> bounds;
  std::vector<std::string> left_out;

  // Whether it was taken.
  bool add(const std::vector<ClockBound>& more, std::string_view name) {
    if (more.empty()) return false;
    std::vector<ClockBound> all = bounds;
    all.insert(all.end(), more.begin(), more.end());
    std::ranges::stable_sort(all, {}, &ClockBound::source);
    const auto line = fit_line(all, all.front().source, all.back().source);
    // Clocks are corrected now and then: a line that misses a little and still knows more is
    // better.
    if (line && line->tolerance > tolerance_ && line->error >= error_ && !bounds.empty()) {
      left_out.emplace_back(name);
      return false;
    }
    if (line) {
      tolerance_ = line->tolerance;
      error_ = line->error;
    }
    bounds = std::move(all);
    return true;
  }

 private:
  std::uint64_t tolerance_ = 0, error_ = ~std::uint64_t{0};
};

std::string describe(const GuestRelation& relation, const std::vector<std::string>& left_out) {
  std::string ways;
  const auto add = [&ways](std::uint64_t count, std::string_view what) {
    if (count != 0) ways += fmt::format("{}{} {}", ways.empty() ? "" : ", ", count, what);
  };
  add(relation.syncs.readings, "readings");
  add(relation.syncs.markers, "markers");
  add(relation.syncs.exits, "exits");
  add(relation.syncs.tsc, "TSC readings");
  add(relation.syncs.ptp, "PTP readings");
  std::string text = "sync records of the guest: " + ways;
  for (const std::string& way : left_out)
    text += fmt::format("; {} contradicts and is left out", way);
  if (relation.gaps.records != 0)
    text += fmt::format("; of {} records {} lie inside exits, residual {} ns",
                        relation.gaps.records, relation.gaps.impossible, relation.gaps.residual_ns);
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

// What the recording shows of the host.
struct HostSide {
  Vcpus vcpus;
  std::vector<clocks::SyncEntry> brackets;
  std::string clock;
  bool cycles = false;
};

// All that both sides say: pass 1.
struct Known {
  Ways ways;
  GuestSyncCounters counters;
  HostSide host;
  bool made_by_the_guest = false;
};

void read_host(Source& source, GuestBounds& guest, HostSide& host) {
  clocks::SyncGatherer syncs;
  Event event;
  while (source.next(event) == Read::kEvent) {
    guest.on_event(event);
    host.vcpus.on(event);
    const auto* marker = std::get_if<Marker>(&event.payload);
    if (marker == nullptr || !marker->text.starts_with(kSyncPrefix)) continue;
    if (const auto record = parse_sync(marker->text)) syncs.add(*record, event.at.ns());
  }
  host.brackets = syncs.take();
}

Result<Known> look_at(const GuestRecording& guest, const OpenSource& open) {
  auto source = open();
  if (!source) return tl::unexpected(std::move(source).error());
  Known known;
  HostSide& host = known.host;
  host.clock = (*source)->info().clock;
  host.cycles = (*source)->info().cycles;
  auto id = clock_from_name(host.clock);
  if (id == ClockId::kTsc && !host.cycles) id.reset();  // nanoseconds that a file made of it
  GuestBounds readings(id);
  auto added = add_readings(readings, guest.syncs, guest.clock, guest.cycles, guest.brackets);
  if (!added) return tl::unexpected(std::move(added).error());
  read_host(**source, readings, host);
  known.made_by_the_guest = readings.made_by_the_guest();
  known.ways.add(readings.bounds(), "the exits");
  known.counters = readings.counters();
  if (id != ClockId::kTsc) {
    const auto tsc = readings.host_tsc_bounds();
    const bool taken =
        known.ways.add(bounds_through(ClockId::kTsc, tsc, host.brackets, host.cycles), "the TSC");
    known.counters.tsc = taken ? readings.counters().tsc : 0;
  }
  const auto ptp = readings.host_real_bounds();
  const bool taken =
      known.ways.add(bounds_through(ClockId::kReal, ptp, host.brackets, host.cycles), "PTP");
  known.counters.ptp = taken ? readings.counters().ptp : 0;
  return known;
}

// Pass 2, some times: each round decides more records than the last. More bounds can only narrow
// the band, unless they contradict: then the line stays, and the residual says by how much.
Result<void> refine(GuestRelation& relation, const TimesByCpu& times, const OpenSource& open,
                    const std::vector<ClockBound>& bounds) {
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<ClockBound> all = bounds;
    if (auto checked = check_gaps(relation, times, open, all); !checked) return checked;
    const auto refined = fit_line(all, relation.line.from, relation.line.to);
    if (!refined || refined->tolerance > relation.line.tolerance ||
        refined->error >= relation.line.error)
      break;
    const bool much = refined->error < relation.line.error - relation.line.error / 10;
    relation.line = *refined;
    if (!much) break;
  }
  return {};
}

}  // namespace

void TimeSample::add(std::int32_t cpu, std::uint64_t time) {
  Cpu& of = cpus_[cpu];
  of.last = std::max(of.last, time);
  if (of.seen++ % of.step != 0) return;
  of.times.push_back(time);
  if (of.times.size() < 2 * kMost) return;
  for (std::size_t i = 0; 2 * i < of.times.size(); ++i) of.times[i] = of.times[2 * i];
  of.times.resize(kMost);
  of.step *= 2;
}

TimesByCpu TimeSample::take() {
  TimesByCpu times;
  for (auto& [cpu, of] : cpus_) {
    of.times.push_back(of.last);
    std::sort(of.times.begin(), of.times.end());
    times[cpu] = std::move(of.times);
  }
  return times;
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

GuestRecording guest_recording(const DataDirectory& directory) {
  GuestRecording guest;
  guest.syncs = read_guest_sync_file(directory.path() + "/sync.txt");
  guest.times = [&directory] { return sample_records(directory); };
  return guest;
}

Result<std::optional<GuestRelation>> relate_guest(const GuestRecording& guest,
                                                  const OpenSource& open) {
  if (guest.syncs.empty()) return std::nullopt;
  auto known = look_at(guest, open);
  if (!known) return tl::unexpected(std::move(known).error());
  const std::vector<ClockBound>& bounds = known->ways.bounds;
  const Vcpus& vcpus = known->host.vcpus;
  if (bounds.empty()) {
    if (!guest.inside || vcpus.last() == 0 || known->made_by_the_guest) return std::nullopt;
    return fail(
        "what `trapline sync` did in the guest is not in the host's recording; record there with "
        "-e kvm (kvm_pio, kvm_mmio, kvm_write_tsc_offset), and for PTP_KVM with trapline record");
  }
  auto times = guest.times();
  if (!times) return tl::unexpected(std::move(times).error());
  auto line = fit_line(bounds, bounds.front().source, bounds.back().source);
  if (!line) return tl::unexpected(std::move(line).error());
  // What matters is the time of the guest's records, or that in which the vCPUs ran; without both,
  // that of the bounds.
  const auto inside = guest.inside ? interval_of(*times) : std::nullopt;
  if (inside)
    line = fit_line(bounds, inside->first, inside->last);
  else if (vcpus.last() != 0)
    line = fit_line(bounds, line->source_of(vcpus.first()), line->source_of(vcpus.last()));
  if (!line) return tl::unexpected(std::move(line).error());
  GuestRelation relation;
  relation.line = *line;
  relation.clock = known->host.clock;
  relation.syncs = known->counters;
  relation.threads = vcpus.threads();
  if (auto refined = refine(relation, *times, open, bounds); !refined)
    return tl::unexpected(std::move(refined).error());
  relation.method = describe(relation, known->ways.left_out);
  return relation;
}

}  // namespace trapline
