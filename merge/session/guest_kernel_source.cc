#include "merge/session/guest_kernel_source.h"

#include <algorithm>
#include <set>
#include <utility>

#include "backend_ftrace/base/paths.h"
#include "merge/session/sync_records.h"
#include "merge/source/wrapped_source.h"

namespace trapline {
namespace {

class GuestSideSource final : public WrappedSource {
 public:
  GuestSideSource(std::unique_ptr<Source> source, const GuestRelation& relation)
      : WrappedSource(std::move(source)), line_(relation.line), threads_(relation.threads) {
    info_.role = Role::kGuest;
    info_.cycles = false;
    info_.method = relation.method;
    info_.offset_ns = static_cast<std::int64_t>(line_.at(line_.from) - line_.from);
    info_.error_ns = line_.error;
  }

  Read next(Event& event) override {
    const auto place = [this](Timestamp at) { return Timestamp(line_.at(at.ns())); };
    if (const Read read = next_placed(event, place); read != Read::kEvent) return read;
    if (auto* call = std::get_if<GuestCall>(&event.payload)) {
      call->task = static_cast<std::int32_t>(event.thread);
      event.thread = thread_of(call->cpu, event.thread);
      call->vcpu = call->cpu;
    } else if (!std::holds_alternative<Lost>(event.payload)) {
      event.payload = Other{};
      event.thread = thread_of(static_cast<std::int32_t>(event.cpu), event.thread);
    }
    return Read::kEvent;
  }
  [[nodiscard]] std::string comm(ThreadId thread) const override {
    return source_->comm(ThreadId{-static_cast<std::int32_t>(thread)});
  }

 private:
  // Numbers of the guest's tasks must not be taken for those of host threads.
  [[nodiscard]] ThreadId thread_of(std::int32_t cpu, ThreadId task) const {
    return thread_of_cpu(threads_, cpu).value_or(ThreadId{-static_cast<std::int32_t>(task)});
  }

  ClockLine line_;
  std::map<std::int32_t, ThreadId> threads_;
};

// The CPU of the guest that made an event: its own, or its task's; kNoVcpu where nothing tells.
std::int32_t cpu_of(const Event& event, bool of_tasks) {
  if (const auto* call = std::get_if<GuestCall>(&event.payload)) return call->cpu;
  if (of_tasks || std::holds_alternative<Lost>(event.payload)) return kNoVcpu;
  return static_cast<std::int32_t>(event.cpu);
}

}  // namespace

GuestRecording guest_recording(Source& source, const OpenSource& open,
                               const std::vector<GuestSyncLine>& more) {
  GuestRecording guest;
  guest.inside = true;
  guest.clock = source.info().clock;
  guest.cycles = source.info().cycles;
  const std::string& path = source.info().path;
  const bool of_tasks = is_folder(path);
  if (of_tasks) {
    guest.syncs = read_guest_sync_file(path + "/sync.txt");
  } else {
    GuestSyncMarkers markers;
    clocks::SyncGatherer syncs;
    Event event;
    while (source.next(event) == Read::kEvent) {
      const auto* marker = std::get_if<Marker>(&event.payload);
      if (marker == nullptr) continue;
      markers.add(event.at.ns(), marker->text);
      if (!marker->text.starts_with(kSyncPrefix)) continue;
      if (const auto record = parse_sync(marker->text)) syncs.add(*record, event.at.ns());
    }
    guest.syncs = markers.lines();
    guest.brackets = syncs.take();
    const auto actions = markers.clocks();
    guest.brackets.insert(guest.brackets.end(), actions.begin(), actions.end());
    std::ranges::stable_sort(guest.brackets, {},
                             [](const clocks::SyncEntry& entry) { return entry.point.stamp; });
  }
  // The same series may be in both: `trapline sync` writes them to trace_marker and prints them.
  std::set<std::uint32_t> known;
  for (const GuestSyncLine& line : guest.syncs) known.insert(line.record.series);
  for (const GuestSyncLine& line : more)
    if (!known.contains(line.record.series)) guest.syncs.push_back(line);
  guest.times = [open, of_tasks]() -> Result<TimesByCpu> {
    auto again = open();
    if (!again) return tl::unexpected(std::move(again).error());
    TimeSample sample;
    Event event;
    while ((*again)->next(event) == Read::kEvent) sample.add(cpu_of(event, of_tasks), event.at.ns());
    return sample.take();
  };
  return guest;
}

std::unique_ptr<Source> with_guest_relation(std::unique_ptr<Source> source,
                                            const GuestRelation& relation) {
  return std::make_unique<GuestSideSource>(std::move(source), relation);
}

}  // namespace trapline
