#include "tests/fuzz/checked_pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include <cstdio>
#include <cstdlib>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/stall_tracker.h"
#include "merge/source/timeline.h"

namespace trapline::fuzz {
namespace {

constexpr std::uint64_t kMostTexts = 64;

std::uint64_t sum(const Parts& parts) {
  std::uint64_t all = 0;
  for (const std::uint64_t part : parts) all += part;
  return all;
}

// A guest's task that moves between vCPUs keeps its stack.
std::string stack_of(const FunctionCall& call) {
  const ThreadId thread = call.task == 0 ? call.thread : ThreadId{};
  return fmt::format("{} {} {}", static_cast<unsigned>(call.machine),
                     static_cast<std::int32_t>(thread), call.task);
}

void check_intervals(const ExitSpan& exit) {
  Parts parts{};
  Timestamp at = exit.start;
  for (const PartInterval& piece : exit.intervals) {
    hold(piece.begin == at, "an exit's intervals do not follow each other");
    hold(piece.end >= piece.begin, "an interval of an exit ends before it begins");
    parts[static_cast<std::size_t>(piece.part)] += elapsed(piece.begin, piece.end);
    at = piece.end;
  }
  hold(at == exit.end, "an exit's intervals do not end with it");
  hold(parts == exit.parts, "an exit's intervals do not sum to its parts");
}

void check_waits(const ExitSpan& exit, std::span<const WaitShare> shares) {
  Parts parts{};
  for (const WaitShare& share : shares) {
    hold(share.begin >= exit.start && share.end <= exit.end && share.begin <= share.end,
         "a culprit's share lies outside of its exit");
    parts[static_cast<std::size_t>(share.part)] += share.length();
    const EventRef* proof = share.culprit.proof();
    hold((proof != nullptr) == (share.culprit->kind != CulpritKind::kUnknown) &&
             (proof == nullptr || proof->at() <= exit.end),
         "a culprit is named without an event that proves it");
  }
  for (const Part part : {Part::kPreempted, Part::kBlocked}) {
    const auto i = static_cast<std::size_t>(part);
    hold(parts[i] == exit.parts[i], "the culprits' shares do not sum to an exit's part");
  }
}

// Text for people, as each source promises it.
bool printed(std::string_view text) { return printable(text) == text; }

}  // namespace

void broken(const char* what) {
  std::fprintf(stderr, "ERROR: %s\n", what);
  std::abort();
}

SpanClass CheckedSpans::selects() const {
  return static_cast<SpanClass>(2 * static_cast<unsigned>(SpanClass::kWaits) - 1) |
         SpanClass::kStalls;
}

void CheckedSpans::event(const Event& event, const Pipeline& pipeline) {
  in_order_ &= event.at >= last_;
  last_ = std::max(last_, event.at);
  if (is_guest(event.machine)) return;
  if (std::holds_alternative<KvmExit>(event.payload)) ++kvm_exits_;
  if (std::holds_alternative<KvmEntry>(event.payload)) ++kvm_entries_;
  for (const ThreadChange& change : pipeline.changes())
    deaths_ += change.now == RunState::kEnded ? 1 : 0;
}

void CheckedSpans::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  hold(exit.end >= exit.start, "an exit ends before it begins");
  hold(sum(exit.parts) == exit.total(), "an exit's parts do not sum to its time");
  Lived& thread = threads_[exit.thread];
  hold(!in_order_ || exit.start >= thread.end, "an exit overlaps another or a run of the guest");
  thread.end = exit.end;
  thread.ns += exit.total();
  const auto shares = pipeline.waits()->shares();
  if (!in_order_ || pipeline.exits().counters().intervals_left_out != 0) return;
  check_intervals(exit);
  if (pipeline.exits().model().sched_switch) check_waits(exit, shares);
}

void CheckedSpans::stall(const Stall& stall, const Pipeline&) {
  if (!in_order_) return;
  std::uint64_t ns = 0;
  for (const StallShare& share : stall.shares) ns += share.ns;
  hold(stall.begin < stall.end, "a stall ends before it begins");
  hold(ns == stall.length(), "the causes of a stall do not sum to it");
}

void CheckedSpans::states(std::span<const StateRun> runs, const Pipeline&) {
  for (const StateRun& run : runs) {
    hold(run.end >= run.begin, "a state ends before it begins");
    threads_[run.thread].ns += elapsed(run.begin, run.end);
  }
}

void CheckedSpans::guest_run(const GuestRun& run, const Pipeline&) {
  Lived& thread = threads_[run.thread];
  hold(!in_order_ || run.end >= run.begin, "a run of the guest ends before it begins");
  hold(!in_order_ || run.begin >= thread.end, "a run of the guest overlaps an exit");
  thread.end = run.end;
  thread.ns += elapsed(run.begin, run.end);
}

void CheckedSpans::begin(const FunctionCall& call, const Pipeline&) {
  calls_[stack_of(call)].push_back(call);
}

void CheckedSpans::end(const FunctionCall& call, const Pipeline&) {
  const auto open = calls_.find(stack_of(call));
  hold(open != calls_.end() && !open->second.empty(), "a call ends that did not begin");
  const FunctionCall& last = open->second.back();
  hold(last.begin == call.begin && last.stack == call.stack && last.depth == call.depth,
       "a call ends before one that it made");
  open->second.pop_back();
  hold(!in_order_ || call.end >= call.begin, "a call ends before it begins");
}

void CheckedSpans::finish(const Pipeline& pipeline) const {
  const ExitCounters& counters = pipeline.exits().counters();
  if (counters.threads_left_out != 0) return;
  if (!pipeline.exits().model().from_userspace_exit) {
    hold(kvm_exits_ == counters.exits, "a kvm_exit was not counted once");
    // A thread that ends in an exit stops it without one.
    const std::uint64_t entries = counters.exits - counters.exit_without_entry -
                                  counters.closed_by_loss + counters.entry_without_exit;
    hold(kvm_entries_ <= entries && kvm_entries_ + deaths_ >= entries,
         "a kvm_entry was not counted once");
  }
  for (const VcpuTotalsOf& vcpu : pipeline.exits().vcpus()) {
    const VcpuTotals& totals = vcpu.totals;
    if (!in_order_) continue;
    hold(totals.time_ns() == elapsed(totals.begin, totals.end),
         "a vCPU's states do not sum to its time");
    if (counters.intervals_left_out != 0) continue;
    const auto lived = threads_.find(vcpu.thread);
    hold((lived == threads_.end() ? 0 : lived->second.ns) == totals.time_ns(),
         "a vCPU's exits, runs and states do not sum to its time");
  }
}

std::uint64_t read_all(std::unique_ptr<Source> source, Times times,
                       const tracetool::Declarations* declared) {
  PipelineOptions options;
  const Capabilities has = source->capabilities();
  options.model = choose_exit_model(has, source->info().cycles);
  options.roles = {source->info().role};
  options.declared = declared;
  (void)source->describe();
  (void)source->facts();
  const auto range = source->range();
  hold(times == Times::kMayGoBack || !range || range->first <= range->second,
       "a recording ends before it begins");
  source->select(EventClass::kAll);
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::move(source));
  Timeline timeline(std::move(sources));
  CheckedSpans spans;
  Pipeline pipeline(std::move(options), {&spans});
  Event event;
  Timestamp last;
  std::uint64_t events = 0;
  while (timeline.next(event) == Read::kEvent) {
    hold(times == Times::kMayGoBack || event.at >= last, "events are not in order of time");
    last = std::max(last, event.at);
    if (++events <= kMostTexts) {
      const Source& from = timeline.source_of(event);
      hold(printed(from.event_name(event)), "an event's name is not printable");
      hold(printed(from.event_text(event)), "an event's text is not printable");
      hold(printed(from.comm(event.thread)), "a thread's name is not printable");
      if (const auto* exit = std::get_if<KvmExit>(&event.payload))
        (void)from.reason_name({exit->reason, exit->isa, exit->exception_class});
      if (const auto* exit = std::get_if<KvmUserspaceExit>(&event.payload))
        (void)from.reason_name({exit->reason, ExitReason::kIsaUserspace});
      if (const auto* host = std::get_if<HostEvent>(&event.payload))
        (void)from.kernel_function(host->address);
    }
    hold(pipeline.push(event), "the pipeline ended before its events");
  }
  pipeline.finish(last);
  spans.finish(pipeline);
  const SourceCounters counted = timeline.source(0).counters();
  hold(counted.events <= events, "events are counted that were not read");
  hold(counted.gaps_uncounted <= counted.gaps,
       "there are more losses without a number than losses");
  hold(timeline.status() || !timeline.status().error().message.empty(), "an error says nothing");
  (void)timeline.source(0).event_counts();
  (void)timeline.progress();
  return events;
}

}  // namespace trapline::fuzz
