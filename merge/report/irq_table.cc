#include "merge/report/irq_table.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "merge/model/kernel_events.h"
#include "merge/report/common_columns.h"
#include "merge/report/tables.h"

namespace trapline {
namespace {

using enum IrqStep;

constexpr IrqStep kSteps[] = {kLine, kMsi, kAccept, kPic, kInject, kEoi, kPicEnd, kPending};

// An interrupt needs one event of each step to be followed; those of which a recording has none are
// missing where the steps around them are there.
void report_events(Report& report, const IrqTracker& tracker) {
  const auto seen = [&](IrqStep step) { return tracker.seen()[static_cast<std::size_t>(step)]; };
  report.irq_events.clear();
  for (const IrqStep step : kSteps) {
    if (seen(step) == 0) continue;
    if (!report.irq_events.empty()) report.irq_events += ", ";
    report.irq_events += fmt::format("{} {}", seen(step), events::of(step).name);
  }
  if (report.irq_events.empty() || seen(IrqStep::kPending) != 0) return;  // arm64 has one step
  const auto missing = [&](bool is_missing, IrqStep step, std::optional<IrqStep> other = {}) {
    if (!is_missing) return;
    if (!report.irq_events_missing.empty()) report.irq_events_missing += ", ";
    report.irq_events_missing += events::of(step).name;
    if (other) report.irq_events_missing += fmt::format(" or {}", events::of(*other).name);
  };
  const bool apic = seen(IrqStep::kAccept) != 0, pic = seen(IrqStep::kPic) != 0;
  missing(seen(kLine) + seen(kMsi) == 0, kLine, kMsi);
  missing(!apic && !pic, kAccept, kPic);
  missing(seen(kInject) == 0, kInject);
  missing(apic ? seen(kEoi) == 0 : pic && seen(kPicEnd) == 0, apic ? kEoi : kPicEnd);
  // Events of a step that has no other event.
  for (const KernelEvent& event : events::all()) {
    if ((event.recorded.options & RecordedBy::kIrq) == 0) continue;
    if (const auto step = events::irq_step(event)) missing(seen(*step) == 0, *step);
  }
}

// Of the events that came. What its vCPU accepts without a raise begins there.
std::string stages_text(const IrqTracker& tracker) {
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

}  // namespace

void IrqTable::add(const IrqSpan& span) {
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

void IrqTable::report(Report& report, const IrqTracker& tracker) const {
  report_events(report, tracker);
  report.irq_stages = stages_text(tracker);
  report.irqs_coalesced = tracker.coalesced();
  report.irq_injections = tracker.seen()[static_cast<std::size_t>(IrqStep::kInject)] != 0;
  auto& rows = report.irqs.emplace();
  for (const auto& [key, counted] : rows_) {
    const auto& [vector, origin, pin] = key;
    IrqRow row = counted;
    row.vector = vector == kNoVector ? "-" : fmt::format("{:#x}", vector);
    row.pin = origin == IrqSpan::Origin::kLine  ? fmt::format("pin {}", pin)
              : origin == IrqSpan::Origin::kMsi ? "msi"
                                                : "local";
    rows.push_back(std::move(row));
  }
}

Table irq_table(const Report& report) {
  TableOf<IrqRow> table(*report.irqs, [](const IrqRow& row) {
    return fmt::format("vector {} {}", row.vector, row.pin);
  });
  table.add({"vector"}, [](const IrqRow& row) { return name_or_null(row.vector); });
  table.add({"pin"}, &IrqRow::pin);
  table.add({"raised", "raised"}, &IrqRow::raised);
  table.add({"injected"}, [told = report.irq_injections](const IrqRow& row) {
    return told ? to_value(row.injected) : CellValue();
  });
  add_distribution(table, "raise_to_inject", {.p50 = "inject p50", .p99 = {"p99", 1}},
                   &IrqRow::to_inject);
  add_distribution(table, "raise_to_entry", {.p50 = "entry p50", .p99 = {"p99", 2}},
                   &IrqRow::to_entry);
  add_distribution(table, "inject_to_eoi", {.p50 = "eoi p50", .p99 = {"p99", 3}}, &IrqRow::to_eoi);
  return table;
}

}  // namespace trapline
