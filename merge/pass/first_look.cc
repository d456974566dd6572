#include "merge/pass/first_look.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "merge/pass/naming.h"
#include "merge/pass/pass.h"

#include "merge/model/kernel_events.h"

namespace trapline {
namespace {

constexpr std::uint64_t kEventsPerStop = 1u << 8;  // events between two calls of `stop`
static_assert(kEventsPerProgress % kEventsPerStop == 0);

}  // namespace

void feed(Timeline& timeline, Pipeline& pipeline, const Progress& progress,
          const std::function<bool()>& stop, SharedExits* shared) {
  struct Both final : EventSink {
    Pipeline& pipeline;
    SharedExits& shared;
    Both(Pipeline& first, SharedExits& second) : pipeline(first), shared(second) {}
    bool push(const Event& event) override {
      if (!pipeline.push(event)) return false;
      shared.on(event);
      return true;
    }
  };
  std::optional<Both> both;
  if (shared != nullptr) both.emplace(pipeline, *shared);
  EventSink& sink = both ? static_cast<EventSink&>(*both) : pipeline;
  Event event;
  for (std::uint64_t events = kEventsPerStop;; events += kEventsPerStop) {
    if (timeline.pass_on(event, kEventsPerStop, sink) != Read::kEvent) return;
    if (stop && stop()) return;
    if (events % kEventsPerProgress == 0 && progress) progress(timeline.progress());
  }
}

ExitMatcher::SourceOf source_of(const Timeline& timeline) {
  return
      [&timeline](const ExitSpan& exit) -> const Source& { return timeline.source(exit.source); };
}

void finish(const Timeline& timeline, Pipeline& pipeline) {
  pipeline.finish(recorded_interval(timeline, pipeline).end);
}

RecordedInterval recorded_interval(const Timeline& timeline, const Pipeline& pipeline) {
  RecordedInterval interval{pipeline.begin().value_or(Timestamp()), pipeline.end()};
  for (std::size_t i = 0; i < timeline.size() && !pipeline.is_window(); ++i) {
    const SourceCounters counters = timeline.source(i).counters();
    if (timeline.source(i).info().role != Role::kHostKernel || counters.events == 0) continue;
    interval.begin = std::min(interval.begin, counters.first);
    interval.end = std::max(interval.end, counters.last);
  }
  return interval;
}

namespace {

// Returns the most frequent events: "sched:sched_switch (1234), …".
std::string frequent_events(const Timeline& timeline) {
  constexpr std::size_t kShown = 6;
  std::vector<std::pair<std::string, std::uint64_t>> all;
  for (std::size_t i = 0; i < timeline.size(); ++i)
    for (auto& event : timeline.source(i).event_counts()) all.push_back(std::move(event));
  std::ranges::sort(all, std::greater(), &std::pair<std::string, std::uint64_t>::second);
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kShown); ++i)
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", all[i].first, all[i].second);
  if (all.size() > kShown) text += fmt::format(", and {} more kinds", all.size() - kShown);
  return text.empty() ? "QEMU's events" : text;
}

}  // namespace

Error no_exits(const Timeline& timeline) {
  const std::string counts = frequent_events(timeline), &path = timeline.source(0).info().path;
  bool programs = counts.find(events::print.full_name) != std::string::npos;
  for (std::size_t i = 0; i < timeline.size(); ++i)
    programs = programs || timeline.source(i).info().role == Role::kHostProgram;
  return {fmt::format(
              "{0}: holds no VM exits ({1}, {2}); it has {3}; {4} {0}{5}; exits are recorded by "
              "trapline record, or trace-cmd record -e kvm without -P",
              path, events::kvm_exit.name, events::kvm_userspace_exit.name, counts,
              programs ? "count QEMU's events: trapline report" : "see them: trapline timeline",
              programs ? " --by qemu-event, or time requests: --by span" : ""),
          ErrorKind::kRuntime};
}

Error no_entries(const Timeline& timeline) {
  return {fmt::format("{}: {} was not recorded: its exits have no end; record {} as well",
                      timeline.source(0).info().path, events::kvm_entry.name,
                      events::kvm_entry.full_name),
          ErrorKind::kRuntime};
}

Error no_durations(const Timeline& timeline) {
  return {fmt::format("{}: its exits have no durations; record {} or {}",
                      timeline.source(0).info().path, events::sys_enter_ioctl.full_name,
                      events::kvm_exit.full_name),
          ErrorKind::kUsage};
}

namespace {

// Finds the longest exit of each thread, and the selected exits. Which threads are selected is
// known only after everything was read.
class ExitsFound final : public SpanSink {
 public:
  ExitsFound(const LookFor& wanted, ExitMatcher::SourceOf source)
      : wanted_(wanted), matcher_(wanted.exits, std::move(source)) {}

  [[nodiscard]] SpanClass selects() const override { return SpanClass::kExits; }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    if (wanted_.exits.empty() ? exit.halt : !matcher_.holds(exit, pipeline)) return;
    if (wanted_.chosen) chosen_.add(exit);
    const auto found = longest_.find(exit.thread);
    if (found != longest_.end() && exit.total() <= found->second.total()) return;
    longest_.insert_or_assign(exit.thread, exit);
  }
  // Returns the threads' longest exit; of exits of equal length, the one that ended first.
  [[nodiscard]] std::optional<ExitSpan> longest_of(
      const std::optional<std::set<ThreadId>>& threads) const {
    std::optional<ExitSpan> longest;
    for (const auto& [thread, exit] : longest_) {
      if (threads && !threads->contains(thread)) continue;
      if (longest && std::pair(exit.total(), longest->end) <= std::pair(longest->total(), exit.end))
        continue;
      longest = exit;
    }
    return longest;
  }
  [[nodiscard]] const ExitMatcher& matcher() const { return matcher_; }
  [[nodiscard]] ChosenExits take_chosen() { return std::move(chosen_); }

 private:
  const LookFor& wanted_;
  ExitMatcher matcher_;
  std::map<ThreadId, ExitSpan> longest_;
  ChosenExits chosen_;
};

Result<std::set<ThreadId>> matching(const VcpuFilter& filter,
                                    const std::vector<VcpuThread>& threads,
                                    const Processes& processes) {
  const std::vector<Vm> vms = find_vms(threads, processes);
  if (auto checked = filter.check(threads, vms); !checked)
    return tl::unexpected(std::move(checked).error());
  std::set<ThreadId> matching;
  for (std::size_t i = 0; i < threads.size(); ++i)
    if (filter.holds(vms[i], threads[i].vcpu)) matching.insert(threads[i].thread);
  return matching;
}

Result<FirstLook> found_in(const LookFor& wanted, ExitsFound& exits,
                           const std::vector<VcpuThread>& threads, const Processes& processes,
                           const Pipeline& pipeline) {
  FirstLook found;
  found.lacks_entries = pipeline.exits().lacks_entries();
  if (!wanted.vcpus.empty()) {
    if (auto some = assign(found.threads, matching(wanted.vcpus, threads, processes)); !some)
      return tl::unexpected(std::move(some).error());
  }
  if (wanted.wants_exits()) {
    if (auto checked = exits.matcher().check(); !checked)
      return tl::unexpected(std::move(checked).error());
  }
  if (wanted.longest) found.longest = exits.longest_of(found.threads);
  found.chosen = exits.take_chosen();
  if (!found.chosen.is_full()) return found;
  return fail(ErrorKind::kUsage,
              "{}: more than {} exits match, too many for a timeline; ask for fewer",
              wanted.exits.text(), ChosenExits::kMost);
}

// Looks for the exits of `wanted` in the host's events, while open_input() reads them for its
// clocks.
class Watcher final : public EvidenceObserver {
 public:
  Watcher(const LookFor& wanted, const Progress& progress)
      : progress_(progress),
        exits_(wanted, [this](const ExitSpan&) -> const Source& { return *host_; }) {}

  void begin(const Source& host, const Capabilities& has, Processes known) override {
    host_ = &host;
    PipelineOptions how;
    how.model = choose_exit_model(has);
    how.processes = std::move(known);
    pipeline_.emplace(std::move(how), std::vector<SpanSink*>{&exits_});
  }
  void on(const Event& event) override {
    if (!pipeline_->push(event)) return;
    if (++events_ % kEventsPerProgress == 0 && progress_) progress_(host_->progress());
  }
  void end(const Result<void>& status) override {
    status_ = status;
    pipeline_->finish();
    threads_ = vcpu_threads(pipeline_->vcpus(),
                            [this](std::size_t, ThreadId thread) { return host_->comm(thread); });
    host_ = nullptr;
  }
  // Returns whether the watcher saw everything that a pass over the timeline would see.
  [[nodiscard]] bool saw_all(const LookFor& wanted, const Input& input) const {
    // Devices and functions are known only with the program's events and the guest's symbols.
    const ExitFilter& exits = wanted.exits;
    return exits.device.empty() && exits.function.empty() && exits.detail.empty() && pipeline_ &&
           input.observed && has_exits(input.capabilities) &&
           pipeline_->exits().model() == choose_exit_model(input.capabilities);
  }
  [[nodiscard]] Result<FirstLook> found(const LookFor& wanted) {
    if (wanted.longest && !status_) return tl::unexpected(status_.error());
    return found_in(wanted, exits_, threads_, pipeline_->processes(), *pipeline_);
  }

 private:
  const Progress& progress_;
  const Source* host_ = nullptr;
  ExitsFound exits_;
  std::optional<Pipeline> pipeline_;
  std::vector<VcpuThread> threads_;
  Result<void> status_;
  std::uint64_t events_ = 0;
};

// Looks for the exits and vCPUs of `wanted` in a separate pass over the timeline, up to `to`.
Result<FirstLook> look(const Input& input, const LookFor& wanted, std::optional<TimeSpec> to,
                       const Progress& progress) {
  std::vector<std::unique_ptr<Source>> sources;
  for (const auto& source : input.sources) {
    auto again = source->again();
    if (!again) return tl::unexpected(std::move(again).error());
    sources.push_back(std::move(*again));
  }
  Timeline timeline(std::move(sources));
  ExitsFound exits(wanted, source_of(timeline));
  PipelineOptions how = pipeline_options(timeline, input);
  how.to = to;
  Pipeline pipeline(std::move(how), {&exits});
  feed(timeline, pipeline, progress);
  finish(timeline, pipeline);
  if (wanted.longest && !timeline.status()) return tl::unexpected(timeline.status().error());
  if (wanted.wants_exits() && !has_exits(input.capabilities))
    return tl::unexpected(no_exits(timeline));
  return found_in(wanted, exits, vcpu_threads(pipeline.vcpus(), timeline), pipeline.processes(),
                  pipeline);
}

}  // namespace

Result<LookedAt> open_and_look(const InputOptions& options, const LookFor& wanted,
                               const Progress& progress) {
  const bool looks = wanted.wants_exits() || !wanted.vcpus.empty();
  Watcher watcher(wanted, progress);
  InputOptions how = options;
  if (looks && !wanted.to) how.observer = &watcher;  // it may not have the timeline's first event
  auto input = open_input(how);
  if (!input) return tl::unexpected(std::move(input).error());
  if (!looks) return LookedAt{std::move(*input), {}};
  input->observed = watcher.saw_all(wanted, *input);
  auto found = input->observed ? watcher.found(wanted) : look(*input, wanted, wanted.to, progress);
  if (!found && wanted.to) found = look(*input, wanted, {}, progress);  // it may come later
  if (!found) return tl::unexpected(std::move(found).error());
  return LookedAt{std::move(*input), std::move(*found)};
}

}  // namespace trapline
