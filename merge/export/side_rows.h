// One row for each interval that a guest recorded (--rows guest-spans), and for each turn of a
// vhost worker (--rows vhost). docs/formats/rows.md has the columns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "merge/analyze/vhost_tracker.h"
#include "merge/export/culprit_texts.h"
#include "merge/export/exporter.h"
#include "merge/export/row_labels.h"

namespace trapline {

inline constexpr std::string_view kGuestSpanRows = "guest-spans", kVhostRows = "vhost";

// What the two have in common: the cells before and after their own.
class SideRowExporter : public Exporter {
 public:
  [[nodiscard]] Result<void> finish(const Naming&) override { return writer_.finish(); }
  [[nodiscard]] bool failed() const override { return writer_.failed(); }

 protected:
  SideRowExporter(const ExportContext& context, const ExportOptions& options, RowForm form,
                  OutputFile output, const std::vector<std::string_view>& columns);
  // Up to total_ns.
  void begin_row(ThreadId process, std::int32_t vcpu, ThreadId thread, Timestamp begin,
                 Timestamp end);
  // From wall_ns on.
  void end_row(Timestamp begin);

  const ExportContext context_;
  RowWriter writer_;
  RowLabels labels_;
};

class GuestSpanRowExporter final : public SideRowExporter {
 public:
  GuestSpanRowExporter(const ExportContext& context, const ExportOptions& options, RowForm form,
                       OutputFile output);
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kGuestIntervals; }
  void guest_interval(const GuestInterval& interval, const Pipeline& pipeline) override;

 private:
  void largest_of(const GuestInterval& interval, Part part, const Pipeline& pipeline);
  CulpritTexts culprits_;
  std::string span_;  // quoted: what was asked for
};

class VhostRowExporter final : public SideRowExporter {
 public:
  VhostRowExporter(const ExportContext& context, const ExportOptions& options, RowForm form,
                   OutputFile output);
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kRequests; }
  void turn(const VhostTurn& turn, const Pipeline& pipeline) override;
};

}  // namespace trapline
