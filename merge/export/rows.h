// One row for each exit, request, interrupt or guest function call, as JSON lines or CSV, for
// engines that hold a fleet. docs/formats/rows.md has the columns; `rows_version` grows when one
// changes its meaning.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "merge/export/exporter.h"

namespace trapline {

inline constexpr int kRowsVersion = 1;

enum class RowForm : std::uint8_t { kJsonl, kCsv };

// Writes a row's fields in the order of the columns.
class RowWriter {
 public:
  RowWriter(RowForm form, OutputFile output) : form_(form), output_(std::move(output)) {}

  // The first row of a CSV file.
  void header(const std::vector<std::string_view>& columns);
  void begin() { text_ = form_ == RowForm::kJsonl ? "{" : ""; }
  void number(std::string_view column, std::uint64_t value);
  void signed_number(std::string_view column, std::int64_t value);
  void hex(std::string_view column, std::uint64_t value);
  void nothing(std::string_view column);  // null, or an empty cell
  // `quoted` is what quote() made of a text.
  void text(std::string_view column, std::string_view quoted);
  void end();

  [[nodiscard]] std::string quote(std::string_view text) const;
  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] bool failed() const { return output_.failed(); }
  [[nodiscard]] Result<void> finish() { return output_.commit(); }

 private:
  void name(std::string_view column);
  RowForm form_;
  OutputFile output_;
  std::string text_;
  bool first_ = true;
  std::uint64_t rows_ = 0;
};

class RowExporter : public Exporter {
 public:
  enum class Rows : std::uint8_t { kExits, kRequests, kInterrupts, kFunctions };
  RowExporter(const ExportContext& context, const ExportOptions& options, Rows rows, RowForm form,
              OutputFile output);

  [[nodiscard]] SpanClass selects() const override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  void span(const Span& span, const Pipeline& pipeline) override;
  [[nodiscard]] Result<void> finish(const Pipeline& pipeline) override;
  [[nodiscard]] bool failed() const override { return writer_.failed(); }
  [[nodiscard]] std::uint64_t written() const override { return writer_.rows(); }

 private:
  void labels();
  void place(ThreadId thread, std::int32_t vcpu, const Pipeline& pipeline);
  // Quoted texts, made once: of names, of reasons, of stacks.
  [[nodiscard]] const std::string& name(NameId id, const Pipeline& pipeline);
  [[nodiscard]] const std::string& reason(const ExitSpan& exit);
  [[nodiscard]] const std::string& stack(StackId id, const Pipeline& pipeline);

  const ExportContext context_;
  Rows rows_;
  RowWriter writer_;
  std::string host_, session_, none_;
  std::vector<std::string> names_, stacks_;
  std::unordered_map<std::uint64_t, std::string> reasons_;
};

}  // namespace trapline
