#include "merge/session/wrapped_sources.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "merge/model/clock_map.h"
#include "merge/source/uftrace/sync_file.h"

namespace trapline {
namespace {

// Converts the times of another source, and then changes each event by adjust().
template <typename Adjust>
class PlacedSource final : public ForwardingSource {
 public:
  // `map`: from the inner source's times to the timeline's. `comm`: the name of all threads, if not
  // empty.
  PlacedSource(std::unique_ptr<Source> source, SourceInfo info, ClockMap map, Adjust adjust,
               std::string comm)
      : ForwardingSource(std::move(source)),
        info_(std::move(info)),
        map_(std::move(map)),
        adjust_(std::move(adjust)),
        comm_(std::move(comm)) {}

  Read next(Event& event) override {
    const Read read = source_->next(event);
    if (read != Read::kEvent) return read;
    event.at = map_(event.at);
    if (auto* lost = std::get_if<Lost>(&event.payload)) {
      lost->from = map_(lost->from);
      lost->to = map_(lost->to);
    }
    adjust_(event);
    return read;
  }
  [[nodiscard]] const SourceInfo& info() const override { return info_; }
  [[nodiscard]] SourceCounters counters() const override {
    SourceCounters counters = source_->counters();
    counters.first = map_(counters.first);
    counters.last = map_(counters.last);
    return counters;
  }
  [[nodiscard]] std::string comm(ThreadId thread) const override {
    return comm_.empty() ? source_->comm(thread) : comm_;
  }

 private:
  [[nodiscard]] std::unique_ptr<Source> around(std::unique_ptr<Source> source) const override {
    return std::make_unique<PlacedSource>(std::move(source), info_, map_, adjust_, comm_);
  }

  SourceInfo info_;
  ClockMap map_;
  Adjust adjust_;
  std::string comm_;
};

template <typename Adjust>
std::unique_ptr<Source> placed(std::unique_ptr<Source> source, SourceInfo info, ClockMap map,
                               Adjust adjust, std::string comm = {}) {
  return std::make_unique<PlacedSource<Adjust>>(std::move(source), std::move(info), std::move(map),
                                                std::move(adjust), std::move(comm));
}

class ChangedSource final : public ForwardingSource {
 public:
  ChangedSource(std::unique_ptr<Source> source, std::vector<SessionChange> changes,
                std::uint32_t cpus)
      : ForwardingSource(std::move(source)),
        changes_(std::move(changes)),
        cpus_(cpus),
        told_(cpus) {}

  Read next(Event& event) override {
    for (;;) {
      if (told_ < cpus_) return tell(event);
      const Read read = holds_ ? Read::kEvent : source_->next(held_);
      if (read == Read::kPending) return read;
      holds_ = read == Read::kEvent;
      if (at_ == changes_.size() || (holds_ && held_.at < from())) {
        if (std::exchange(holds_, false)) event = held_;
        return read;
      }
      if (!std::exchange(is_told_, true)) {
        told_ = 0;
      } else if (holds_ && held_.at < to()) {
        holds_ = false;
        ++left_out_;
      } else {
        ++at_;
        is_told_ = false;
      }
    }
  }
  [[nodiscard]] SourceCounters counters() const override {
    SourceCounters counters = source_->counters();
    counters.events -= std::min(counters.events, left_out_);
    for (std::uint64_t i = 0; i < gaps_; ++i) counters.add_gap(0);
    return counters;
  }

 private:
  [[nodiscard]] std::unique_ptr<Source> around(std::unique_ptr<Source> source) const override {
    return std::make_unique<ChangedSource>(std::move(source), changes_, cpus_);
  }
  [[nodiscard]] Timestamp from() const { return Timestamp(changes_[at_].from_ns); }
  [[nodiscard]] Timestamp to() const { return Timestamp(changes_[at_].to_ns); }
  Read tell(Event& event) {
    event = Event();
    event.at = from();
    event.cpu = told_++;
    event.thread = ThreadId{-1};
    event.payload = Lost{from(), to(), 0};
    ++gaps_;
    return Read::kEvent;
  }

  std::vector<SessionChange> changes_;
  std::uint32_t cpus_ = 0, told_ = 0;  // told_: how many of this change's losses were returned
  std::size_t at_ = 0;                 // the next change, or the one that goes on
  bool is_told_ = false, holds_ = false;
  Event held_;
  std::uint64_t left_out_ = 0, gaps_ = 0;
};

std::unique_ptr<Source> of_guest_kernel(std::unique_ptr<Source> source, SourceInfo info,
                                        ClockMap map, std::map<std::int32_t, ThreadId> threads,
                                        MachineId machine) {
  info.role = Role::kGuest;
  const auto adjust = [threads = std::move(threads), machine](Event& event) {
    event.machine = machine;
    if (std::holds_alternative<Lost>(event.payload)) return;
    event.task = event.thread;
    auto cpu = static_cast<std::int32_t>(event.cpu);
    if (auto* call = std::get_if<GuestCall>(&event.payload)) {
      call->task = static_cast<std::int32_t>(event.task);
      call->vcpu = cpu = call->cpu;
    }
    event.thread = thread_of_cpu(threads, cpu).value_or(ThreadId{});
  };
  return placed(std::move(source), std::move(info), std::move(map), adjust);
}

}  // namespace

std::unique_ptr<Source> with_clock(std::unique_ptr<Source> source,
                                   const clocks::AlignedSource& aligned,
                                   const std::string& timeline_clock) {
  const bool is_same = aligned.map.is_identity() && source->info().clock == timeline_clock;
  if (is_same && !aligned.one_boot_error_ns) return source;
  SourceInfo info = source->info();
  info.aligned = aligned;
  return placed(std::move(source), std::move(info), aligned.map, [](Event&) {});
}

std::unique_ptr<Source> with_changes(std::unique_ptr<Source> source,
                                     std::vector<SessionChange> changes, std::uint32_t cpus) {
  std::erase_if(changes, [](const SessionChange& change) { return change.to_ns == 0; });
  std::ranges::sort(changes, {}, &SessionChange::from_ns);
  if (changes.empty()) return source;
  return std::make_unique<ChangedSource>(std::move(source), std::move(changes), cpus);
}

std::unique_ptr<Source> with_vcpu_threads(std::unique_ptr<Source> source,
                                          std::map<std::int32_t, ThreadId> threads) {
  if (threads.empty()) return source;
  SourceInfo info = source->info();
  // Keeps the vCPU of the last call, with its thread.
  auto adjust = [threads = std::move(threads), vcpu = std::optional<std::int32_t>(),
                 thread = std::optional<ThreadId>()](Event& event) mutable {
    auto* call = std::get_if<GuestCall>(&event.payload);
    if (call == nullptr) return;
    if (call->vcpu != vcpu) [[unlikely]] {
      vcpu = call->vcpu;
      const auto found = threads.find(call->vcpu);
      thread = found == threads.end() ? std::nullopt : std::optional(found->second);
    }
    if (!thread) return;
    call->task = static_cast<std::int32_t>(event.thread);
    event.thread = *thread;
  };
  return placed(std::move(source), std::move(info), ClockMap(), std::move(adjust));
}

std::unique_ptr<Source> with_guest_calls(std::unique_ptr<Source> source,
                                         const GuestAlignment& relation) {
  SourceInfo info = source->info();
  info.clock = relation.clock;
  info.cycles = false;
  info.aligned = relation.line.alignment(relation.method);
  const auto adjust = [threads = relation.threads](Event& event) {
    const std::int32_t vcpu = vcpu_of_task(static_cast<std::uint32_t>(event.thread));
    event.thread = thread_of_cpu(threads, vcpu).value_or(event.thread);
    if (auto* call = std::get_if<GuestCall>(&event.payload)) call->vcpu = vcpu;
  };
  return placed(std::move(source), std::move(info), relation.line.map(), adjust, "guest");
}

std::unique_ptr<Source> with_guest_alignment(std::unique_ptr<Source> source,
                                             const GuestAlignment& alignment, MachineId machine) {
  SourceInfo info = source->info();
  info.aligned = alignment.line.alignment(alignment.method);
  if (std::exchange(info.cycles, false)) info.aligned.map = ClockMap();
  return of_guest_kernel(std::move(source), std::move(info), alignment.line.map(),
                         alignment.threads, machine);
}

std::unique_ptr<Source> with_guest_threads(std::unique_ptr<Source> source,
                                           std::map<std::int32_t, ThreadId> threads,
                                           MachineId machine) {
  SourceInfo info = source->info();
  return of_guest_kernel(std::move(source), std::move(info), ClockMap(), std::move(threads),
                         machine);
}

}  // namespace trapline
