#include "merge/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/pass/exit_text.h"
#include "merge/report/notes.h"

namespace trapline {
namespace {

// "83.0 ms", as a person says it; the tree has every digit.
std::string said_time(std::uint64_t ns, bool cycles) {
  if (cycles) return fmt::format("{} cycles", ns);
  constexpr std::pair<std::uint64_t, std::string_view> kUnits[] = {
      {1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "µs"}};
  for (const auto& [size, name] : kUnits) {
    if (ns < size) continue;
    const double value = static_cast<double>(ns) / static_cast<double>(size);
    return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, name);
  }
  return fmt::format("{} ns", ns);
}

std::string share_of(std::uint64_t part, std::uint64_t whole) {
  return fmt::format(
      "{:.1f} %",
      whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// "Meanwhile vcpu 1 ran 3.2 µs, …".
std::string waker_sentence(const WakerTimes& waker, bool cycles) {
  std::vector<std::string> parts;
  const std::pair<std::uint64_t, std::string_view> times[] = {
      {waker.ran_ns, "ran {}"},
      {waker.ready_ns, "was ready to run for {}"},
      {waker.slept_ns, "slept for {}"},
      {waker.unknown_ns, "did what is not recorded for {}"}};
  for (const auto& [ns, text] : times) {
    if (ns != 0) parts.push_back(fmt::format(fmt::runtime(text), said_time(ns, cycles)));
  }
  std::string sentence = "Meanwhile " + waker.who;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sentence += (i == 0 ? " " : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  if (waker.vmm_events.empty()) return sentence + ".";
  constexpr std::size_t kMostNames = 4;
  sentence += "; its QEMU events: ";
  for (std::size_t i = 0; i < std::min(waker.vmm_events.size(), kMostNames); ++i) {
    const auto& [name, count] = waker.vmm_events[i];
    sentence += fmt::format("{}{}{}", i == 0 ? "" : ", ", name,
                            count == 1 ? "" : fmt::format(" ({})", count));
  }
  if (waker.vmm_events.size() > kMostNames) {
    sentence += fmt::format(" and {} more", waker.vmm_events.size() - kMostNames);
  }
  return sentence + ".";
}

// Sums by culprit, the largest first.
std::vector<ExplainNode> by_culprit(const std::vector<WaitShare>& waits, Part part,
                                    const Naming& names) {
  std::map<Culprit, ExplainNode> sums;
  for (const WaitShare& share : waits) {
    if (share.part != part) continue;
    ExplainNode& sum = sums[share.culprit];
    sum.ns += share.length();
    ++sum.count;
  }
  std::vector<ExplainNode> nodes;
  for (auto& [culprit, node] : sums) {
    node.text = names.text(culprit);
    nodes.push_back(std::move(node));
  }
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const ExplainNode& a, const ExplainNode& b) { return a.ns > b.ns; });
  return nodes;
}

std::uint64_t part_of(const ExitSpan& exit, Part part) {
  return exit.parts[static_cast<std::size_t>(part)];
}

// In which the thread slept, most of the time.
Part slept_part(const ExitSpan& exit) {
  return part_of(exit, Part::kHalted) > part_of(exit, Part::kBlocked) ? Part::kHalted
                                                                      : Part::kBlocked;
}

}  // namespace

void ExitPicker::event(const Event& event, const Pipeline& pipeline) {
  const bool of_host = !is_guest(event.machine);
  const VmmEvent* told = pipeline.vmm_event();
  if (of_host)
    activity_.on(event, told == nullptr ? kNoName : told->name, pipeline.waits()->switches());
  if (const GuestRun* run = pipeline.exits().guest_run())
    guest_[run->thread] = elapsed(run->begin, run->end);
}

bool ExitPicker::is_better(const ExitSpan& exit, Timestamp first) const {
  if (!around_) return !exit.halt && (!found_ || exit.total() > exit_.total());
  const Timestamp wanted = around_->resolve(first);
  const auto holds = [&](const ExitSpan& span) {
    return span.start <= wanted && wanted < span.end;
  };
  if (exit.end <= wanted) return false;
  if (!found_ || holds(exit) != holds(exit_)) return !found_ || holds(exit);
  return holds(exit) ? exit.total() > exit_.total() : exit.start < exit_.start;
}

void ExitPicker::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  if (!is_better(exit, pipeline.begin().value_or(Timestamp()))) return;
  found_ = true;
  exit_ = exit;
  exit_.intervals = {};
  exit_.handlers = {};
  intervals_.assign(exit.intervals.begin(), exit.intervals.end());
  const auto shares = pipeline.waits()->shares(), halts = pipeline.waits()->halts();
  waits_.assign(shares.begin(), shares.end());
  waits_.insert(waits_.end(), halts.begin(), halts.end());
  const auto run = guest_.find(exit.thread);
  guest_ns_ = run == guest_.end() ? 0 : run->second;
  waker_ = {};
  const Culprit woke = largest(waits_, slept_part(exit_)).culprit;
  for (const WaitShare& share : waits_) {
    if (!woke.is_thread() || share.part != slept_part(exit_) || share.culprit != woke) continue;
    waker_.merge(activity_.between(woke.thread, share.begin, share.end));
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
  for (const Activity::Count& event : waker_.events) {
    times.vmm_events.emplace_back(name_or_dash(names.names, event.name), event.count);
  }
  return times;
}

std::string ExitPicker::what(const Naming& names) const {
  std::string text = printable(reason_text(names.timeline.source(exit_.source), exit_.reason));
  if (exit_.detail.kind != DetailKind::kNone) text += ", " + detail_text(exit_.detail);
  if (exit_.device != kNoName) text += ", " + name_or_dash(names.names, exit_.device);
  return text;
}

Part ExitPicker::largest_part() const {
  Part largest = Part::kKernel;
  for (const Part part : {Part::kUser, Part::kPreempted, Part::kBlocked, Part::kHalted}) {
    if (part_of(exit_, part) > part_of(exit_, largest)) largest = part;
  }
  return largest;
}

// A halt polls too, and may wake and sleep again.
void ExitPicker::add_awake(ExplainNode& halted) {
  std::uint64_t slept = 0;
  for (const ExplainNode& sleep : halted.children) slept += sleep.ns;
  if (slept != 0 && slept < halted.ns)
    halted.children.push_back({"awake in between, or polling", halted.ns - slept, 0, {}});
}

ExplainNode ExitPicker::tree(const Naming& names) const {
  ExplainNode root{what(names), exit_.total(), 0, {}};
  for (std::size_t i = 0; i < kParts; ++i) {
    const auto part = static_cast<Part>(i);
    if (exit_.parts[i] == 0) continue;
    ExplainNode node{std::string(kPartNames[i]), exit_.parts[i], 0, {}};
    if (part == Part::kUser && exit_.vmm_event != kNoName)
      node.text += " (QEMU: " + name_or_dash(names.names, exit_.vmm_event) + ")";
    node.children = by_culprit(waits_, part, names);
    if (part == Part::kHalted) add_awake(node);
    root.children.push_back(std::move(node));
  }
  return root;
}

void ExitPicker::add_steps(Explanation& explanation, const Naming& names) const {
  std::vector<ExplainStep> steps;
  for (const PartInterval& interval : intervals_) {
    if (interval.part == Part::kPreempted || interval.part == Part::kBlocked) continue;
    const std::string text(kPartNames[static_cast<std::size_t>(interval.part)]);
    Timestamp at = interval.begin;
    const auto until = [&](Timestamp end) {
      if (end > at) steps.push_back({elapsed(exit_.start, at), elapsed(at, end), text});
    };
    for (const WaitShare& share : waits_) {
      if (share.part != Part::kHalted || interval.part != Part::kHalted) continue;
      until(share.begin);
      at = share.end;
    }
    until(interval.end);
  }
  for (const WaitShare& share : waits_) {
    steps.push_back(
        {elapsed(exit_.start, share.begin), share.length(), names.step(share.part, share.culprit)});
  }
  std::stable_sort(steps.begin(), steps.end(), [](const ExplainStep& a, const ExplainStep& b) {
    return a.after_ns < b.after_ns;
  });
  if (steps.size() > kMostSteps) {
    explanation.steps_left_out = steps.size() - kMostSteps;
    steps.resize(kMostSteps);
  }
  explanation.steps = std::move(steps);
}

void ExitPicker::add_sentences(Explanation& explanation, const Naming& names) const {
  const bool cycles = explanation.cycles;
  const Part part = largest_part();
  explanation.sentences.push_back(fmt::format("{} left the guest for {}: {}.",
                                              names.vcpus.vcpu(exit_.thread, true),
                                              said_time(exit_.total(), cycles), what(names)));
  const std::uint64_t ns = part_of(exit_, part);
  const std::string share = share_of(ns, exit_.total());
  const LargestCulprit most = largest(waits_, part);
  switch (part) {
    case Part::kKernel:
      explanation.sentences.push_back(fmt::format("The kernel took {} of it.", share));
      break;
    case Part::kUser:
      explanation.sentences.push_back(fmt::format(
          "QEMU took {} of it{}.", share,
          exit_.vmm_event == kNoName ? std::string()
                                     : ", with " + name_or_dash(names.names, exit_.vmm_event)));
      break;
    case Part::kPreempted:
      explanation.sentences.push_back(fmt::format(
          "During {} of it the vCPU was ready to run and did not run; for {} of that {}.", share,
          said_time(most.ns, cycles), names.ran_instead(most.culprit)));
      break;
    case Part::kBlocked:
      explanation.sentences.push_back(fmt::format("During {} of it the vCPU slept, {} of that {}.",
                                                  share, said_time(most.ns, cycles),
                                                  names.slept_for(most.culprit)));
      break;
    case Part::kHalted:
      explanation.sentences.push_back(
          most.ns == 0 ? fmt::format("During {} of it the guest was halted.", share)
                       : fmt::format("During {} of it the guest was halted, {} of that {}.", share,
                                     said_time(most.ns, cycles), names.slept_for(most.culprit)));
      break;
  }
  if (part == slept_part(exit_) && explanation.waker) {
    explanation.sentences.push_back(waker_sentence(*explanation.waker, cycles));
  }
  Circumstances around = circumstances_of(most.culprit, names);
  around.iothread_device = around.iothread_device || (exit_.device != kNoName &&
                                                      can_have_iothread(names.names[exit_.device]));
  const auto quotas = names.processes.quotas().of(exit_.thread);
  around.throttled = !quotas.empty();
  if (part == Part::kPreempted && most.culprit.kind != CulpritKind::kQuota) {
    for (const CpuQuota* quota : quotas) explanation.sentences.push_back(quota_sentence(*quota));
  }
  const Cause* cause =
      cause_of(part == Part::kHalted ? Part::kBlocked : part, most.culprit, around);
  if (cause == nullptr) return;
  explanation.advice = cause->advice;
  explanation.source = cause->source;
}

std::optional<Explanation> ExitPicker::explain(const Naming& names) const {
  if (!found_) return std::nullopt;
  Explanation explanation;
  explanation.cycles = names.timeline.source(0).info().cycles;
  explanation.start_ns = exit_.start.ns();
  explanation.guest_ns = guest_ns_;
  explanation.tree = tree(names);
  explanation.tree.text = fmt::format("{}, {}", names.vcpus.vcpu(exit_.thread, true), what(names));
  add_steps(explanation, names);
  explanation.waker = waker(names);
  add_sentences(explanation, names);
  return explanation;
}

Result<Explanation> run_explain(const PassOptions& what, std::optional<TimeSpec> around,
                                const Progress& progress) {
  ExitPicker picker(around);
  auto pass = Pass::read(what, {&picker}, progress);
  if (!pass) return tl::unexpected(std::move(pass).error());
  if (auto found = pass->check_exits(); !found) return tl::unexpected(std::move(found).error());
  const ExitModel& model = pass->pipeline().exits().model();
  if (!model.durations()) {
    return fail(ErrorKind::kUsage,
                "{}: its exits have no durations; record syscalls:sys_enter_ioctl or kvm:kvm_exit",
                pass->path());
  }
  auto explanation = picker.explain(pass->naming());
  if (!explanation) {
    return fail(ErrorKind::kUsage, "{}: --around: {}", pass->path(),
                around ? "no exit ends after that time; trapline info says when the recording ends"
                       : "every exit is a halt; give a TIME");
  }
  explanation->notes = notes_of(*pass);
  return std::move(*explanation);
}

}  // namespace trapline
