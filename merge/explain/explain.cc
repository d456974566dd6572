#include "merge/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/kernel_tracker.h"
#include "merge/model/kernel_events.h"
#include "merge/pass/first_look.h"
#include "merge/report/head.h"
#include "merge/report/notes.h"
#include "merge/report/units.h"

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

// Sorts the children, the largest first, and merges those below `least`. Time that is in none of
// the children becomes a child "itself".
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

// Returns the part with most of the exit's time.
Part largest_part(const ExitSpan& exit) {
  return static_cast<Part>(std::ranges::max_element(exit.parts) - exit.parts.begin());
}

}  // namespace

// Chooses and stores the exit: the longest that is not a halt, or the one at a given time.
class ExitPicker : public SpanSink {
 public:
  // `around`: takes an exit that contains this time, else the first that begins after it; nullopt:
  // the longest. `halts`: the longest may be a halt.
  explicit ExitPicker(std::optional<TimeSpec> around, bool halts = false)
      : around_(around), halts_(halts) {}

  [[nodiscard]] SpanClass selects() const override {
    // A relative time counts from the first event of all.
    return SpanClass::kEvents | SpanClass::kExits | SpanClass::kFaults | SpanClass::kWaits |
           SpanClass::kKernelParts | (around_ ? SpanClass::kAllEvents : SpanClass::kNone);
  }
  void event(const Event& event, const Pipeline& pipeline) override {
    const bool of_host = !is_guest(event.machine);
    const VmmEvent* vmm = pipeline.vmm_event();
    if (of_host) {
      activity_.on(event, pipeline.changes(), vmm == nullptr ? kNoName : vmm->name,
                   pipeline.threads().switches());
      if (vmm != nullptr) on_vmm_event(event, *vmm);
    }
    // Forgets the accesses of the thread's previous exit, for which exit() may not have been
    // called.
    if (of_host && std::holds_alternative<KvmExit>(event.payload)) since_.erase(event.thread);
    const auto* detail = std::get_if<KvmDetail>(&event.payload);
    if (of_host && detail != nullptr && detail->kind <= DetailKind::kMmio && !detail->unsatisfied)
      ++since_[event.thread].accesses[static_cast<std::size_t>(detail->kind)];
    if (const GuestRun* run = pipeline.exits().guest_run()) guest_[run->thread] = *run;
  }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    SinceExit since = std::exchange(since_[exit.thread], {});
    if (!is_better(exit, pipeline.begin().value_or(Timestamp()))) return;
    found_ = true;
    // Without kvm_exit, the first access of the next exit may be among them.
    const bool tells =
        exit.detail.kind <= DetailKind::kMmio && !pipeline.exits().model().from_userspace_exit;
    accesses_ = tells ? since.accesses[static_cast<std::size_t>(exit.detail.kind)] : 0;
    exit_ = exit;
    exit_.intervals = {};
    exit_.handlers = {};
    fault_ = pipeline.faults()->last().why;
    std::erase_if(since.vmm_events, [&exit](const WrittenEvent& one) {
      return one.at < exit.start || one.at >= exit.end;
    });
    vmm_events_ = std::move(since.vmm_events);
    further_ = since.further;
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
    const bool is_before = run != guest_.end() && run->second.end == exit.start;
    guest_ns_ = is_before ? elapsed(run->second.begin, exit.start) : 0;
    waker_ = {};
    const Culprit woke = largest(waits_, slept_part(exit_)).culprit;
    for (const WaitShare& share : waits_) {
      if (!woke.is_thread() || share.part != slept_part(exit_)) continue;
      if (static_cast<const Culprit&>(share.culprit) != woke) continue;
      waker_.merge(activity_.between(unnamed(woke.thread), share.begin, share.end));
    }
  }
  void unended(const UnendedExit& exit, const Pipeline&) override { open_.add(exit); }

  [[nodiscard]] const OpenExits& open() const { return open_; }
  // Returns the explanation after the pipeline has finished; nullopt if no exit was found.
  [[nodiscard]] std::optional<Explanation> explain(const Naming& names) const {
    if (!found_) return std::nullopt;
    Explanation explanation;
    explanation.cycles = names.timeline.source(0).info().cycles;
    explanation.exit = exit_row(exit_, function_, names, largest(waits_, Part::kPreempted));
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

 private:
  static constexpr std::size_t kMostSteps = 1000, kMostVmmEvents = 64;
  struct WrittenEvent {
    Timestamp at;
    NameId name = kNoName;
    VmmEventKind kind = VmmEventKind::kDevice;
    std::string text;
  };
  // The actions of a vCPU's thread since its last exit ended.
  struct SinceExit {
    // The number of answered accesses, by DetailKind.
    std::array<std::uint64_t, static_cast<std::size_t>(DetailKind::kMmio) + 1> accesses{};
    std::vector<WrittenEvent> vmm_events;
    std::size_t further = 0;  // events beyond kMostVmmEvents
  };
  [[nodiscard]] bool is_better(const ExitSpan& exit, Timestamp first) const {
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
  void on_vmm_event(const Event& event, const VmmEvent& vmm) {
    const auto* marker = std::get_if<Marker>(&event.payload);
    if (marker == nullptr) return;
    SinceExit& since = since_[event.thread];
    if (since.vmm_events.size() >= kMostVmmEvents) {
      ++since.further;
      return;
    }
    const std::string_view text = marker->text.substr(0, marker->text.find_last_not_of('\n') + 1);
    since.vmm_events.push_back({event.at, vmm.name, vmm.kind, std::string(text)});
  }
  void add_culprits(Explanation& explanation, const Naming& names) const {
    for (const Part part : {Part::kPreempted, Part::kBlocked, Part::kHalted}) {
      std::vector<WaitedFor> culprits = by_culprit(waits_, part, names);
      std::uint64_t slept = 0;
      for (const WaitedFor& one : culprits) slept += one.ns;
      // In a halt the vCPU also polls, and may wake and sleep again.
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
        culprits.push_back({part, unknown,
                            fmt::format("until it was woken; by whom is {}", unknown),
                            part_of(exit_, part), 1});
      }
      std::move(culprits.begin(), culprits.end(), std::back_inserter(explanation.culprits));
    }
  }
  void add_kernel(Explanation& explanation, const Naming& names) const {
    std::map<std::string, ExplainNode> parts;
    NodeTree tree;
    bool functions = false;
    for (std::size_t i = 0; i < kernel_.size(); ++i) {
      const KernelShare& share = kernel_[i];
      const std::string part = printable(kernel_work_text(share.work, names.names[share.name]));
      ExplainNode& sum = parts[part];
      sum.text = part;
      sum.ns += share.ns;
      sum.count += share.pieces;
      functions |= share.work == KernelWork::kFunction;
      std::size_t node = NodeTree::kRoot;
      for (const KernelFrame& frame : kernel_stacks_[i])
        node = tree.child_of(node, printable(kernel_work_text(frame.work, names.names[frame.name])),
                             share.ns);
      if (share.stack == 0) tree.child_of(node, part, share.ns);
    }
    for (auto& [name, sum] : parts) explanation.kernel.push_back(std::move(sum));
    std::ranges::stable_sort(explanation.kernel, std::greater(), &ExplainNode::ns);
    if (!functions) return;
    ExplainNode root = tree.take();
    arrange(root, part_of(exit_, Part::kKernel) / 100);
    explanation.kernel_functions = std::move(root.children);
  }
  void add_steps(Explanation& explanation, const Naming& names) const {
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
  void add_vmm_events(Explanation& explanation, const Naming& names) const {
    for (const WrittenEvent& one : vmm_events_) {
      explanation.vmm_events.push_back({elapsed(exit_.start, one.at),
                                        one.kind >= VmmEventKind::kAccelerator,
                                        name_or_dash(names.names, one.name), printable(one.text)});
      explanation.device_told |= one.kind == VmmEventKind::kDevice;
    }
    explanation.vmm_events_left_out = further_;
  }
  void add_advice(Explanation& explanation, const Naming& names) const {
    const Part part = largest_part(exit_);
    const LargestCulprit most = largest(waits_, part);
    Circumstances around = circumstances_of(most.culprit, exit_.thread, names);
    around.iothread_device =
        around.iothread_device ||
        (exit_.device != kNoName && can_have_iothread(names.names[exit_.device]));
    const auto quotas = names.processes.quotas.of(exit_.thread);
    around.throttled = !quotas.empty();
    around.sleep_ns = most.ns;
    if (part == Part::kPreempted && most.culprit.kind != CulpritKind::kQuota) {
      for (const CpuQuota* quota : quotas) explanation.quotas.push_back(quota_sentence(*quota));
      if (!names.processes.quotas.knows(exit_.thread))
        explanation.quotas.emplace_back(
            "Whether a CPU quota stopped it was not recorded (trapline record does).");
    }
    const Cause* cause = cause_of(part, most.culprit, around);
    if (cause == nullptr) return;
    explanation.advice = cause->advice;
    explanation.source = cause->source;
  }
  [[nodiscard]] std::optional<WakerTimes> waker(const Naming& names) const {
    const Culprit woke = largest(waits_, slept_part(exit_)).culprit;
    if (!woke.is_thread()) return std::nullopt;
    Culprit plain;
    plain.kind = CulpritKind::kThread;
    plain.thread = woke.thread;
    WakerTimes times{waker_, names.text(plain), {}};
    for (const Activity::Count& event : waker_.events)
      times.vmm_events.emplace_back(name_or_dash(names.names, event.name), event.count);
    return times;
  }

  std::optional<TimeSpec> around_;
  bool halts_;
  ThreadActivity activity_;
  std::map<ThreadId, GuestRun> guest_;  // the last run of each vCPU
  std::map<ThreadId, SinceExit> since_;
  OpenExits open_;
  bool found_ = false;
  ExitSpan exit_;  // without its views
  PageFault::Why fault_;
  NameId function_ = kNoName;
  std::uint64_t guest_ns_ = 0, accesses_ = 0;
  std::vector<PartInterval> intervals_;
  std::vector<WaitShare> waits_;
  std::vector<KernelShare> kernel_;
  std::vector<std::vector<KernelFrame>> kernel_stacks_;  // of each share, the outermost frame first
  std::vector<WrittenEvent> vmm_events_;
  std::size_t further_ = 0;  // of these events, for which there was no room
  Activity waker_;           // of the waker with the most blocked time, during that time
};

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
  if (!what.which.exits.empty()) {
    explanation->begun.notes.insert(
        explanation->begun.notes.begin(),
        fmt::format("only exits with {} were looked at", what.which.exits.text()));
  }
  if (auto losses = losses_note(*pass); !losses.empty())
    explanation->begun.notes.push_back(std::move(losses));
  return std::move(*explanation);
}

// Turns an Explanation into sentences and tables: docs/explain.md.

namespace {

// Returns "io, port 0x518 write, fwcfg.dma, in outl".
std::string what(const Explanation& explanation) {
  return exit_text(explanation.exit,
                   explanation.accesses > 1
                       ? fmt::format(" (the first of {} accesses)", grouped(explanation.accesses))
                       : std::string());
}

ExplainNode tree_of(const Explanation& explanation) {
  const ExitRow& exit = explanation.exit;
  ExplainNode tree{fmt::format("{}, {}", exit.vcpu, what(explanation)), exit.span.total(), 0, {}};
  for (std::size_t i = 0; i < kParts; ++i) {
    if (exit.span.parts[i] == 0) continue;
    const bool or_user = static_cast<Part>(i) == Part::kKernel &&
                         !explanation.known[static_cast<std::size_t>(State::kUser)];
    ExplainNode node{or_user ? "kernel or " + explanation.vmm : std::string(kPartNames[i]),
                     exit.span.parts[i],
                     0,
                     {}};
    for (const WaitedFor& one : explanation.culprits) {
      if (one.part == static_cast<Part>(i))
        node.children.push_back({one.who, one.ns, one.pieces, {}});
    }
    // A kernel part that is untraced as a whole, or hardly matters, needs no children.
    if (static_cast<Part>(i) == Part::kKernel && explanation.traced() &&
        exit.span.parts[i] >= exit.span.total() / 10)
      node.children =
          explanation.kernel_functions.empty() ? explanation.kernel : explanation.kernel_functions;
    tree.children.push_back(std::move(node));
  }
  return tree;
}

// Returns "memory_region_ops_write (2), fw_cfg_read": the first names, with the number of each.
std::string names_text(std::span<const std::pair<std::string, std::uint64_t>> counts) {
  constexpr std::size_t kMostNames = 4;
  std::string text;
  for (const auto& [name, count] : counts.first(std::min(counts.size(), kMostNames))) {
    text += (text.empty() ? "" : ", ") + name;
    if (count != 1) text += fmt::format(" ({})", count);
  }
  if (counts.size() > kMostNames) text += fmt::format(" and {} more", counts.size() - kMostNames);
  return text;
}

// Returns the names of the events that QEMU wrote, with the number of each; for a single event, the
// event's text.
std::string events_text(const Explanation& explanation) {
  std::vector<std::pair<std::string, std::uint64_t>> counts;
  const VmmEventText* only = nullptr;
  for (const VmmEventText& event : explanation.vmm_events) {
    if (event.of_run) continue;
    only = counts.empty() ? &event : nullptr;
    const auto found =
        std::ranges::find(counts, event.name, &std::pair<std::string, std::uint64_t>::first);
    if (found == counts.end()) {
      counts.emplace_back(event.name, 1);
    } else {
      ++found->second;
    }
  }
  return only != nullptr ? only->text : names_text(counts);
}

// Returns "; for 37.7 ms vm 229 vcpu 0 ran instead, and 2 others for 185 µs"; without the time if
// there is only one culprit.
std::string culprits_text(const Explanation& explanation, Part part) {
  const std::uint64_t ns = part_of(explanation.exit.span, part);
  std::vector<std::pair<std::uint64_t, std::string>> named;
  std::size_t others = 0;
  std::uint64_t other_ns = 0;
  std::string_view other;
  for (const WaitedFor& one : explanation.culprits) {
    if (one.part != part) continue;
    if (one.pieces == 0) {  // the rest of a halt
      if (one.ns >= ns / 10) named.emplace_back(one.ns, one.who);
    } else if (named.empty() || one.ns >= ns / 100) {
      named.emplace_back(one.ns, one.how);
    } else {
      ++others;
      other_ns += one.ns;
      other = one.how;
    }
  }
  const bool ready = part == Part::kPreempted;
  if (others == 1) named.emplace_back(other_ns, other);
  if (named.empty()) return {};
  if (named.size() == 1 && named[0].first == ns) return (ready ? "; " : " ") + named[0].second;
  std::string text;
  for (const auto& [time, how] : named) {
    text += fmt::format("{} {}{} {}", text.empty() ? ready ? ";" : ":" : ",", ready ? "for " : "",
                        duration_text(time, explanation.cycles), how);
  }
  if (others > 1)
    text +=
        fmt::format(", and {} others for {}", others, duration_text(other_ns, explanation.cycles));
  return text;
}

// Returns what one part of the exit was: "QEMU took 37.0 ms (49.2%)".
std::string part_sentence(const Explanation& explanation, Part part) {
  const bool user_known = explanation.known[static_cast<std::size_t>(State::kUser)];
  const std::uint64_t ns = part_of(explanation.exit.span, part);
  const std::string time = fmt::format("{} ({})", duration_text(ns, explanation.cycles),
                                       percent_text(ns, explanation.exit.span.total()));
  switch (part) {
    case Part::kKernel:
      return fmt::format("The host's kernel{} took {}", user_known ? "" : " or " + explanation.vmm,
                         time);
    case Part::kUser: {
      std::string vmm = explanation.vmm;
      if (vmm.starts_with("the ")) vmm.front() = 'T';  // the name begins a sentence
      const std::string events = events_text(explanation);
      if (events.empty()) return fmt::format("{} took {}", vmm, time);
      return fmt::format("{} took {}; its events there: {}{}", vmm, time, events,
                         explanation.device_told
                             ? ""
                             : "; the device's own events were not recorded (trapline help "
                               "devices)");
    }
    case Part::kPreempted:
      return fmt::format("For {} it was ready to run and did not run{}", time,
                         culprits_text(explanation, part));
    case Part::kBlocked:
      return fmt::format("For {} it slept{}", time, culprits_text(explanation, part));
    case Part::kHalted:
      return fmt::format("For {} the guest was halted{}", time, culprits_text(explanation, part));
  }
  return {};
}

// Returns where the time went: the largest part, and each other part of at least a tenth.
std::string parts_sentence(const Explanation& explanation) {
  const ExitSpan& span = explanation.exit.span;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < kParts; ++i) {
    if (span.parts[i] != 0 &&
        (span.parts[i] >= span.total() / 10 || static_cast<Part>(i) == largest_part(span)))
      parts.push_back(static_cast<Part>(i));
  }
  std::ranges::stable_sort(parts, [&](Part a, Part b) {
    return part_of(explanation.exit.span, a) > part_of(explanation.exit.span, b);
  });
  std::string text;
  for (const Part part : parts)
    text += (text.empty() ? "" : " ") + part_sentence(explanation, part) + '.';
  if (!explanation.known[static_cast<std::size_t>(State::kPreempted)] &&
      largest_part(span) != Part::kHalted)
    text += fmt::format(" Whether the vCPU waited in it was not recorded ({}).",
                        events::sched_switch.full_name);
  return text;
}

// Returns "Meanwhile vcpu 1 ran 3.2 µs, …".
std::string waker_sentence(const WakerTimes& waker, bool cycles) {
  std::vector<std::string> parts;
  const std::pair<std::uint64_t, std::string_view> times[] = {
      {waker.ran_ns, "ran {}"},
      {waker.ready_ns, "was ready to run for {}"},
      {waker.slept_ns, "slept for {}"},
      {waker.unknown_ns, "did what is not recorded for {}"}};
  for (const auto& [ns, text] : times)
    if (ns != 0) parts.push_back(fmt::format(fmt::runtime(text), duration_text(ns, cycles)));
  std::string sentence = "Meanwhile " + waker.who;
  for (std::size_t i = 0; i < parts.size(); ++i)
    sentence += (i == 0 ? " " : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  if (waker.vmm_events.empty()) return sentence + ".";
  sentence += "; its QEMU events: " + names_text(waker.vmm_events);
  return sentence + ".";
}

// Returns the findings as sentences: what the exit was, where its time went, what its waker did.
std::vector<std::string> finding(const Explanation& explanation) {
  const ExitRow& exit = explanation.exit;
  std::vector<std::string> sentences;
  if (explanation.before) sentences.push_back("No exit that ended holds that time. The next one:");
  sentences.push_back(fmt::format("{} left the guest for {}: {}.", exit.vcpu,
                                  duration_text(exit.span.total(), explanation.cycles),
                                  what(explanation)));
  if (!explanation.fault.empty()) sentences.push_back("Why it faulted: " + explanation.fault + '.');
  sentences.push_back(parts_sentence(explanation));
  if (explanation.waker)
    sentences.push_back(waker_sentence(*explanation.waker, explanation.cycles));
  sentences.insert(sentences.end(), explanation.quotas.begin(), explanation.quotas.end());
  return sentences;
}

std::string part_name(Part part) { return std::string(kPartNames[static_cast<std::size_t>(part)]); }

// Returns a duration aligned to the right of a column.
std::string column(std::uint64_t ns, bool cycles, const char* sign = "") {
  return fmt::format(" {:>9}", sign + duration_text(ns, cycles));
}

Paragraph and_more(std::size_t count) {
  return {.text = fmt::format("  and {} more", grouped(count)), .verbatim = true};
}

Table culprit_table(const Explanation& explanation) {
  TableOf<WaitedFor> table({.key = "culprits"}, explanation.culprits, &WaitedFor::who);
  table.add({"part"}, [](const WaitedFor& one) { return part_name(one.part); });
  table.add({"culprit"}, &WaitedFor::who);
  table.add({"ns"}, &WaitedFor::ns);
  table.add({"count"}, &WaitedFor::pieces);
  return table;
}

Table kernel_table(const Explanation& explanation) {
  TableOf<ExplainNode> table({.key = "kernel"}, explanation.kernel, &ExplainNode::text);
  table.add({"part"}, &ExplainNode::text);
  table.add({"ns"}, &ExplainNode::ns);
  table.add({"count"}, &ExplainNode::count);
  return table;
}

Table waker_table(const Explanation& explanation) {
  std::vector<WakerTimes> rows;
  if (explanation.waker) rows.push_back(*explanation.waker);
  TableOf<WakerTimes> table({.key = "waker"}, std::move(rows), &WakerTimes::who);
  table.add({"who"}, &WakerTimes::who);
  table.add({"ran_ns"}, &WakerTimes::ran_ns);
  table.add({"ready_ns"}, &WakerTimes::ready_ns);
  table.add({"slept_ns"}, &WakerTimes::slept_ns);
  table.add({"unknown_ns"}, &WakerTimes::unknown_ns);
  table.children = [all = table.all()](std::size_t row) {
    using Count = std::pair<std::string, std::uint64_t>;
    TableOf<Count> events({.key = "qemu_events"}, all[row].vmm_events, &Count::first);
    events.add({"name"}, &Count::first);
    events.add({"count"}, &Count::second);
    return std::vector<Table>{std::move(events)};
  };
  return table;
}

// `in_text`: text has the table too, which is long.
Table step_table(const Explanation& explanation, bool in_text) {
  TableOf<ExplainStep> table({.key = "steps", .left_out = explanation.steps_left_out},
                             explanation.steps, &ExplainStep::text);
  table.add({"after_ns"}, &ExplainStep::after_ns);
  table.add({"ns"}, &ExplainStep::ns);
  table.add({"part"}, [](const ExplainStep& step) { return part_name(step.part); });
  table.add({"culprit"}, [](const ExplainStep& step) { return text_or_null(step.who); });
  if (!in_text) return table;
  table.before = {{.text = "\nIn order:", .verbatim = true}};
  table.sentences = [all = table.all(), cycles = explanation.cycles](std::size_t row) {
    const ExplainStep& step = all[row];
    return std::vector<Paragraph>{
        {.text = step.text,
         .label = column(step.after_ns, cycles, "+") + column(step.ns, cycles) + ' '}};
  };
  if (table.left_out != 0) table.after = {and_more(table.left_out)};
  return table;
}

Table vmm_event_table(const Explanation& explanation, bool in_text) {
  TableOf<VmmEventText> table({.key = "qemu_events", .left_out = explanation.vmm_events_left_out},
                              explanation.vmm_events, &VmmEventText::name);
  table.add({"after_ns"}, &VmmEventText::after_ns);
  table.add({"name"}, &VmmEventText::name);
  table.add({"text"}, &VmmEventText::text);
  if (!in_text || table.rows == 0) return table;
  table.before = {{.text = "\nQEMU's events:", .verbatim = true}};
  table.sentences = [all = table.all(), cycles = explanation.cycles](std::size_t row) {
    return std::vector<Paragraph>{
        {.text = all[row].text, .label = column(all[row].after_ns, cycles, "+") + ' '}};
  };
  if (table.left_out != 0) table.after = {and_more(table.left_out)};
  return table;
}

// Returns the exit's parts as a tree, and below it when the exit began.
Table tree_in_text(const Explanation& explanation, bool has_steps) {
  Table table = tree_table({tree_of(explanation)});
  table.json = false;
  std::string when =
      "It began at " + time_text(explanation.exit.span.start.ns(), explanation.cycles);
  if (explanation.guest_ns != 0)
    when += ", after the guest ran " + duration_text(explanation.guest_ns, explanation.cycles);
  const std::size_t count = explanation.steps.size() + explanation.steps_left_out;
  if (!has_steps)
    when += fmt::format("; -v prints its {} step{} in order", count, count == 1 ? "" : "s");
  table.after = {{}, {.text = when + '.'}};
  return table;
}

}  // namespace

TableOf<ExplainNode> tree_table(std::vector<ExplainNode> nodes) {
  using Row = ExplainNode;
  TableOf<Row> table({}, std::move(nodes), &Row::text);
  table.trees = table.all();
  table.add({"text"}, &Row::text);
  table.add({.key = "ns", .unit = Unit::kDuration}, &Row::ns);
  table.add({"count"}, [](const Row& row) {
    return row.count == 0 ? CellValue(Absent()) : to_value(row.count);
  });
  table.children = [all = table.all()](std::size_t row) {
    std::vector<Table> tables;
    if (all[row].children.empty()) return tables;
    tables.push_back(tree_table(all[row].children));
    tables.back().key = "children";
    return tables;
  };
  return table;
}

Report make_report(const Explanation& explanation, bool steps) {
  Report report = explanation.begun;
  report.cycles = explanation.cycles;
  const std::vector<std::string> sentences = finding(explanation);
  const auto or_null = [](std::uint64_t number) {
    return number == 0 ? CellValue() : to_value(number);
  };
  report.head.push_back({"guest_ns", or_null(explanation.guest_ns)});
  report.head.push_back({"accesses", or_null(explanation.accesses)});
  report.head.push_back({"finding", sentences});
  report.head.push_back({"open_exits", explanation.open});
  report.head.push_back({"advice", text_or_null(explanation.advice)});
  report.head.push_back({"source", text_or_null(explanation.source)});
  for (const auto* texts : {&explanation.open, &sentences})
    for (const std::string& text : *texts) report.before.push_back({.text = text, .figures = true});
  if (!explanation.advice.empty())
    report.before.push_back(
        {.text = fmt::format("{} ({})", explanation.advice, explanation.source)});
  report.before.emplace_back();
  Table exit = slow_exit_table({explanation.exit}, explanation.known, explanation.has_vmm_events);
  exit.key = "exit";
  for (Table& table :
       std::array{std::move(exit), tree_in_text(explanation, steps), culprit_table(explanation),
                  kernel_table(explanation), waker_table(explanation),
                  step_table(explanation, steps), vmm_event_table(explanation, steps)})
    report.tables.push_back(std::move(table));
  for (const std::string& note : report.notes) report.after.push_back(note_paragraph(note));
  return report;
}

}  // namespace trapline
