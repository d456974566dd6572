// explain --guest-span, report --by guest-span: intervals that a guest recorded (GuestIntervals),
// summed by what its host did in them and by their values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "merge/analyze/guest_intervals.h"
#include "merge/explain/explain.h"

namespace trapline {

struct ExplainedSpan {
  std::uint64_t start_ns = 0;
  ExplainNode tree;      // the interval, its parts, and who kept the vCPU waiting
  std::string sentence;  // says the largest cause
  std::string advice, source;
};

// The intervals with one value: of an interrupt line or of a task.
struct GuestSpanGroup {
  std::string key;  // "irq=24"; empty: the intervals have no value
  Histogram all;
  ExplainNode tree;
};

struct GuestSpansExplained {
  Report begun;  // head, sources and notes
  std::string spec;
  Histogram all;                       // durations of the intervals
  ExplainNode tree;                    // sum of all intervals
  std::vector<ExplainedSpan> worst;    // the longest first
  std::vector<GuestSpanGroup> groups;  // the groups with most time first
  GuestIntervals::Counters counters;
  std::uint64_t open = 0;           // intervals that never ended
  std::vector<std::string> clocks;  // "guest.dat: ± 812 ns, by …"
};

class GuestSpans : public SpanSink {
 public:
  static constexpr std::size_t kMostGroups = 4096;  // further ones are one group, "[other]"

  explicit GuestSpans(std::size_t worst) : most_(worst) {}
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kGuestIntervals; }
  void guest_interval(const GuestInterval& interval, const Pipeline& pipeline) override;

  // Returns the result for all intervals, after the pipeline has finished.
  [[nodiscard]] GuestSpansExplained explain(const Naming& names);

 private:
  // The sums by part of the time and culprit. Besides each Part, kParts stands for the guest's
  // time, and kParts + 1 for time that is not known.
  struct Sum {
    std::uint64_t ns = 0, count = 0;
  };
  using Sums = std::map<std::pair<std::size_t, Culprit>, Sum>;
  struct Group {
    Histogram all;
    Sums sums;
  };
  [[nodiscard]] static Sums sums_of(const GuestInterval& interval);
  [[nodiscard]] static ExplainNode tree(const Sums& sums, const Naming& names);
  [[nodiscard]] ExplainedSpan explained(const GuestInterval& interval, const Naming& names) const;

  std::size_t most_;
  Sums sums_;
  std::map<std::string, Group> groups_;
  std::vector<GuestInterval> worst_;
  GuestSpansExplained result_;
};

// Returns "guest.dat: ± 812 ns, by …" for each recording made in a guest.
[[nodiscard]] std::vector<std::string> guest_clocks(const Timeline& timeline);

// Returns an Error after the pass if no interval was found; it says which recording is missing.
[[nodiscard]] Result<void> check_guest_intervals(const PassEnd& pass);

// Summarises PassOptions::guest_intervals. Errors: those of run_explain; no interval.
[[nodiscard]] Result<GuestSpansExplained> run_guest_spans(const PassOptions& what,
                                                          std::size_t worst,
                                                          const Progress& progress);

// Makes the report of explain --guest-span; borrows the spans.
[[nodiscard]] Report make_report(const GuestSpansExplained& spans);
// Makes the report of report --by guest-span: a row for the intervals of each value, then who kept
// the vCPUs waiting in all of them. `top`: text has only so many rows; 0: all. Borrows the spans.
[[nodiscard]] Report make_span_report(const GuestSpansExplained& spans, std::size_t top);
// Returns the page's tables: the first `most` rows with the figures of all, who kept the vCPUs
// waiting, and the longest intervals. Their times count from `start`.
[[nodiscard]] std::vector<Table> page_tables(const GuestSpansExplained& spans, std::size_t most,
                                             std::uint64_t start);

}  // namespace trapline
