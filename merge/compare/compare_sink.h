// A sink that counts exits, or what CompareRows says, by row, for a comparison.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/compare/compare.h"
#include "merge/report/exit_keys.h"

namespace trapline {

class CompareSink : public SpanSink {
 public:
  // Rows beyond this many are one, "[other]".
  static constexpr std::size_t kMostRows = 256;

  // Borrows the dimensions for as long as it lives.
  CompareSink(const std::vector<Dimension>& by, CompareRows rows);

  [[nodiscard]] SpanClass selects() const override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  void call(const FunctionCall& call, const Pipeline& pipeline) override;
  void interrupt(const IrqSpan& interrupt, const Pipeline& pipeline) override;
  void request(const RequestSpan& request, const Pipeline& pipeline) override;

  // Call once, after Pipeline::finish().
  [[nodiscard]] Recorded take(const Naming& names);

 private:
  struct Row {
    GroupKey key;
    RecordedRow recorded;
  };
  [[nodiscard]] std::size_t row_of(const GroupKey& key);
  void add(const GroupKey& key, Timestamp begin, Timestamp end);
  [[nodiscard]] std::string text_of(const GroupKey& key, const Naming& names) const;
  void describe(Recorded& recorded, const Naming& names) const;

  ExitKeys keys_;
  CompareRows what_;
  bool needs_waits_;
  bool counts_something_ = false;
  std::uint64_t calls_guest_ns_ = 0;
  std::vector<Row> rows_;  // the one at kMostRows is [other]
  struct Less {
    bool operator()(const GroupKey& a, const GroupKey& b) const { return a.words < b.words; }
  };
  std::map<GroupKey, std::size_t, Less> numbers_;
  std::size_t last_ = 0;  // row of the last exit: exits come in runs
};

}  // namespace trapline
