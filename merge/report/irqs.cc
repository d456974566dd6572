// --irq: interrupts by vector and by where they were raised.
#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "merge/analyze/pipeline.h"
#include "merge/model/kernel_events.h"
#include "merge/report/common_columns.h"
#include "merge/report/irqs.h"
#include "merge/report/report_data.h"
#include "merge/report/table_kinds.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

using enum IrqStep;

constexpr IrqStep kSteps[] = {kLine, kMsi, kAccept, kPic, kInject, kEoi, kPicEnd, kPending};

// Returns "310 kvm_pic_set_irq, …": the recorded events of interrupts.
std::string recorded_events(const IrqTracker& tracker) {
  std::string text;
  for (const IrqStep step : kSteps)
    if (const std::uint64_t seen = tracker.seen()[static_cast<std::size_t>(step)]; seen != 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", seen, events::of(step).name);
  return text;
}

// Returns the events that would show more. An interrupt can only be followed with one event of each
// step, so a step without events is missing if other steps have some.
std::string missing_events(const IrqTracker& tracker) {
  const auto seen = [&](IrqStep step) { return tracker.seen()[static_cast<std::size_t>(step)]; };
  std::string text;
  // arm64 has only one step.
  if (recorded_events(tracker).empty() || seen(IrqStep::kPending) != 0) return text;
  const auto missing = [&](bool is_missing, IrqStep step, std::optional<IrqStep> other = {}) {
    if (!is_missing) return;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", events::of(step).name);
    if (other) text += fmt::format(" or {}", events::of(*other).name);
  };
  const bool apic = seen(IrqStep::kAccept) != 0, pic = seen(IrqStep::kPic) != 0;
  missing(seen(kLine) + seen(kMsi) == 0, kLine, kMsi);
  missing(!apic && !pic, kAccept, kPic);
  missing(seen(kInject) == 0, kInject);
  missing(apic ? seen(kEoi) == 0 : pic && seen(kPicEnd) == 0, apic ? kEoi : kPicEnd);
  // Any other event is missing if the recording has no event at all of its step.
  for (const KernelEvent& event : events::all()) {
    if ((event.recorded.options & RecordedBy::kIrq) == 0) continue;
    if (const auto step = events::irq_step(event)) missing(seen(*step) == 0, *step);
  }
  return text;
}

}  // namespace

// Returns the stages between the recorded events. An interrupt without a raise begins where its
// vCPU accepts it.
std::string irq_stages(const IrqTracker& tracker) {
  const auto seen = [&](IrqStep step) {
    return tracker.seen()[static_cast<std::size_t>(step)] != 0;
  };
  if (seen(IrqStep::kPending))
    return fmt::format("entry: from {} to the vCPU's next {}.", events::of(kPending).name,
                       events::kvm_entry.name);
  std::string from;
  for (const IrqStep step : {kLine, kMsi, kAccept}) {
    if (!seen(step)) continue;
    from += fmt::format("{}{}{}", from.empty() ? "" : ", ", events::of(step).name,
                        step == kAccept ? " (local)" : "");
  }
  std::string text = fmt::format(
      "inject: from {} to {} (posted: {}); entry: from the same to the vCPU's next {}", from,
      events::of(kInject).name, events::kvm_apicv_accept_irq.name, events::kvm_entry.name);
  const bool apic = seen(IrqStep::kEoi), pic = seen(IrqStep::kPicEnd);
  if (apic || pic)
    text += fmt::format("; eoi: from the injection to {}{}{}", apic ? events::of(kEoi).name : "",
                        apic && pic ? ", of the PIC to " : "", pic ? events::of(kPicEnd).name : "");
  return text + '.';
}

std::string origin_text(IrqSpan::Origin origin, std::uint64_t pin) {
  return origin == IrqSpan::Origin::kLine  ? fmt::format("pin {}", pin)
         : origin == IrqSpan::Origin::kMsi ? "msi"
                                           : "local";
}

namespace {

// Interrupts of one vector and origin; docs/formats/report.md.
struct IrqRow {
  std::string vector, pin;
  std::uint64_t raised = 0, injected = 0;
  Histogram to_inject, to_entry, to_eoi;
};

// Returns the sentences below the table: between which events the times are, and interrupts that
// were raised twice.
std::vector<Paragraph> sentences_below(const IrqTracker& tracker) {
  std::vector<Paragraph> sentences = {{.text = irq_stages(tracker)}};
  if (const std::uint64_t coalesced = tracker.coalesced(); coalesced != 0)
    sentences.push_back({.text = fmt::format("{} interrupt{} raised again while {} pending.",
                                             grouped(coalesced), coalesced == 1 ? " was" : "s were",
                                             coalesced == 1 ? "it was" : "they were"),
                         .verbatim = true});
  return sentences;
}

// Returns the text that replaces a table without rows.
Paragraph none_text(const std::string& events) {
  if (!events.empty())
    return {.text = fmt::format("No interrupt was followed to the guest. Recorded: {}.", events)};
  std::vector<std::string_view> names;
  for (const IrqStep step : {kLine, kMsi, kAccept, kPic, kInject, kEoi, kPicEnd})
    names.push_back(events::of(step).name);
  return {.text = fmt::format("No interrupts were recorded ({}).", fmt::join(names, ", "))};
}

class IrqTable : public TableSink {
 public:
  static constexpr std::size_t kMostRows = 4096;

  [[nodiscard]] SpanClass selects() const override { return SpanClass::kInterrupts; }
  void interrupt(const IrqSpan& span, const Pipeline& /*pipeline*/) override {
    const std::tuple key{span.vector, span.origin,
                         span.origin == IrqSpan::Origin::kLine ? span.pin : 0};
    if (rows_.size() >= kMostRows && !rows_.contains(key)) return;
    IrqRow& row = rows_[key];
    ++row.raised;
    if (span.injected) {
      ++row.injected;
      row.to_inject.add(elapsed(span.raised, *span.injected));
    }
    if (span.entered) row.to_entry.add(elapsed(span.raised, *span.entered));
    if (span.ended) row.to_eoi.add(elapsed(span.injected.value_or(span.raised), *span.ended));
  }
  void fill(ReportData& data, const Naming& names) const override {
    if (const std::string missing = missing_events(*names.pipeline.interrupts()); !missing.empty())
      data.table_notes.push_back("interrupts are followed in part: the recording has no " +
                                 missing);
  }
  [[nodiscard]] std::vector<Table> tables(const ReportData&, const Naming& names) const override {
    const IrqTracker& tracker = *names.pipeline.interrupts();
    const std::string recorded = recorded_events(tracker);
    const bool injections = tracker.seen()[static_cast<std::size_t>(IrqStep::kInject)] != 0;
    TableOf<IrqRow> table({.key = "irqs", .csv = true}, rows(), [](const IrqRow& row) {
      return fmt::format("vector {} {}", row.vector == "-" ? "not known," : row.vector, row.pin);
    });
    table.facts = {{"coalesced", recorded.empty() ? CellValue() : tracker.coalesced()}};
    if (table.rows == 0) {
      table.after = {{}, none_text(recorded)};
    } else {
      table.titles = {"Interrupts"};
      table.after = sentences_below(tracker);
    }
    table.add({"vector"}, [](const IrqRow& row) { return name_or_null(row.vector); });
    table.add({"pin"}, &IrqRow::pin);
    table.add({"raised", "raised"}, &IrqRow::raised);
    table.add({"injected"}, [injections](const IrqRow& row) {
      return injections ? to_value(row.injected) : CellValue();
    });
    add_distribution(table, "raise_to_inject", {.p50 = "inject p50", .p99 = {"p99", 1}},
                     &IrqRow::to_inject);
    add_distribution(table, "raise_to_entry", {.p50 = "entry p50", .p99 = {"p99", 2}},
                     &IrqRow::to_entry);
    add_distribution(table, "inject_to_eoi", {.p50 = "eoi p50", .p99 = {"p99", 3}},
                     &IrqRow::to_eoi);
    return {std::move(table)};
  }

 private:
  [[nodiscard]] std::vector<IrqRow> rows() const {
    std::vector<IrqRow> rows;
    for (const auto& [key, counted] : rows_) {
      const auto& [vector, origin, pin] = key;
      IrqRow row = counted;
      row.vector = vector == kNoVector ? "-" : fmt::format("{:#x}", vector);
      row.pin = origin_text(origin, pin);
      rows.push_back(std::move(row));
    }
    return rows;
  }

  // By vector, origin and, for a line, pin.
  std::map<std::tuple<std::uint32_t, IrqSpan::Origin, std::uint32_t>, IrqRow> rows_;
};

}  // namespace

const TableKind kIrqTable = {.option = "--irq",
                             .help = "The guest's interrupts, and how long they waited",
                             .in_page = InPage::kAlways,
                             .make = make_sink<IrqTable>};

}  // namespace trapline
