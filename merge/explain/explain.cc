#include "merge/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/model/kernel_events.h"
#include "merge/pass/first_look.h"
#include "merge/report/head.h"
#include "merge/report/notes.h"

namespace trapline {
namespace {

// Returns sums by culprit, the largest first.
std::vector<WaitedFor> by_culprit(const std::vector<WaitShare>& waits, Part part,
                                  const Naming& names) {
  std::map<std::pair<Culprit, ThreadId>, WaitedFor> sums;
  for (const WaitShare& share : waits) {
    if (share.part != part) continue;
    WaitedFor& sum = sums[{share.culprit, share.root}];
    sum.ns += share.length();
    ++sum.pieces;
  }
  std::vector<WaitedFor> culprits;
  for (auto& [whom, sum] : sums) {
    const auto& [culprit, root] = whom;
    sum.part = part;
    sum.who = names.text(culprit, root);
    sum.how =
        part == Part::kPreempted ? names.ran_instead(culprit) : names.slept_for(culprit, root);
    culprits.push_back(std::move(sum));
  }
  std::ranges::stable_sort(culprits, std::greater(), &WaitedFor::ns);
  return culprits;
}

// Builds a tree share by share, in time proportional to the number of shares.
class NodeTree {
 public:
  static constexpr std::size_t kRoot = 0;
  // Returns the child with this text, after adding the time to it.
  std::size_t child_of(std::size_t node, std::string text, std::uint64_t ns) {
    const auto [child, is_new] = known_.try_emplace({node, std::move(text)}, nodes_.size());
    if (is_new) {
      nodes_.push_back({child->first.second, 0, 0, {}});
      parents_.push_back(node);
    }
    nodes_[child->second].ns += ns;
    return child->second;
  }
  // Returns the root; children are in the order in which they were added.
  [[nodiscard]] ExplainNode take() {
    for (std::size_t i = nodes_.size(); i-- > 1;) {
      std::ranges::reverse(nodes_[i].children);  // the last one was moved there first
      nodes_[parents_[i]].children.push_back(std::move(nodes_[i]));
    }
    std::ranges::reverse(nodes_[kRoot].children);
    return std::move(nodes_[kRoot]);
  }

 private:
  std::vector<ExplainNode> nodes_{1};
  std::vector<std::size_t> parents_{kRoot};  // by node; a parent comes before its children
  std::map<std::pair<std::size_t, std::string>, std::size_t> known_;
};

// Sorts the children, the largest first; merges those below `least`; time in no callee is the
// function's own.
void arrange(ExplainNode& node, std::uint64_t least) {
  if (node.children.empty()) return;
  std::uint64_t inside = 0, small = 0;
  for (const ExplainNode& child : node.children) {
    inside += child.ns;
    if (child.ns < least) small += child.ns;
  }
  const auto erased =
      std::erase_if(node.children, [least](const ExplainNode& child) { return child.ns < least; });
  if (erased != 0) node.children.push_back({fmt::format("{} smaller", erased), small, 0, {}});
  if (!node.text.empty() && inside < node.ns)
    node.children.push_back({"itself", node.ns - inside, 0, {}});
  std::ranges::stable_sort(node.children, std::greater<>(), &ExplainNode::ns);
  for (ExplainNode& child : node.children) arrange(child, least);
}

std::uint64_t part_of(const ExitSpan& exit, Part part) {
  return exit.parts[static_cast<std::size_t>(part)];
}

// Returns the part in which the thread slept for most of the time.
Part slept_part(const ExitSpan& exit) {
  return part_of(exit, Part::kHalted) > part_of(exit, Part::kBlocked) ? Part::kHalted
                                                                      : Part::kBlocked;
}

}  // namespace

void ExitPicker::event(const Event& event, const Pipeline& pipeline) {
  const bool of_host = !is_guest(event.machine);
  const VmmEvent* told = pipeline.vmm_event();
  if (of_host) {
    activity_.on(event, pipeline.changes(), told == nullptr ? kNoName : told->name,
                 pipeline.threads().switches());
    if (told != nullptr) on_vmm_event(event, *told);
  }
  // The exit before may be one that is not passed on.
  if (of_host && std::holds_alternative<KvmExit>(event.payload)) accessing_.erase(event.thread);
  const auto* detail = std::get_if<KvmDetail>(&event.payload);
  if (of_host && detail != nullptr && detail->kind <= DetailKind::kMmio && !detail->unsatisfied)
    ++accessing_[event.thread][static_cast<std::size_t>(detail->kind)];
  if (const GuestRun* run = pipeline.exits().guest_run())
    guest_[run->thread] = elapsed(run->begin, run->end);
}

void ExitPicker::on_vmm_event(const Event& event, const VmmEvent& told) {
  const auto* marker = std::get_if<Marker>(&event.payload);
  if (marker == nullptr) return;
  VmmEvents& events = writing_[event.thread];
  if (events.first.size() >= kMostVmmEvents) {
    ++events.further;
    return;
  }
  const std::string_view text = marker->text.substr(0, marker->text.find_last_not_of('\n') + 1);
  events.first.push_back({event.at, told.name, told.kind, std::string(text)});
}

bool ExitPicker::is_better(const ExitSpan& exit, Timestamp first) const {
  if (!around_) return (halts_ || !exit.halt) && (!found_ || exit.total() > exit_.total());
  const Timestamp wanted = around_->resolve(first);
  const auto holds = [&](const ExitSpan& span) {
    return span.start <= wanted && wanted < span.end;
  };
  if (exit.end <= wanted) return false;
  if (!found_ || holds(exit) != holds(exit_)) return !found_ || holds(exit);
  // A halt needs no explanation while another vCPU has an exit that is not a halt.
  if (holds(exit) && exit.halt != exit_.halt) return exit_.halt;
  return holds(exit) ? exit.total() > exit_.total() : exit.start < exit_.start;
}

void ExitPicker::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  const auto written = writing_.find(exit.thread);
  VmmEvents events;
  if (written != writing_.end()) events = std::exchange(written->second, {});
  const auto accessed = accessing_.find(exit.thread);
  Accesses accesses{};
  if (accessed != accessing_.end()) accesses = std::exchange(accessed->second, {});
  if (!is_better(exit, pipeline.begin().value_or(Timestamp()))) return;
  found_ = true;
  accesses_ = exit.detail.kind <= DetailKind::kMmio
                  ? accesses[static_cast<std::size_t>(exit.detail.kind)]
                  : 0;
  exit_ = exit;
  exit_.intervals = {};
  exit_.handlers = {};
  fault_ = pipeline.faults()->last().why;
  std::erase_if(events.first, [&exit](const VmmEvents::One& one) {
    return one.at < exit.start || one.at >= exit.end;
  });
  vmm_events_ = std::move(events);
  function_ = pipeline.stacks().innermost(pipeline.stack_of(exit));
  intervals_.assign(exit.intervals.begin(), exit.intervals.end());
  const auto kernel = pipeline.kernel()->shares();
  kernel_.assign(kernel.begin(), kernel.end());
  kernel_stacks_.clear();
  for (const KernelShare& share : kernel) {
    std::vector<KernelFrame>& frames = kernel_stacks_.emplace_back();
    for (KernelStackId at = share.stack; at != 0; at = pipeline.kernel()->frame(at).parent)
      frames.push_back(pipeline.kernel()->frame(at));
    std::ranges::reverse(frames);
  }
  const auto shares = pipeline.waits()->shares(), halts = pipeline.waits()->halts();
  waits_.assign(shares.begin(), shares.end());
  waits_.insert(waits_.end(), halts.begin(), halts.end());
  const auto run = guest_.find(exit.thread);
  guest_ns_ = run == guest_.end() ? 0 : run->second;
  waker_ = {};
  const Culprit woke = largest(waits_, slept_part(exit_)).culprit;
  for (const WaitShare& share : waits_) {
    if (!woke.is_thread() || share.part != slept_part(exit_) || share.culprit != woke) continue;
    waker_.merge(activity_.between(tid_of(woke.thread), share.begin, share.end));
  }
}

std::optional<WakerTimes> ExitPicker::waker(const Naming& names) const {
  const Culprit woke = largest(waits_, slept_part(exit_)).culprit;
  if (!woke.is_thread()) return std::nullopt;
  Culprit plain;
  plain.kind = CulpritKind::kThread;
  plain.thread = woke.thread;
  WakerTimes times{names.text(plain), waker_.ran_ns,     waker_.ready_ns,
                   waker_.slept_ns,   waker_.unknown_ns, {}};
  for (const Activity::Count& event : waker_.events)
    times.vmm_events.emplace_back(name_or_dash(names.names, event.name), event.count);
  return times;
}

void ExitPicker::add_culprits(Explanation& explanation, const Naming& names) const {
  for (const Part part : {Part::kPreempted, Part::kBlocked, Part::kHalted}) {
    std::vector<WaitedFor> culprits = by_culprit(waits_, part, names);
    std::uint64_t slept = 0;
    for (const WaitedFor& one : culprits) slept += one.ns;
    // A halt includes polling, and may wake and sleep again.
    if (part == Part::kHalted && slept != 0 && slept < part_of(exit_, part))
      culprits.push_back({part,
                          "awake in between: polling, in QEMU, or ready to run",
                          {},
                          part_of(exit_, part) - slept,
                          0});
    if (part == Part::kHalted && part_of(exit_, part) != 0 && culprits.empty() &&
        !explanation.known[static_cast<std::size_t>(State::kPreempted)]) {
      const std::string unknown =
          fmt::format("unknown (record {}, {})", events::sched_switch.full_name,
                      events::sched_waking.full_name);
      culprits.push_back({part, unknown, fmt::format("until it was woken; by whom is {}", unknown),
                          part_of(exit_, part), 1});
    }
    std::move(culprits.begin(), culprits.end(), std::back_inserter(explanation.culprits));
  }
}

void ExitPicker::add_kernel(Explanation& explanation, const Naming& names) const {
  std::map<std::string, KernelPartOf> parts;
  NodeTree tree;
  bool functions = false;
  for (std::size_t i = 0; i < kernel_.size(); ++i) {
    const KernelShare& share = kernel_[i];
    const std::string part = printable(kernel_work_text(share.work, names.names[share.name]));
    KernelPartOf& sum = parts[part];
    sum.part = part;
    sum.ns += share.ns;
    sum.pieces += share.pieces;
    functions |= share.work == KernelWork::kFunction;
    std::size_t node = NodeTree::kRoot;
    for (const KernelFrame& frame : kernel_stacks_[i])
      node = tree.child_of(node, printable(kernel_work_text(frame.work, names.names[frame.name])),
                           share.ns);
    if (share.stack == 0) tree.child_of(node, part, share.ns);
  }
  for (auto& [name, sum] : parts) explanation.kernel.push_back(std::move(sum));
  std::ranges::stable_sort(explanation.kernel, std::greater<>(), &KernelPartOf::ns);
  if (!functions) return;
  ExplainNode root = tree.take();
  arrange(root, part_of(exit_, Part::kKernel) / 100);
  explanation.kernel_functions = std::move(root.children);
}

void ExitPicker::add_vmm_events(Explanation& explanation, const Naming& names) const {
  for (const VmmEvents::One& one : vmm_events_.first) {
    explanation.vmm_events.push_back({elapsed(exit_.start, one.at),
                                      one.kind == VmmEventKind::kAccelerator,
                                      name_or_dash(names.names, one.name), printable(one.text)});
    explanation.device_told |= one.kind == VmmEventKind::kDevice;
  }
  explanation.vmm_events_left_out = vmm_events_.further;
}

void ExitPicker::add_steps(Explanation& explanation, const Naming& names) const {
  std::vector<ExplainStep> steps;
  for (const PartInterval& interval : intervals_) {
    if (interval.part == Part::kPreempted || interval.part == Part::kBlocked) continue;
    const std::string text(kPartNames[static_cast<std::size_t>(interval.part)]);
    Timestamp at = interval.begin;
    const auto until = [&](Timestamp end) {
      if (end <= at) return;
      steps.push_back({elapsed(exit_.start, at), elapsed(at, end), interval.part, {}, text});
    };
    for (const WaitShare& share : waits_) {
      if (share.part != Part::kHalted || interval.part != Part::kHalted) continue;
      until(share.begin);
      at = share.end;
    }
    until(interval.end);
  }
  for (const WaitShare& share : waits_) {
    steps.push_back({elapsed(exit_.start, share.begin), share.length(), share.part,
                     names.text(share.culprit, share.root),
                     names.step(share.part, share.culprit, share.root)});
  }
  std::ranges::stable_sort(steps, {}, &ExplainStep::after_ns);
  if (steps.size() > kMostSteps) {
    explanation.steps_left_out = steps.size() - kMostSteps;
    steps.resize(kMostSteps);
  }
  explanation.steps = std::move(steps);
}

void ExitPicker::add_advice(Explanation& explanation, const Naming& names) const {
  const Part part = largest_part(exit_);
  const LargestCulprit most = largest(waits_, part);
  Circumstances around = circumstances_of(most.culprit, names);
  around.iothread_device = around.iothread_device || (exit_.device != kNoName &&
                                                      can_have_iothread(names.names[exit_.device]));
  const auto quotas = names.processes.quotas().of(exit_.thread);
  around.throttled = !quotas.empty();
  around.sleep_ns = most.ns;
  if (part == Part::kPreempted && most.culprit.kind != CulpritKind::kQuota) {
    for (const CpuQuota* quota : quotas) explanation.quotas.push_back(quota_sentence(*quota));
  }
  const Cause* cause = cause_of(part, most.culprit, around);
  if (cause == nullptr) return;
  explanation.advice = cause->advice;
  explanation.source = cause->source;
}

Part largest_part(const ExitSpan& exit) {
  Part largest = Part::kKernel;
  for (const Part part : {Part::kUser, Part::kPreempted, Part::kBlocked, Part::kHalted}) {
    if (part_of(exit, part) > part_of(exit, largest)) largest = part;
  }
  return largest;
}

std::optional<Explanation> ExitPicker::explain(const Naming& names) const {
  if (!found_) return std::nullopt;
  Explanation explanation;
  explanation.cycles = names.timeline.source(0).info().cycles;
  explanation.exit = exit_row(exit_, function_, names);
  explanation.vm = names.vcpus.vm(exit_.thread);
  explanation.vmm = names.vmm(explanation.exit.span.thread);
  explanation.known = names.pipeline.exits().model().known_states();
  explanation.guest_ns = guest_ns_;
  explanation.accesses = accesses_;
  if (fault_.cause != FaultCause::kNotKnown) explanation.fault = names.text(fault_);
  explanation.has_vmm_events = names.pipeline.exits().counters().vmm_events != 0;
  add_culprits(explanation, names);
  add_kernel(explanation, names);
  add_steps(explanation, names);
  add_vmm_events(explanation, names);
  if (largest_part(exit_) == slept_part(exit_)) explanation.waker = waker(names);
  add_advice(explanation, names);
  return explanation;
}

Result<Explanation> run_explain(const PassOptions& what, std::optional<TimeSpec> around,
                                const Progress& progress) {
  ExitPicker picker(around, !what.which.exits.reason.empty());
  auto pass = Pass::read(what, {&picker}, progress);
  if (!pass) return tl::unexpected(std::move(pass).error());
  if (auto found = pass->check_exits(); !found) return tl::unexpected(std::move(found).error());
  if (auto found = pass->check_names(); !found) return tl::unexpected(std::move(found).error());
  const ExitModel& model = pass->pipeline().exits().model();
  if (!model.durations()) return tl::unexpected(no_durations(pass->timeline()));
  auto explanation = picker.explain(pass->naming());
  const std::vector<std::string> open = picker.open().sentences(pass->naming());
  if (!explanation && !open.empty() && !around)
    return fail(ErrorKind::kUsage, "{}: no exit but halts ended here. {}", pass->path(),
                fmt::join(open, " "));
  if (!explanation) {
    return fail(ErrorKind::kUsage, "{}: --around: {}", pass->path(),
                around ? "no exit that ended holds that time or comes after it"
                       : "no exit but halts both began and ended here; give a TIME inside one");
  }
  explanation->open = open;
  explanation->begun = begin_report("explain", *pass);
  const Timestamp first = pass->pipeline().begin().value_or(Timestamp());
  explanation->before = around && explanation->exit.span.start > around->resolve(first);
  explanation->notes = notes_of(*pass);
  if (!what.which.exits.empty()) {
    explanation->notes.insert(
        explanation->notes.begin(),
        fmt::format("only exits with {} were looked at", what.which.exits.text()));
  }
  if (auto losses = losses_note(pass->timeline()); !losses.empty())
    explanation->notes.push_back(std::move(losses));
  return std::move(*explanation);
}

}  // namespace trapline
