#include "merge/live/frame_maker.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/stall_tracker.h"

namespace trapline::live {
namespace {

std::vector<Dimension> with_base(const std::vector<Dimension>& by) {
  std::vector<Dimension> all(kBaseDimensions.begin(), kBaseDimensions.end());
  for (const Dimension dimension : by) {
    // A VM follows from its threads, like a vCPU.
    if (dimension == Dimension::kVm) continue;
    if (std::find(all.begin(), all.end(), dimension) == all.end()) all.push_back(dimension);
  }
  return all;
}

bool is_slower(const SlowExit& a, const SlowExit& b) { return a.total > b.total; }

constexpr std::uint64_t kMinute = 60'000'000'000;

std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

// Returns how much a sum has grown since it was last reported. Time that turned out to be another
// state's (a halt that goes on, an exit whose entry was not recorded) is subtracted from the next
// growth.
std::uint64_t grown(std::uint64_t now, std::uint64_t& told) {
  const std::uint64_t growth = minus(now, told);
  told += growth;
  return growth;
}

}  // namespace

FrameMaker::FrameMaker(const EngineOptions& options)
    : dimensions_(with_base(options.by)),
      keys_(dimensions_),
      requests_wanted_(options.requests),
      needs_waits_(options.waits || keys_.needs_waits()),
      cells_(keys_.words(), kMostCells) {}

SpanClass FrameMaker::selects() const {
  SpanClass selected = SpanClass::kExits;
  if (requests_wanted_) selected = selected | SpanClass::kRequests;
  if (needs_waits_) selected = selected | SpanClass::kWaits | SpanClass::kStalls;
  return selected;
}

void FrameMaker::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  const StackId stack = keys_.needs_stack() ? pipeline.stack_of(exit) : kNoStack;
  std::span<const WaitShare> shares;
  if (needs_waits_) shares = pipeline.waits()->shares();
  waits_.add(shares);
  GroupKey key = keys_.of(exit, stack, pipeline.stacks(), shares);
  key.halted = exit.halt;
  const std::uint32_t place = cells_.place_of(key);
  if (place == kMostCells) {
    ++folded_;
    return;
  }
  Cell& into = cells_[place];
  const std::uint64_t total = exit.total();
  into.total.add(total);
  for (std::size_t i = 0; i < kParts; ++i) into.parts[i] += exit.parts[i];
  if (exit.start < begin_) {
    ++into.carried;
    into.carried_ns += total;
  }
  const bool halt = exit.halt;
  const bool longest = total > into.slowest.total || into.total.count() == 1;
  const bool slow = !halt && (slow_.size() < kMostSlow || total > slow_.front().total);
  if (!longest && !slow) return;
  const SlowExit kept{exit.start,  total,          exit.parts, exit.thread, key,
                      exit.detail, exit.vmm_event, exit.rip,   halt};
  if (longest) into.slowest = kept;
  if (slow) keep_slow(kept);
}

void FrameMaker::keep_slow(const SlowExit& exit) {
  if (slow_.size() >= kMostSlow) {
    std::pop_heap(slow_.begin(), slow_.end(), is_slower);
    slow_.pop_back();
  }
  slow_.push_back(exit);
  std::push_heap(slow_.begin(), slow_.end(), is_slower);
}

void FrameMaker::request(const RequestSpan& request, const Pipeline&) {
  if (request.spec >= requests_.size()) requests_.resize(request.spec + 1);
  requests_[request.spec].add(elapsed(request.start, request.end));
}

void FrameMaker::stall(const Stall& stall, const Pipeline&) {
  if (stall.vcpus != 0) return;  // its vCPUs' stalls are reported too
  const SeenStall seen{stall.thread, stall.begin, stall.end, stall.open};
  while (!stalls_.empty() && stalls_.back().length() <= seen.length()) stalls_.pop_back();
  stalls_.push_back(seen);
}

void FrameMaker::close_stalls(Frame& frame, const Pipeline& pipeline) {
  const auto is_past = [&](const SeenStall& stall) {
    return elapsed(stall.end, frame.end) > kMinute;
  };
  while (!stalls_.empty() && is_past(stalls_.front())) stalls_.pop_front();
  std::uint64_t longest = 0;
  if (!stalls_.empty()) {
    frame.longest_stall = stalls_.front();
    longest = stalls_.front().length();
  }
  for (const OpenStall& open :
       pipeline.stalls()->open(pipeline, frame.end, PipelineOptions().stalls_ns)) {
    const SeenStall seen{open.thread, open.begin, open.end, open.lasts};
    if (seen.length() <= longest || is_past(seen)) continue;
    longest = seen.length();
    frame.longest_stall = seen;
  }
}

// Computes the difference of two readings. It is exact, and over all frames it adds up to the
// report's figures.
void FrameMaker::close_vcpus(Frame& frame, const Pipeline& pipeline) {
  for (const auto& [thread, totals] : pipeline.exits().vcpus_at(frame.end)) {
    VcpuTotals now = totals;
    const auto [place, is_new] = before_.try_emplace(thread);
    VcpuTotals& before = place->second;
    if (is_new) {  // it was offline in earlier frames, when it was not known to run a vCPU
      const std::uint64_t inside = elapsed(std::max(frame.begin, totals.begin), frame.end);
      const std::uint64_t offline = minus(inside, totals.time_ns() - totals.offline_ns);
      before.offline_ns = minus(totals.offline_ns, offline);
    }
    VcpuUse use{thread, totals};
    use.totals.exits = grown(totals.exits, before.exits);
    for (std::size_t i = 0; i < kStates; ++i) {
      const auto state = static_cast<State>(i);
      if (state != State::kOffline) use.totals.of(state) = grown(now.of(state), before.of(state));
    }
    // The exit in which a thread ended was reported as another state's time.
    const std::uint64_t untold = minus(totals.time_ns(), before.time_ns());
    now.offline_ns = std::min(now.offline_ns, before.offline_ns + untold);
    use.totals.offline_ns = grown(now.offline_ns, before.offline_ns);
    frame.vcpus.push_back(use);
  }
}

void FrameMaker::close_counts(Frame& frame, const Timeline& timeline) {
  Frame now;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const SourceCounters counters = timeline.source(i).counters();
    now.events += counters.events;
    now.add(counters);
    now.damaged_events += counters.damaged_events;
  }
  frame.events = minus(now.events, counted_.events);
  frame.lost_events = minus(now.lost_events, counted_.lost_events);
  frame.gaps = minus(now.gaps, counted_.gaps);
  frame.gaps_uncounted = minus(now.gaps_uncounted, counted_.gaps_uncounted);
  frame.damaged_events = minus(now.damaged_events, counted_.damaged_events);
  counted_ = std::move(now);
}

Frame FrameMaker::close(Timestamp end, const Naming& names) {
  const Pipeline& pipeline = names.pipeline;
  Frame frame;
  frame.begin = begin_;
  frame.end = begin_ = end;
  frame.folded = std::exchange(folded_, 0);
  frame.cells = cells_.take();
  frame.cells.shrink_to_fit();
  for (Cell& cell : frame.cells) cell.total.shrink();
  std::sort(slow_.begin(), slow_.end(), is_slower);
  frame.slow = std::exchange(slow_, {});
  close_vcpus(frame, pipeline);
  close_counts(frame, names.timeline);
  if (needs_waits_) {
    frame.waits = std::exchange(waits_, {}).report(names);
    for (WaitRows* rows : {&frame.waits.preempted, &frame.waits.blocked}) {
      if (rows->rows.size() > kMostCulprits) rows->rows.resize(kMostCulprits);
    }
    close_stalls(frame, pipeline);
  }
  for (std::size_t spec = 0; spec < requests_.size(); ++spec) {
    if (requests_[spec].count() == 0) continue;
    frame.requests.push_back(
        {printable(pipeline.requests()->specs()[spec].name()), std::move(requests_[spec])});
  }
  requests_.clear();
  return frame;
}

}  // namespace trapline::live
