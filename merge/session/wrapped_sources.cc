#include "merge/session/wrapped_sources.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "merge/source/uftrace/sync_file.h"

namespace trapline {
namespace {

class MappedSource final : public WrappedSource {
 public:
  MappedSource(std::unique_ptr<Source> source, const clocks::AlignedSource& aligned)
      : WrappedSource(std::move(source), aligned.map) {
    info_.aligned = aligned;
  }

  Read next(Event& event) override { return next_placed(event); }

 private:
  using WrappedSource::WrappedSource;
  [[nodiscard]] std::unique_ptr<Source> around(std::unique_ptr<Source> source) const override {
    return std::unique_ptr<Source>(new MappedSource(std::move(source), *this));
  }
};

}  // namespace

std::unique_ptr<Source> with_clock(std::unique_ptr<Source> source,
                                   const clocks::AlignedSource& aligned,
                                   const std::string& timeline_clock) {
  const bool is_same = aligned.map.is_identity() && source->info().clock == timeline_clock;
  if (is_same && !aligned.one_boot_error_ns) return source;
  return std::make_unique<MappedSource>(std::move(source), aligned);
}

namespace {

class GuestFunctionSource final : public WrappedSource {
 public:
  GuestFunctionSource(std::unique_ptr<Source> source, const GuestAlignment& relation)
      : WrappedSource(std::move(source), relation.line.map()), threads_(relation.threads) {
    info_.clock = relation.clock;
    info_.cycles = false;
    info_.aligned = relation.of_source();
  }

  Read next(Event& event) override {
    if (const Read read = next_placed(event); read != Read::kEvent) return read;
    const std::int32_t vcpu = vcpu_of_task(static_cast<std::uint32_t>(event.thread));
    event.thread = thread_of_cpu(threads_, vcpu).value_or(event.thread);
    if (auto* call = std::get_if<GuestCall>(&event.payload)) call->vcpu = vcpu;
    return Read::kEvent;
  }
  [[nodiscard]] std::string comm(ThreadId) const override { return "guest"; }

 private:
  GuestFunctionSource(std::unique_ptr<Source> source, const GuestFunctionSource& like)
      : WrappedSource(std::move(source), like), threads_(like.threads_) {}
  [[nodiscard]] std::unique_ptr<Source> around(std::unique_ptr<Source> source) const override {
    return std::unique_ptr<Source>(new GuestFunctionSource(std::move(source), *this));
  }

  std::map<std::int32_t, ThreadId> threads_;
};

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

class CallsOfThreads final : public WrappedSource {
 public:
  CallsOfThreads(std::unique_ptr<Source> source, std::map<std::int32_t, ThreadId> threads)
      : WrappedSource(std::move(source), ClockMap()), threads_(std::move(threads)) {}

  Read next(Event& event) override {
    const Read read = source_->next(event);
    auto* call = read == Read::kEvent ? std::get_if<GuestCall>(&event.payload) : nullptr;
    if (call == nullptr) return read;
    if (call->vcpu != vcpu_) [[unlikely]] {
      vcpu_ = call->vcpu;
      thread_ = threads_.find(call->vcpu);
    }
    if (thread_ == threads_.end()) return read;
    call->task = static_cast<std::int32_t>(event.thread);
    event.thread = thread_->second;
    return read;
  }

 private:
  [[nodiscard]] std::unique_ptr<Source> around(std::unique_ptr<Source> source) const override {
    return std::make_unique<CallsOfThreads>(std::move(source), threads_);
  }

  const std::map<std::int32_t, ThreadId> threads_;
  std::optional<std::int32_t> vcpu_;  // of the last call, with its thread
  std::map<std::int32_t, ThreadId>::const_iterator thread_;
};

}  // namespace

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
  return std::make_unique<CallsOfThreads>(std::move(source), std::move(threads));
}

std::unique_ptr<Source> with_guest_calls(std::unique_ptr<Source> source,
                                         const GuestAlignment& relation) {
  return std::make_unique<GuestFunctionSource>(std::move(source), relation);
}

namespace {

class GuestKernelSource final : public WrappedSource {
 public:
  GuestKernelSource(std::unique_ptr<Source> source, ClockMap map,
                    std::map<std::int32_t, ThreadId> threads, MachineId machine)
      : WrappedSource(std::move(source), std::move(map)),
        threads_(std::move(threads)),
        machine_(machine) {
    info_.role = Role::kGuest;
  }
  void tell(const GuestAlignment& alignment) {
    info_.aligned = alignment.of_source();
    if (std::exchange(info_.cycles, false)) info_.aligned.map = ClockMap();
  }

  Read next(Event& event) override {
    if (const Read read = next_placed(event); read != Read::kEvent) return read;
    event.machine = machine_;
    if (std::holds_alternative<Lost>(event.payload)) return Read::kEvent;
    event.task = event.thread;
    auto cpu = static_cast<std::int32_t>(event.cpu);
    if (auto* call = std::get_if<GuestCall>(&event.payload)) {
      call->task = static_cast<std::int32_t>(event.task);
      call->vcpu = cpu = call->cpu;
    }
    event.thread = thread_of_cpu(threads_, cpu).value_or(ThreadId{});
    return Read::kEvent;
  }

 private:
  GuestKernelSource(std::unique_ptr<Source> source, const GuestKernelSource& like)
      : WrappedSource(std::move(source), like), threads_(like.threads_), machine_(like.machine_) {}
  [[nodiscard]] std::unique_ptr<Source> around(std::unique_ptr<Source> source) const override {
    return std::unique_ptr<Source>(new GuestKernelSource(std::move(source), *this));
  }

  std::map<std::int32_t, ThreadId> threads_;
  MachineId machine_;
};

}  // namespace

std::unique_ptr<Source> with_guest_alignment(std::unique_ptr<Source> source,
                                             const GuestAlignment& alignment, MachineId machine) {
  auto guest = std::make_unique<GuestKernelSource>(std::move(source), alignment.line.map(),
                                                   alignment.threads, machine);
  guest->tell(alignment);
  return guest;
}

std::unique_ptr<Source> with_guest_threads(std::unique_ptr<Source> source,
                                           std::map<std::int32_t, ThreadId> threads,
                                           MachineId machine) {
  return std::make_unique<GuestKernelSource>(std::move(source), ClockMap(), std::move(threads),
                                             machine);
}

}  // namespace trapline
