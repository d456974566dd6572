#include "merge/compare/compare_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend_ftrace/base/saturated_sum.h"
#include "backend_ftrace/base/text.h"
#include "merge/pass/first_look.h"
#include "merge/pass/naming.h"

namespace trapline {
namespace {

// The step of an interrupt: the last word of its key.
enum class Step : std::uint8_t { kInjection, kEntry, kEnd };

std::string interrupt_text(const GroupKey& key) {
  constexpr std::string_view kSteps[] = {"to injection", "to entry", "to EOI"};
  const auto vector = static_cast<std::uint32_t>(key.words[0]);
  const auto origin = static_cast<IrqSpan::Origin>(key.words[1]);
  return fmt::format("{} {} {}", vector == kNoVector ? "-" : fmt::format("{:#x}", vector),
                     origin == IrqSpan::Origin::kLine  ? fmt::format("pin {}", key.words[2])
                     : origin == IrqSpan::Origin::kMsi ? "msi"
                                                       : "local",
                     kSteps[key.words[3]]);
}

// Returns a short name that means the same in another recording. It has no thread numbers, and no
// advice on what to record.
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

CompareSink::CompareSink(const std::vector<Dimension>& by, CompareRows rows)
    : keys_(by),
      what_(rows),
      needs_waits_(rows == CompareRows::kWaits ||
                   (rows == CompareRows::kExits && keys_.needs_waits())),
      rows_(GroupKey::kWords, kMostRows) {}

SpanClass CompareSink::selects() const {
  SpanClass selected = SpanClass::kExits;
  if (what_ == CompareRows::kRequests) selected = selected | SpanClass::kRequests;
  if (what_ == CompareRows::kFunctions) selected = selected | SpanClass::kCalls;
  if (what_ == CompareRows::kInterrupts) selected = selected | SpanClass::kInterrupts;
  if (needs_waits_) selected = selected | SpanClass::kWaits;
  if (keys_.needs_kernel()) selected = selected | SpanClass::kKernelParts;
  return selected;
}

// Adds something without parts that is not a halt.
void CompareSink::add(const GroupKey& key, Timestamp begin, Timestamp end) {
  rows_[rows_.place_of(key)].total.add(elapsed(begin, end));
}

void CompareSink::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  counts_something_ = true;
  std::span<const WaitShare> shares;
  if (needs_waits_) shares = pipeline.waits()->shares();
  if (what_ == CompareRows::kWaits) {
    for (const WaitShare& share : shares)
      add({{pack(share.culprit), share.part == Part::kBlocked ? 1u : 0u}}, share.begin, share.end);
  }
  if (what_ != CompareRows::kExits) return;
  const StackId stack = keys_.needs_stack() ? pipeline.stack_of(exit) : kNoStack;
  rows_[rows_.place_of(keys_.of(exit, stack, pipeline.stacks(), shares, pipeline.kernel()))].add(
      exit);
}

void CompareSink::call(const FunctionCall& call, const Pipeline& pipeline) {
  counts_something_ = true;
  rows_[rows_.place_of({{pipeline.stacks().innermost(call.stack)}})].add(call);
  calls_guest_ns_ += call.own.guest_ns;
}

void CompareSink::interrupt(const IrqSpan& irq, const Pipeline&) {
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

void CompareSink::request(const RequestSpan& request, const Pipeline&) {
  counts_something_ = true;
  add({{request.spec}}, request.start, request.end);
}

std::string CompareSink::text_of(const GroupKey& key, const Naming& names) const {
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
    case CompareRows::kWaits:
      break;
  }
  const Culprit culprit = unpack_culprit(key.words[0]);
  return short_culprits(key.words[1] != 0 ? "blocked on " + names.text(culprit)
                                          : names.step(Part::kPreempted, culprit));
}

// Sets everything except the rows.
void CompareSink::describe(Recorded& recorded, const Naming& names) const {
  const Timeline& timeline = names.timeline;
  const Pipeline& pipeline = names.pipeline;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const Source& source = timeline.source(i);
    recorded.events += source.counters().events;
    recorded.lost = saturated_sum(recorded.lost, source.counters().lost_events);
    recorded.losses_uncounted += source.counters().gaps_uncounted;
    if (source.counters().events == 0) continue;
    const bool host = source.info().role == Role::kHostKernel;
    if (host || what_ == CompareRows::kRequests || what_ == CompareRows::kFunctions)
      recorded.unit =
          std::max(recorded.unit, static_cast<double>(source.info().resolution_ns.value_or(1)));
    if (!host) continue;
    for (auto& [name, text] : source.facts()) recorded.facts.try_emplace(name, printable(text));
  }
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
    for (const VcpuTotalsOf& vcpu : pipeline.exits().vcpus())
      guest_ns += pipeline.counts(vcpu.thread) ? vcpu.totals.guest_ns : 0;
  }
  recorded.guest_ns = told(recorded.model.known_states(), State::kGuest, guest_ns);
}

Recorded CompareSink::take(const Naming& names) {
  Recorded recorded;
  describe(recorded, names);
  recorded.vcpus = static_cast<std::size_t>(std::ranges::count_if(
      names.threads,
      [&names](const VcpuThread& vcpu) { return names.pipeline.counts(vcpu.thread); }));
  for (const ExitGroup& row : rows_.rows()) recorded.rows[text_of(row.key, names)].merge(row);
  if (rows_.other().count() != 0) recorded.rows["[other]"].merge(rows_.other());
  return recorded;
}

}  // namespace trapline
