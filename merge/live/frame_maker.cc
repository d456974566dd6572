#include "merge/live/frame_maker.h"

#include <algorithm>

#include "merge/report/report_data.h"

namespace trapline::live {
namespace {

std::vector<Dimension> with_base(std::vector<Dimension> by) {
  std::erase_if(by, [](Dimension dimension) {
    // A cell has the vCPU's thread, which also tells the VM: kVm needs no dimension of its own.
    return dimension == Dimension::kVm ||
           std::ranges::find(kBaseDimensions, dimension) != kBaseDimensions.end();
  });
  by.insert(by.begin(), kBaseDimensions.begin(), kBaseDimensions.end());
  return by;
}

bool is_slower(const ExitSpan& a, const ExitSpan& b) { return a.total() > b.total(); }

constexpr std::uint64_t kMinute = 60'000'000'000;

std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

// Returns how much a sum has grown since it was last reported. Time that turned out to be another
// state's (a halt that goes on, an exit whose entry was not recorded) is subtracted from the next
// growth.
std::uint64_t grown(std::uint64_t now, std::uint64_t& known) {
  const std::uint64_t growth = minus(now, known);
  known += growth;
  return growth;
}

}  // namespace

FrameMaker::FrameMaker(const EngineOptions& options)
    : dimensions_(with_base(options.by)),
      keys_(dimensions_),
      requests_wanted_(options.requests),
      cells_(keys_.words(), kMostCells) {}

SpanClass FrameMaker::selects() const {
  const SpanClass selected =
      SpanClass::kExits | SpanClass::kWaits | SpanClass::kStalls | SpanClass::kHostRuns;
  return requests_wanted_ ? selected | SpanClass::kRequests : selected;
}

void FrameMaker::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  const StackId stack = keys_.needs_stack() ? pipeline.stack_of(exit) : kNoStack;
  const std::span<const WaitShare> shares = pipeline.waits()->shares();
  waits_.add(shares);
  waits_.add(pipeline.waits()->halts());
  if (is_page_fault(exit))
    faults_[{exit.thread, pipeline.faults()->last().why.cause}].add({1, exit.total()});
  GroupKey key = keys_.of(exit, stack, pipeline.stacks(), shares);
  key.halted = exit.halt;
  const std::uint32_t place = cells_.place_of(key);
  if (place == kMostCells) {
    ++folded_;
    return;
  }
  Cell& into = cells_[place];
  const std::uint64_t total = exit.total();
  const bool longest = into.row.total.count() == 0 || total > into.row.total.max();
  into.row.add(exit);
  if (exit.start < begin_) {
    ++into.carried;
    into.carried_ns += total;
  }
  const bool slow = !exit.halt && (slow_.size() < kMostSlow || total > slow_.front().total());
  if (!longest && !slow) return;
  const KeptExit kept(exit, pipeline);
  if (longest) into.slowest = kept;
  if (!slow) return;
  if (slow_.size() == kMostSlow) {
    std::ranges::pop_heap(slow_, is_slower);
    slow_.pop_back();
  }
  slow_.push_back(kept);
  std::ranges::push_heap(slow_, is_slower);
}

void FrameMaker::request(const RequestSpan& request, const Pipeline&) { requests_.add(request); }

void FrameMaker::stall(const Stall& stall, const Pipeline&) {
  if (stall.vcpus != 0) return;  // a VM's stall: its vCPUs' stalls are reported too
  while (!stalls_.empty() && stalls_.back().length() <= stall.length()) stalls_.pop_back();
  stalls_.push_back(stall);
}

void FrameMaker::close_stalls(Frame& frame, const Pipeline& pipeline) {
  const auto is_past = [&](const StallTime& stall) {
    return elapsed(stall.end, frame.end) > kMinute;
  };
  while (!stalls_.empty() && is_past(stalls_.front())) stalls_.pop_front();
  if (!stalls_.empty()) frame.longest_stall = stalls_.front();
  for (const StallTime& open :
       pipeline.stalls()->open(pipeline, frame.end, PipelineOptions().stalls_ns)) {
    const auto& longest = frame.longest_stall;
    if ((!longest || open.length() > longest->length()) && !is_past(open))
      frame.longest_stall = open;
  }
}

// Adds each vCPU's times in the frame: the growth of its totals since the last frame. The growth is
// exact, so all frames together add up to the report's figures.
void FrameMaker::close_vcpus(Frame& frame, const Pipeline& pipeline) {
  for (const auto& [thread, totals] : pipeline.exits().vcpus_at(frame.end)) {
    VcpuTotals now = totals;
    const auto [place, is_new] = before_.try_emplace(thread);
    VcpuTotals& before = place->second;
    if (is_new) {  // the thread was offline in frames before it was known to run a vCPU
      const std::uint64_t inside = elapsed(std::max(frame.begin, totals.begin), frame.end);
      const std::uint64_t offline = minus(inside, totals.time_ns() - totals.offline_ns);
      before.offline_ns = minus(totals.offline_ns, offline);
    }
    VcpuTotalsOf use{thread, totals};
    use.totals.exits = grown(totals.exits, before.exits);
    for (std::size_t i = 0; i < kStates; ++i) {
      const auto state = static_cast<State>(i);
      if (state != State::kOffline) use.totals.of(state) = grown(now.of(state), before.of(state));
    }
    // If a thread ended in an exit, frames before have reported the exit as another state's time.
    // Offline time grows only by what is not reported yet.
    const std::uint64_t untold = minus(totals.time_ns(), before.time_ns());
    now.offline_ns = std::min(now.offline_ns, before.offline_ns + untold);
    use.totals.offline_ns = grown(now.offline_ns, before.offline_ns);
    frame.vcpus.push_back(use);
  }
}

void FrameMaker::close_host_cpu(Frame& frame, const Naming& names) {
  const std::vector<HostRuns::Entry> runs = names.pipeline.host_runs()->threads(frame.end);
  for (const HostThread& thread : host_threads(names, runs)) {
    if (thread.lacks_runs) continue;
    const auto is_same = [&thread](const HostRoleTime& one) {
      return one.role == thread.role && one.vm.id() == thread.vm->id();
    };
    auto role = std::ranges::find_if(frame.host_cpu, is_same);
    if (role == frame.host_cpu.end()) role = frame.host_cpu.insert(role, {*thread.vm, thread.role});
    role->ns += minus(thread.runs.state.ran_ns, ran_[thread.runs.thread]);
    role->more_ns += grown(thread.runs.state.ran_ns, told_[thread.runs.thread]);
  }
  for (const HostRuns::Entry& entry : runs) ran_[entry.thread] = entry.state.ran_ns;
}

void FrameMaker::close_counts(Frame& frame, const Timeline& timeline) {
  LossCounts now;
  std::uint64_t events = 0;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const SourceCounters counters = timeline.source(i).counters();
    events += counters.events;
    now.add(counters);
  }
  frame.events = grown(events, events_);
  frame.lost_events = grown(now.lost_events, counted_.lost_events);
  frame.gaps = grown(now.gaps, counted_.gaps);
  frame.gaps_uncounted = grown(now.gaps_uncounted, counted_.gaps_uncounted);
}

Frame FrameMaker::close(Timestamp end, const Naming& names) {
  const Pipeline& pipeline = names.pipeline;
  Frame frame;
  frame.begin = begin_;
  frame.end = begin_ = end;
  frame.folded = std::exchange(folded_, 0);
  frame.cells = cells_.take();
  frame.cells.shrink_to_fit();
  std::ranges::sort(slow_, is_slower);
  frame.slow = std::exchange(slow_, {});
  close_vcpus(frame, pipeline);
  close_counts(frame, names.timeline);
  frame.waits = std::exchange(waits_, {}).report(names);
  close_stalls(frame, pipeline);
  close_host_cpu(frame, names);
  frame.faults = std::exchange(faults_, {});
  if (requests_wanted_) {
    ReportData requests;
    std::exchange(requests_, {}).report(requests, pipeline);
    frame.requests = std::move(requests.rows);
  }
  return frame;
}

std::size_t Frame::size() const {
  std::size_t bytes = sizeof(Frame) + cells.size() * sizeof(Cell) + slow.size() * sizeof(KeptExit) +
                      vcpus.size() * sizeof(VcpuTotalsOf) + host_cpu.size() * sizeof(HostRoleTime) +
                      faults.size() * sizeof(FaultTotals::value_type);
  for (const Cell& cell : cells) bytes += cell.row.total.size();
  // A row has two texts that may be on the heap.
  for (const WaitRows* rows : {&waits.preempted, &waits.blocked, &waits.halted})
    bytes += rows->rows.size() * sizeof(WaitRow) * 2;
  return bytes;
}

}  // namespace trapline::live
