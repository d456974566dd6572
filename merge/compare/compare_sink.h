// A sink that counts exits, or what CompareRows names, by row for a comparison.
#pragma once

#include <string>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/compare/compare.h"
#include "merge/report/dimensions.h"
#include "merge/report/grouping.h"

namespace trapline {

class CompareSink : public SpanSink {
 public:
  // Further rows are one row, "[other]".
  static constexpr std::size_t kMostRows = 256;

  // Borrows the dimensions.
  CompareSink(const std::vector<Dimension>& by, CompareRows rows);

  [[nodiscard]] SpanClass selects() const override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  void call(const FunctionCall& call, const Pipeline& pipeline) override;
  void interrupt(const IrqSpan& interrupt, const Pipeline& pipeline) override;
  void request(const RequestSpan& request, const Pipeline& pipeline) override;

  // Returns the run; call it once, after Pipeline::finish().
  [[nodiscard]] Recorded take(const Naming& names);

 private:
  void add(const GroupKey& key, Timestamp begin, Timestamp end);
  [[nodiscard]] std::string text_of(const GroupKey& key, const Naming& names) const;
  void describe(Recorded& recorded, const Naming& names) const;

  ExitKeys keys_;
  CompareRows what_;
  bool needs_waits_;
  bool counts_something_ = false;
  std::uint64_t calls_guest_ns_ = 0;
  Grouping<ExitGroup> rows_;
};

}  // namespace trapline
