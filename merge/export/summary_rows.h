// A row for each window of time and group of exits (VM, reason, device): counts, sums, and the
// durations as a histogram. Rows of a group are merged by adding the counts of equal values: a host
// sends kilobytes, and percentiles over any hosts and times come from what is added.
#pragma once

#include <limits>
#include <map>
#include <string_view>
#include <tuple>

#include "merge/export/exporter.h"
#include "merge/export/row_labels.h"
#include "merge/model/histogram.h"

namespace trapline {

inline constexpr std::string_view kSummaryRows = "summary";

class SummaryExporter : public Exporter {
 public:
  SummaryExporter(const ExportContext& context, const ExportOptions& options, RowForm form,
                  OutputFile output);

  [[nodiscard]] SpanClass selects() const override { return SpanClass::kExits; }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  [[nodiscard]] Result<void> finish(const Naming& names) override;
  [[nodiscard]] bool failed() const override { return writer_.failed(); }

 private:
  // Of one window. More are [other], whose reason and device are null.
  static constexpr std::size_t kMostGroups = 4096;
  using Key = std::tuple<ThreadId, std::string_view, NameId>;  // VM, quoted reason, device
  // As Histogram holds them: a few values as they are, else the middles of its buckets.
  struct Group {
    void add(const ExitSpan& exit);
    std::uint64_t count = 0, total = 0, max = 0;
    std::uint64_t min = std::numeric_limits<std::uint64_t>::max();
    Parts parts{};
    bool halts = false;                             // all of them are
    std::map<std::uint64_t, std::uint64_t> values;  // with their counts
  };

  void write_window(const Pipeline& pipeline);
  void write_row(const Key& key, const Group& group, const Pipeline& pipeline);

  const ExportContext context_;
  std::uint64_t window_ns_;
  RowWriter writer_;
  RowLabels labels_;
  std::uint64_t window_ = 0;  // that is being filled, counted from the clock's 0
  std::map<Key, Group> groups_;
};

}  // namespace trapline
