#include "merge/report/irq_table.h"

#include <fmt/format.h>

#include <utility>

namespace trapline {

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
  report.irqs_coalesced = tracker.coalesced();
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

}  // namespace trapline
