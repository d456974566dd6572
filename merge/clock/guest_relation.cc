#include "merge/clock/guest_relation.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <variant>

namespace trapline {
namespace {

// Records of one vCPU that are looked at; of more, every n-th.
constexpr std::uint64_t kMostRecords = 65'536;

// Lines "STAMP RECORD"; others are comments or records of other kinds.
bool read_guest_syncs(const std::string& path, GuestBounds& bounds) {
  std::ifstream file(path);
  bool any = false;
  for (std::string line; std::getline(file, line);) {
    const auto blank = line.find(' ');
    std::uint64_t stamp = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), stamp);
    if (blank == line.npos || error != std::errc{} || end != line.data() + blank) continue;
    const auto record = parse_guest_sync(std::string_view(line).substr(blank + 1));
    if (!record) continue;
    bounds.add(stamp, *record);
    any = true;
  }
  return any;
}

using Times = std::map<std::int32_t, std::vector<std::uint64_t>>;  // by vCPU

Result<Times> sample_records(const DataDirectory& directory) {
  Times times;
  for (const std::uint32_t tid : directory.tids()) {
    const std::int32_t vcpu = vcpu_of_task(tid);
    if (vcpu == kNoVcpu) continue;
    auto reader = directory.records(tid);
    if (!reader) return tl::unexpected(std::move(reader).error());
    struct stat status {};
    const bool known = ::stat(reader->path().c_str(), &status) == 0;
    const std::uint64_t count =
        known ? static_cast<std::uint64_t>(status.st_size) / sizeof(Record) : 0;
    const std::uint64_t step = count / kMostRecords + 1;
    for (std::uint64_t i = 0;; ++i) {
      auto record = reader->next();
      if (!record) return tl::unexpected(std::move(record).error());
      if (!*record) break;
      if (i % step == 0 && (*record)->type() != RecordType::kLost)
        times[vcpu].push_back((*record)->time());
    }
  }
  for (auto& [vcpu, all] : times) std::sort(all.begin(), all.end());
  return times;
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
  while ((*source)->next(event)) visit(event);
  return {};  // a damaged recording serves up to the damage; its reader tells of it
}

Result<void> check_gaps(GuestRelation& relation, const Times& times, const OpenSource& open,
                        std::vector<ClockBound>& bounds) {
  std::map<ThreadId, GuestGaps> gaps;
  for (const auto& [vcpu, all] : times) {
    const auto thread = relation.threads.find(vcpu);
    if (thread == relation.threads.end()) continue;
    std::vector<PlacedRecord> placed;
    for (const std::uint64_t time : all)
      if (time >= relation.line.from && time <= relation.line.to)
        placed.push_back({time, relation.line.at(time), relation.line.error_at(time)});
    gaps.emplace(thread->second, std::move(placed));
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

std::string describe(const GuestRelation& relation) {
  std::string ways;
  const auto add = [&ways](std::uint64_t count, std::string_view what) {
    if (count != 0) ways += fmt::format("{}{} {}", ways.empty() ? "" : ", ", count, what);
  };
  add(relation.syncs.readings, "readings");
  add(relation.syncs.markers, "markers");
  add(relation.syncs.exits, "exits");
  std::string text = "sync records of the guest: " + ways;
  if (relation.gaps.records != 0)
    text += fmt::format("; of {} records {} lie inside exits, residual {} ns",
                        relation.gaps.records, relation.gaps.impossible, relation.gaps.residual_ns);
  return text;
}

}  // namespace

std::int32_t vcpu_of_task(std::uint32_t tid) {
  constexpr std::uint32_t kFirstStackTask = 100'000;
  return tid >= 100 && tid < kFirstStackTask ? static_cast<std::int32_t>(tid / 100) - 1 : kNoVcpu;
}

Result<std::optional<GuestRelation>> relate_guest(const DataDirectory& directory,
                                                  const OpenSource& open) {
  auto first = open();
  if (!first) return tl::unexpected(std::move(first).error());
  GuestBounds guest(clock_from_name((*first)->info().clock));
  if (!read_guest_syncs(directory.path() + "/sync.txt", guest)) return std::nullopt;
  Vcpus vcpus;
  Event event;
  while ((*first)->next(event)) {
    guest.on_event(event);
    vcpus.on(event);
  }
  first->reset();
  std::vector<ClockBound> bounds = guest.bounds();
  if (bounds.empty()) return std::nullopt;
  auto times = sample_records(directory);
  if (!times) return tl::unexpected(std::move(times).error());
  auto line = fit_line(bounds, bounds.front().source, bounds.back().source);
  if (!line) return tl::unexpected(std::move(line).error());
  // What matters is the time in which the vCPUs ran; without exits, that of the bounds.
  if (vcpus.last() != 0)
    line = fit_line(bounds, line->source_of(vcpus.first()), line->source_of(vcpus.last()));
  if (!line) return tl::unexpected(std::move(line).error());
  GuestRelation relation;
  relation.line = *line;
  relation.syncs = guest.counters();
  relation.threads = vcpus.threads();
  // Each round decides more records than the last. More bounds can only narrow the band, unless
  // they contradict: then the line stays, and the residual says by how much.
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<ClockBound> all = bounds;
    if (auto checked = check_gaps(relation, *times, open, all); !checked)
      return tl::unexpected(std::move(checked).error());
    const auto refined = fit_line(all, relation.line.from, relation.line.to);
    if (!refined || refined->tolerance > relation.line.tolerance ||
        refined->error >= relation.line.error)
      break;
    const bool much = refined->error < relation.line.error - relation.line.error / 10;
    relation.line = *refined;
    if (!much) break;
  }
  relation.method = describe(relation);
  return relation;
}

}  // namespace trapline
