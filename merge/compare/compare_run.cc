#include "merge/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "merge/analyze/pipeline.h"
#include "merge/model/kernel_events.h"
#include "merge/pass/distinct_runs.h"
#include "merge/pass/first_look.h"
#include "merge/pass/naming.h"
#include "merge/report/dimensions.h"
#include "merge/report/grouping.h"
#include "merge/report/host_roles.h"
#include "merge/report/irqs.h"

namespace trapline {

// A sink that counts exits, or what CompareRows names, by row for a comparison.

namespace {

// The step of an interrupt that is timed: the last word of its row's GroupKey.
enum class Step : std::uint8_t { kInjection, kEntry, kEnd };

std::string interrupt_text(const GroupKey& key) {
  constexpr std::string_view kSteps[] = {"to injection", "to entry", "to EOI"};
  const auto vector = static_cast<std::uint32_t>(key.words[0]);
  return fmt::format("{} {} {}", vector == kNoVector ? "-" : fmt::format("{:#x}", vector),
                     origin_text(static_cast<IrqSpan::Origin>(key.words[1]), key.words[2]),
                     kSteps[key.words[3]]);
}

// Returns the text without the parts that differ between recordings: thread numbers, and advice on
// what to record.
std::string short_culprits(std::string text) {
  for (const std::string_view begin : {" (tid ", " (record "}) {
    for (auto at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
      const auto end = text.find(')', at);
      text.erase(at, end == std::string::npos ? end : end + 1 - at);
    }
  }
  return text;
}

}  // namespace

class CompareSink : public SpanSink {
 public:
  // Limit for the rows; further ones count as one row, "[other]".
  static constexpr std::size_t kMostRows = 256;

  // Borrows the dimensions.
  CompareSink(const std::vector<Dimension>& by, CompareRows rows)
      : keys_(by),
        what_(rows),
        needs_waits_(rows == CompareRows::kWaits ||
                     (rows == CompareRows::kExits && keys_.needs_waits())),
        rows_(GroupKey::kWords, kMostRows) {}

  [[nodiscard]] SpanClass selects() const override {
    SpanClass selected = SpanClass::kExits;
    if (what_ == CompareRows::kRequests) selected = selected | SpanClass::kRequests;
    if (what_ == CompareRows::kFunctions) selected = selected | SpanClass::kCalls;
    if (what_ == CompareRows::kInterrupts) selected = selected | SpanClass::kInterrupts;
    if (what_ == CompareRows::kThreads) selected = selected | SpanClass::kHostRuns;
    if (what_ == CompareRows::kFaults) selected = selected | SpanClass::kFaults;
    if (needs_waits_) selected = selected | SpanClass::kWaits;
    if (keys_.needs_kernel()) selected = selected | SpanClass::kKernelParts;
    return selected;
  }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    counts_something_ = true;
    std::span<const WaitShare> shares;
    if (needs_waits_) shares = pipeline.waits()->shares();
    if (what_ == CompareRows::kWaits) {
      for (const WaitShare& share : shares)
        add({{pack(share.culprit), share.part == Part::kBlocked ? 1u : 0u}}, share.begin,
            share.end);
    }
    if (what_ == CompareRows::kFaults && is_page_fault(exit)) {
      const PageFault& fault = pipeline.faults()->last();
      rows_[rows_.place_of({{static_cast<std::uint64_t>(fault.why.cause)}})].add(exit);
      fault.address ? pages_.add(*fault.address, exit.total()) : pages_.add_unknown();
      threads_.insert(exit.thread);
    }
    if (what_ != CompareRows::kExits) return;
    const StackId stack = keys_.needs_stack() ? pipeline.stack_of(exit) : kNoStack;
    rows_[rows_.place_of(keys_.of(exit, stack, pipeline.stacks(), shares, pipeline.kernel()))].add(
        exit);
  }
  void call(const FunctionCall& call, const Pipeline& pipeline) override {
    counts_something_ = true;
    rows_[rows_.place_of({{pipeline.stacks().innermost(call.stack)}})].add(call);
    calls_guest_ns_ += call.own.guest_ns;
  }
  void interrupt(const IrqSpan& irq, const Pipeline&) override {
    counts_something_ = true;
    const auto add_step = [&](Step step, Timestamp from, const std::optional<Timestamp>& to) {
      if (!to) return;
      const bool line = irq.origin == IrqSpan::Origin::kLine;
      add({{irq.vector, static_cast<std::uint64_t>(irq.origin), line ? irq.pin : 0,
            static_cast<std::uint64_t>(step)}},
          from, *to);
    };
    add_step(Step::kInjection, irq.raised, irq.injected);
    add_step(Step::kEntry, irq.raised, irq.entered);
    add_step(Step::kEnd, irq.injected.value_or(irq.raised), irq.ended);
  }
  void request(const RequestSpan& request, const Pipeline&) override {
    counts_something_ = true;
    add({{request.spec}}, request.start, request.end);
  }

  // Returns the run; call it after Pipeline::finish().
  [[nodiscard]] Recorded take(const Naming& names) {
    Recorded recorded;
    recorded.vcpus = static_cast<std::size_t>(std::ranges::count_if(
        names.threads,
        [&names](const VcpuThread& vcpu) { return names.pipeline.counts(vcpu.thread); }));
    describe(recorded, names);
    Naming stable = names;
    for (Vm& vm : stable.vms) vm.by_name = true;
    stable.vcpus = VcpuNames(stable.threads, stable.vms);
    for (const ExitGroup& row : rows_.rows()) recorded.rows[text_of(row.key, stable)].merge(row);
    if (what_ == CompareRows::kThreads)
      for (const HostThread& thread :
           host_threads(names, names.pipeline.host_runs()->threads(names.pipeline.end())))
        if (!thread.lacks_runs)
          recorded.rows[std::string(trapline::text_of(thread.role))].total.add(
              thread.runs.state.ran_ns);
    if (rows_.other().count() != 0) recorded.rows["[other]"].merge(rows_.other());
    std::set<std::string> vms;
    for (const ThreadId thread : threads_) vms.insert(names.vcpus.vm(thread));
    if (vms.size() > 1) pages_.forget();
    recorded.pages = std::move(pages_);
    return recorded;
  }

 private:
  // Adds a duration that has no parts: of a wait, a request, or an interrupt's step.
  void add(const GroupKey& key, Timestamp begin, Timestamp end) {
    rows_[rows_.place_of(key)].total.add(elapsed(begin, end));
  }
  [[nodiscard]] std::string text_of(const GroupKey& key, const Naming& names) const {
    switch (what_) {
      case CompareRows::kExits: {
        std::string text = keys_.text(key, names);
        return keys_.needs_waits() ? short_culprits(std::move(text)) : text;
      }
      case CompareRows::kRequests:
        return printable(
            names.pipeline.requests()->specs()[static_cast<std::size_t>(key.words[0])].name());
      case CompareRows::kFunctions:
        return name_or_dash(names.names, static_cast<NameId>(key.words[0]));
      case CompareRows::kInterrupts:
        return interrupt_text(key);
      case CompareRows::kFaults:
        return std::string(key_of(static_cast<FaultCause>(key.words[0])));
      case CompareRows::kWaits:
      case CompareRows::kThreads:
        break;
    }
    const Culprit culprit = unpack_culprit(key.words[0]);
    return short_culprits(key.words[1] != 0 ? "blocked on " + names.text(culprit)
                                            : names.step(Part::kPreempted, culprit));
  }
  // Sets everything except the rows.
  void describe(Recorded& recorded, const Naming& names) const {
    const Timeline& timeline = names.timeline;
    const Pipeline& pipeline = names.pipeline;
    for (std::size_t i = 0; i < timeline.size(); ++i) {
      const Source& source = timeline.source(i);
      recorded.events += source.counters().events;
      recorded.losses.add(source.counters());
      if (source.counters().events == 0) continue;
      const bool host = source.info().role == Role::kHostKernel;
      if (host || what_ == CompareRows::kRequests || what_ == CompareRows::kFunctions)
        recorded.unit =
            std::max(recorded.unit, static_cast<double>(source.info().resolution_ns.value_or(1)));
      if (!host) continue;
      for (auto& [name, text] : source.facts()) recorded.facts.try_emplace(name, printable(text));
    }
    recorded.sources = source_rows(timeline);
    const SourceInfo& info = timeline.source(0).info();
    recorded.path = info.path;
    recorded.clock = info.clock;
    recorded.cycles = info.cycles;
    recorded.model = pipeline.exits().model();
    recorded.exits = pipeline.exits().counters().exits;
    const RecordedInterval interval = recorded_interval(timeline, pipeline);
    const Timestamp end = interval.end, origin = counts_something_ ? interval.begin : end;
    recorded.begin_ns = origin.ns();
    recorded.wall_ns = std::max<std::uint64_t>(1, elapsed(origin, end));
    std::uint64_t guest_ns = calls_guest_ns_;
    if (recorded.exits != 0) {
      guest_ns = 0;
      std::uint64_t not_seen = 0, time = 0;
      for (const VcpuTotalsOf& vcpu : pipeline.exits().vcpus()) {
        if (!pipeline.counts(vcpu.thread)) continue;
        guest_ns += vcpu.totals.guest_ns;
        not_seen += vcpu.totals.not_seen_ns;
        time += vcpu.totals.time_ns();
      }
      recorded.hides_time = not_seen > time / 100;
    }
    recorded.guest_ns = known_ns(recorded.model.known_states(), State::kGuest, guest_ns);
  }

  ExitKeys keys_;
  CompareRows what_;
  bool needs_waits_;
  bool counts_something_ = false;
  std::uint64_t calls_guest_ns_ = 0;
  TouchedPages pages_;
  std::set<ThreadId> threads_;  // of the vCPUs with page faults
  Grouping<ExitGroup> rows_;
};

namespace {

// Limit of lost events as a share of all: above this, recordings are not compared.
constexpr double kMostLost = 0.01;
constexpr double kLengthsDiffer = 2;  // ratio of two lengths

std::string user_end_text(UserEnd end) {
  const std::string texts[] = {fmt::format("at the ioctl ({})", events::sys_enter_ioctl.name),
                               "where KVM reloads the guest's state",
                               fmt::format("at {}", events::kvm_entry.name),
                               "nowhere: no durations"};
  return texts[static_cast<std::size_t>(end)];
}

// Returns whether a guest's functions are compared with the same program's on the host or under
// TCG, which shows the cost of virtualization. Only one side has exits then.
bool is_against_native(const Recorded& a, const Recorded& b, CompareRows rows) {
  return rows == CompareRows::kFunctions && (a.exits == 0) != (b.exits == 0);
}

Result<void> check_pair(const Recorded& a, const Recorded& b, bool devices, CompareRows rows) {
  if (a.cycles != b.cycles) {
    const Recorded& cycles = a.cycles ? a : b;
    return fail(
        "{}: its times are cycles and those of {} are nanoseconds; give --tsc-khz, or "
        "record both with the clock mono",
        cycles.path, (a.cycles ? b : a).path);
  }
  if (is_against_native(a, b, rows)) return {};
  if (a.model.user_end != b.model.user_end) {
    return fail("{}: its user time ends {}, that of {} {}; record both with kvm, {} and {}", a.path,
                user_end_text(a.model.user_end), b.path, user_end_text(b.model.user_end),
                events::sched_switch.name, events::sys_enter_ioctl.full_name);
  }
  const std::string wakeups =
      fmt::format("wake-ups ({} or {})", events::sched_waking.name, events::sched_wakeup.name);
  const std::tuple<std::string_view, bool, bool> kEvents[] = {
      {events::kvm_exit.full_name, !a.model.from_userspace_exit, !b.model.from_userspace_exit},
      {events::kvm_userspace_exit.full_name, a.model.userspace_exits, b.model.userspace_exits},
      {events::sched_switch.full_name, a.model.sched_switch, b.model.sched_switch},
      {wakeups, a.model.wakeups, b.model.wakeups},
      {"the markers of QEMU", !devices || a.markers, !devices || b.markers}};
  for (const auto& [name, in_a, in_b] : kEvents) {
    if (in_a == in_b) continue;
    return fail("{} {} recorded in {} and not in {}; record both with the same events", name,
                name.find(':') == name.npos ? "were" : "was", (in_a ? a : b).path,
                (in_a ? b : a).path);
  }
  return {};
}

Result<void> check_losses(const Recorded& recorded) {
  const double all = static_cast<double>(recorded.events + recorded.losses.lost_events);
  if (static_cast<double>(recorded.losses.lost_events) <= kMostLost * all) return {};
  return fail(ErrorKind::kDamaged,
              "{}: {} of {} events were lost, more than the {:.0f}% up to which recordings are "
              "compared; record again with a larger buffer (trapline record --buffer-size)",
              recorded.path, recorded.losses.lost_events,
              recorded.events + recorded.losses.lost_events, kMostLost * 100);
}

void warn_of_facts(const Recorded& a, const Recorded& b, std::vector<std::string>& warnings) {
  constexpr std::pair<const char*, std::string_view> kFacts[] = {{"host", "host kernels"},
                                                                 {"CPUs", "numbers of host CPUs"}};
  for (const auto& [name, plural] : kFacts) {
    const auto left = a.facts.find(name), right = b.facts.find(name);
    if (left == a.facts.end() || right == b.facts.end() || left->second == right->second ||
        left->second.empty() || right->second.empty())
      continue;
    warnings.push_back(fmt::format("the {} differ: {} in {}, {} in {}", plural, left->second,
                                   a.path, right->second, b.path));
  }
  if (a.vcpus != b.vcpus && (a.exits == 0) == (b.exits == 0))
    warnings.push_back(fmt::format("{} has {} vCPU{}, {} has {}", a.path, a.vcpus,
                                   a.vcpus == 1 ? "" : "s", b.path, b.vcpus));
  if (a.clock != b.clock) {
    warnings.push_back(
        fmt::format("the clocks differ: {} in {}, {} in {}", a.clock, a.path, b.clock, b.path));
  }
  const auto [shorter, longer] = std::minmax(a.wall_ns, b.wall_ns);
  if (static_cast<double>(longer) > kLengthsDiffer * static_cast<double>(shorter)) {
    warnings.push_back(fmt::format(
        "the lengths differ: {:.3g} s in {}, {:.3g} s in {}; they may hold other phases "
        "of the guest's work",
        static_cast<double>(a.wall_ns) / 1e9, a.path, static_cast<double>(b.wall_ns) / 1e9,
        b.path));
  }
}

Result<void> check_distinct(const std::vector<Recorded>& side) {
  std::vector<RunGiven> runs;
  for (const Recorded& run : side)
    runs.push_back({run.path, run.begin_ns, run.begin_ns + run.wall_ns, run.events, run.exits});
  return trapline::check_distinct(std::span<const RunGiven>(runs));
}

// Warns if all runs of one side begin before all runs of the other, so that a drift over time would
// affect one side only.
std::optional<std::string> warn_of_order(const std::vector<Recorded>& before,
                                         const std::vector<Recorded>& after) {
  if (method_for(before.size(), after.size()) == Method::kNone) return std::nullopt;
  for (const auto* side : {&before, &after}) {
    for (const Recorded& run : *side)
      if (run.clock != before.front().clock) return std::nullopt;
  }
  const auto is_earlier = [](const Recorded& a, const Recorded& b) {
    return a.begin_ns < b.begin_ns;
  };
  const auto [first_a, last_a] = std::minmax_element(before.begin(), before.end(), is_earlier);
  const auto [first_b, last_b] = std::minmax_element(after.begin(), after.end(), is_earlier);
  if (!is_earlier(*last_a, *first_b) && !is_earlier(*last_b, *first_a)) return std::nullopt;
  return fmt::format(
      "all runs of one side begin before all runs of the other (clock {}): what else changed on "
      "the host in between looks like a change; record the sides in turns, as trapline bench does",
      before.front().clock);
}

// Refuses a selection of exits if the rows are not about exits.
Result<void> check_exit_filter(const ExitFilter& exits, CompareRows rows) {
  if (exits.empty() || rows == CompareRows::kExits || rows == CompareRows::kWaits ||
      rows == CompareRows::kFaults)
    return {};
  return fail(ErrorKind::kUsage,
              "{} chooses exits, and the rows are {}; give one without the other", exits.text(),
              kCompareRowsNames[static_cast<std::size_t>(rows)]);
}

// Checks whether there can be any rows.
Result<void> check_found(const PassEnd& pass, CompareRows rows, const Recorded& recorded) {
  const std::string& path = pass.path();
  if (rows == CompareRows::kFunctions) {
    if (!recorded.rows.empty()) return {};
    return fail(
        "{}: holds no calls of guest functions; record them with Trapline's plugin or with "
        "uftrace (docs/plugin.md)",
        path);
  }
  if (auto found = pass.check_exits(); !found) return found;
  if (rows == CompareRows::kInterrupts && recorded.rows.empty()) {
    return fail(
        "{}: holds no interrupt of a guest that can be followed; record with trace-cmd "
        "record -e kvm, which has {}, {} and {}",
        path, events::of(IrqStep::kLine).name, events::of(IrqStep::kInject).name,
        events::of(IrqStep::kEoi).name);
  }
  if (rows == CompareRows::kThreads && recorded.rows.empty()) {
    return fail("{}: does not tell how long the VMs' threads ran: {}", path,
                pass.input().capabilities.sched_switch
                    ? "not all of their switches were recorded"
                    : fmt::format("record {} as well", events::sched_switch.full_name));
  }
  if (rows == CompareRows::kFaults && recorded.rows.empty()) {
    return fail(
        "{}: no page fault is in what is compared; {} or {} tell them: trapline record "
        "--faults",
        path, events::kvm_page_fault.full_name, events::kvm_guest_fault.full_name);
  }
  if (rows == CompareRows::kWaits && !pass.input().capabilities.sched_switch) {
    return fail("{}: does not tell who kept the vCPUs waiting; record {} and {} as well", path,
                events::sched_switch.full_name, events::sched_waking.full_name);
  }
  return {};
}

}  // namespace

std::vector<std::string> files_of(const std::string& recording) {
  if (is_there(recording)) return {recording};
  const auto files = split(recording, ',');
  return {files.begin(), files.end()};
}

namespace {

// Reads one recording. Errors: those of open_input(); the recording ends early; it contains nothing
// that rows are made of. `met`: the names of exits that were seen so far.
Result<Recorded> read_for_comparison(const InputOptions& input, const CompareOptions& options,
                                     std::optional<ExitMatcher>& met, const Progress& progress) {
  PassOptions what;
  what.input = input;
  what.which = options.which;
  CompareSink sink(options.dimensions, options.rows);
  FoldedStacks stacks;
  std::vector<SpanSink*> sinks = {&sink};
  if (options.flame) sinks.push_back(&stacks);
  auto pass = Pass::read(std::move(what), std::move(sinks), progress);
  if (!pass) return tl::unexpected(std::move(pass).error());
  Recorded recorded = sink.take(pass->naming());
  if (auto found = check_found(*pass, options.rows, recorded); !found)
    return tl::unexpected(std::move(found).error());
  if (const ExitMatcher* matcher = pass->matcher(); matcher != nullptr && met)
    met->merge(*matcher);
  else if (matcher != nullptr)
    met = *matcher;
  if (options.flame) recorded.flame = stacks.take(pass->naming());
  recorded.markers = pass->input().capabilities.markers;
  recorded.missing = pass->input().missing;
  return recorded;
}

Result<std::vector<Recorded>> read_side(const std::vector<std::string>& paths,
                                        const CompareOptions& options,
                                        std::optional<ExitMatcher>& met, const Progress& progress) {
  std::vector<Recorded> side;
  for (const std::string& path : paths) {
    InputOptions input = options.common;
    input.paths = files_of(path);
    auto recorded = read_for_comparison(input, options, met, progress);
    if (!recorded) return tl::unexpected(std::move(recorded).error());
    recorded->path = input.paths.size() == 1 ? path : input.paths.front() + ",...";
    side.push_back(std::move(*recorded));
  }
  return side;
}

std::vector<FoldedTimes> flames(std::vector<Recorded>& side) {
  std::vector<FoldedTimes> all;
  for (Recorded& recorded : side) all.push_back(std::move(recorded.flame));
  return all;
}

}  // namespace

Result<std::vector<std::string>> check_comparable(const std::vector<Recorded>& before,
                                                  const std::vector<Recorded>& after, bool devices,
                                                  CompareRows rows) {
  std::vector<std::string> warnings;
  const Recorded& first = before.front();
  for (const auto* side : {&before, &after}) {
    if (auto checked = check_distinct(*side); !checked) return tl::unexpected(checked.error());
    for (const Recorded& recorded : *side) {
      if (auto checked = check_losses(recorded); !checked) return tl::unexpected(checked.error());
      for (const std::string& sentence : recorded.missing)
        warnings.push_back(fmt::format("{}: {}", recorded.path, sentence));
      if (&recorded == &first) continue;
      if (auto checked = check_pair(first, recorded, devices, rows); !checked)
        return tl::unexpected(checked.error());
      if (is_against_native(first, recorded, rows)) {
        const bool exits = first.exits != 0;
        warnings.push_back(fmt::format("{} has no exits, {} has: its functions ran without KVM",
                                       exits ? recorded.path : first.path,
                                       exits ? first.path : recorded.path));
      }
      warn_of_facts(first, recorded, warnings);
      if (recorded.losses.gaps_uncounted != 0) {
        warnings.push_back(fmt::format("{}: events were lost {} times (count unknown)",
                                       recorded.path, recorded.losses.gaps_uncounted));
      }
    }
  }
  if (auto warning = warn_of_order(before, after)) warnings.push_back(std::move(*warning));
  return warnings;
}

Result<Comparison> run_compare(const CompareOptions& options, const Progress& progress) {
  if (auto requested = check_exit_filter(options.which.exits, options.rows); !requested)
    return tl::unexpected(std::move(requested).error());
  std::optional<ExitMatcher> met;
  auto before = read_side(options.before, options, met, progress);
  if (!before) return tl::unexpected(std::move(before).error());
  auto after = read_side(options.after, options, met, progress);
  if (!after) return tl::unexpected(std::move(after).error());
  // An exit that only one side has is a change, not an error.
  if (auto known = met ? met->check() : Result<void>(); !known)
    return tl::unexpected(std::move(known).error());
  const auto is_from_markers = [](Dimension dimension) {
    return dimension == Dimension::kDevice || dimension == Dimension::kVmmEvent;
  };
  const bool devices =
      options.rows == CompareRows::kRequests ||
      (options.rows == CompareRows::kExits &&
       std::any_of(options.dimensions.begin(), options.dimensions.end(), is_from_markers));
  auto warnings = check_comparable(*before, *after, devices, options.rows);
  if (!warnings) return tl::unexpected(std::move(warnings).error());
  Comparison comparison = compare(*before, *after, options);
  comparison.warnings.insert(comparison.warnings.begin(), warnings->begin(), warnings->end());
  if (met) {
    comparison.warnings.insert(comparison.warnings.begin(),
                               fmt::format("only exits with {} are compared; the times of the "
                                           "guest are those of all",
                                           options.which.exits.text()));
  }
  if (options.flame) comparison.flame = folded_difference(flames(*before), flames(*after));
  return comparison;
}

}  // namespace trapline
