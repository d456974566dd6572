// What rows of every kind have in common: the labels in front, the reasons' texts, the wall clock
// and the host's boot.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "merge/export/exporter.h"
#include "merge/export/row_writer.h"

namespace trapline {

// Grows when a column changes its meaning.
inline constexpr int kRowsVersion = 2;

// The first columns of every row.
inline constexpr std::string_view kLabelColumns[] = {"rows_version", "host", "session"};

class RowLabels {
 public:
  RowLabels(const ExportContext& context, const ExportOptions& options, const RowWriter& writer);

  [[nodiscard]] const std::string& cells() const { return cells_; }  // of kLabelColumns
  [[nodiscard]] const std::string& boot() const { return boot_; }    // quoted, or null
  // The quoted text of an exit's reason.
  [[nodiscard]] const std::string& reason(const ExitSpan& exit);

 private:
  const Timeline& timeline_;
  const RowWriter& writer_;
  std::string cells_, boot_;
  std::unordered_map<std::uint64_t, std::string> reasons_;
};

}  // namespace trapline
