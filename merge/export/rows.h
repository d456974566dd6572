// Writes one row for each exit, request, interrupt or guest function call, as JSON lines or CSV,
// for engines that hold the data of a fleet. docs/formats/rows.md describes the columns.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "merge/analyze/vhost_tracker.h"
#include "merge/export/exporter.h"
#include "merge/export/row_writer.h"
#include "merge/export/texts.h"

namespace trapline {

// What rows of every kind share: the labels in front, the texts of reasons, the wall clock and the
// host's boot.

// Increased when a column changes its meaning.
inline constexpr int kRowsVersion = 2;

// The first columns of every row.
inline constexpr std::string_view kLabelColumns[] = {"rows_version", "host", "session"};

class RowLabels {
 public:
  RowLabels(const ExportContext& context, const ExportOptions& options, const RowWriter& writer);

  [[nodiscard]] const std::string& cells() const { return cells_; }  // for kLabelColumns
  [[nodiscard]] const std::string& boot() const { return boot_; }    // quoted, or null
  // Returns the quoted text of an exit's reason.
  [[nodiscard]] const std::string& reason(const ExitSpan& exit);

 private:
  const Timeline& timeline_;
  const RowWriter& writer_;
  std::string cells_, boot_;
  std::unordered_map<std::uint64_t, std::string> reasons_;
};

// Writes one row for each interval that a guest recorded (--rows guest-spans), for each turn of a
// vhost worker (--rows vhost), and for each page fault (--rows faults). docs/formats/rows.md
// describes the columns.

inline constexpr std::string_view kGuestSpanRows = "guest-spans", kVhostRows = "vhost",
                                  kFaultRows = "faults";

// What these kinds share: the cells before and after their own.
class SideRowExporter : public Exporter {
 public:
  [[nodiscard]] Result<void> finish(const Naming&) override { return writer_.finish(); }
  [[nodiscard]] bool failed() const override { return writer_.failed(); }
  [[nodiscard]] bool is_empty() const override { return writer_.rows() == 0; }

 protected:
  SideRowExporter(const ExportContext& context, const ExportOptions& options, RowForm form,
                  OutputFile output, const std::vector<std::string_view>& columns);
  // Writes the cells up to total_ns.
  void begin_row(ThreadId process, std::int32_t vcpu, ThreadId thread, Timestamp begin,
                 Timestamp end);
  // Writes the cells from wall_ns on.
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
  std::string span_;  // quoted: the requested intervals
};

class VhostRowExporter final : public SideRowExporter {
 public:
  VhostRowExporter(const ExportContext& context, const ExportOptions& options, RowForm form,
                   OutputFile output);
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kRequests; }
  void turn(const VhostTurn& turn, const Pipeline& pipeline) override;
};

class FaultRowExporter final : public SideRowExporter {
 public:
  FaultRowExporter(const ExportContext& context, const ExportOptions& options, RowForm form,
                   OutputFile output);
  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kExits | SpanClass::kFaults;
  }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;

 private:
  CulpritTexts culprits_;
};

class RowExporter : public Exporter {
 public:
  enum class Rows : std::uint8_t { kExits, kRequests, kInterrupts, kFunctions };
  RowExporter(const ExportContext& context, const ExportOptions& options, Rows rows, RowForm form,
              OutputFile output);

  [[nodiscard]] SpanClass selects() const override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  void span(const Span& span, const Pipeline& pipeline) override;
  void request(const RequestSpan& request, const Pipeline&) override { request_ = request; }
  void interrupt(const IrqSpan& interrupt, const Pipeline&) override { interrupt_ = interrupt; }
  void call(const FunctionCall& call, const Pipeline& pipeline) override;
  [[nodiscard]] Result<void> finish(const Naming&) override { return writer_.finish(); }
  [[nodiscard]] bool failed() const override { return writer_.failed(); }
  [[nodiscard]] bool is_empty() const override { return writer_.rows() == 0; }

 private:
  // The cells of host, session, VM, vCPU and thread, which all rows of a vCPU share.
  struct Place {
    std::int32_t vcpu = kNoVcpu;
    ThreadId process{};  // of the VM; may become known later
    std::string cells;
  };
  static constexpr std::size_t kMostThreads = 1u << 16;

  void place(ThreadId thread, std::int32_t vcpu, const Pipeline& pipeline);
  [[nodiscard]] std::string place_cells(ThreadId thread, std::int32_t vcpu, ThreadId process) const;
  void wall_time(Timestamp at);
  // The details of a span's row besides the span; each kind of row has some of them.
  struct SpanDetails {
    std::optional<Timestamp> notified{}, injected{}, entered{};
    std::string_view origin{};
    std::optional<std::uint64_t> pin{}, task{};
    StackId stack = kNoStack;
    std::optional<BlockTimes> block{};
  };
  void span_row(const Span& span, const SpanDetails& details, const Pipeline& pipeline);
  // Each writes one cell. Texts (names, stacks, who woke a vCPU) are quoted once.
  void name(NameId id, const Pipeline& pipeline);
  void stack(StackId id, const Pipeline& pipeline);
  void woken_by(const ExitSpan& exit, const Pipeline& pipeline);
  // Writes two cells: reason and detail.
  void what(const ExitSpan& exit);

  const ExportContext context_;
  Rows rows_;
  RowWriter writer_;
  RowLabels labels_;
  std::optional<States> known_;  // the states whose times the events show, once an exit came
  ThreadTable<Place> places_;
  std::vector<std::string> names_, stacks_;
  std::string stack_;                  // a stack for which there is no room
  std::size_t kept_ = 0;               // bytes of stacks_
  std::array<std::string, 4> nested_;  // for each NestedLevel
  ExitTexts<std::string> exits_;       // their cells of reason and detail
  CulpritTexts culprits_;
  RequestSpan request_;  // the request whose span comes next
  IrqSpan interrupt_;    // the interrupt whose span comes next
};

}  // namespace trapline
