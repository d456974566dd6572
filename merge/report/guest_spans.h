// explain --guest-span, report --by guest-span: intervals that a guest recorded, and what its host
// did in each of them.
//
//   guest     sched_waking pid 12 ─────────────────────────────> sched_switch next_pid 12
//   its vCPU  guest │ kernel │ preempted by qemu (tid 7) │ kernel │ guest
//
// The host's time is that of the vCPU on which the interval ended. It is placed on the host's clock
// by the guest's alignment, whose error bound the result prints: the interval's ends may be off by
// that, its parts still sum to it.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "merge/report/explain.h"
#include "merge/report/guest_interval.h"

namespace trapline {

// START[:FIELD]..END[:FIELD] of the guest kernel's events, function:NAME, or marker:TEXT.
struct GuestSpanSpec {
  std::string text;
  std::string start, start_field, end, end_field;
  std::string function;  // a guest function's calls; the others are empty
  // Intervals that end at a marker with this text, as long as the first number after it says: µs,
  // or with a unit (ns, us, ms, s).
  std::string marker;
};
[[nodiscard]] Result<GuestSpanSpec> parse_guest_span(std::string_view text);
// The length that a marker tells after that text; nothing where it has no number there.
[[nodiscard]] std::optional<std::uint64_t> told_length(std::string_view marker,
                                                       std::string_view text);

struct ExplainedSpan {
  std::uint64_t start_ns = 0;
  ExplainNode tree;      // the interval, its parts, and who kept the vCPU waiting
  std::string sentence;  // the largest cause
  std::string advice, source;
};

// The intervals of one value: of an interrupt line, of a task.
struct GuestSpanGroup {
  std::string key;  // "irq=24"; empty: they have no value
  Histogram all;
  ExplainNode tree;
};

struct GuestSpansExplained {
  std::string spec;
  Histogram all;                       // of the intervals
  ExplainNode tree;                    // of all of them
  std::vector<ExplainedSpan> worst;    // the longest first
  std::vector<GuestSpanGroup> groups;  // those that took most time first
  std::uint64_t restarted = 0, end_only = 0, open = 0, unplaced = 0;
  std::vector<std::string> clocks;  // "guest.dat: ± 812 ns, by …"
  std::vector<std::string> notes;
};

class GuestSpans : public SpanSink {
 public:
  static constexpr std::size_t kMostOpen = 1u << 16, kMostPending = 1u << 14;
  static constexpr std::size_t kMostGroups = 4096;  // further ones are one, "[other]"

  GuestSpans(const Timeline& timeline, GuestSpanSpec spec, std::size_t worst);
  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kEvents | SpanClass::kGuestEvents | SpanClass::kExits | SpanClass::kWaits;
  }
  void event(const Event& event, const Pipeline& pipeline) override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;

  // Also to be told of each interval; borrowed.
  void tell(GuestSpanTaker* taker) { taker_ = taker; }

  // Once the pipeline has finished: takes what waited for its vCPU's next events.
  void flush(const Pipeline& pipeline);
  // The same, and what came of all of them.
  [[nodiscard]] GuestSpansExplained explain(const Pipeline& pipeline);
  // After flush(): an Error where no interval was found; says which recording is missing.
  [[nodiscard]] Result<void> check_found() const;

 private:
  using Interval = GuestInterval;
  // Sums by part (kParts: the guest, kParts + 1: not known) and culprit.
  struct Sum {
    std::uint64_t ns = 0, count = 0;
  };
  using Sums = std::map<std::pair<std::size_t, Culprit>, Sum>;
  struct Group {
    Histogram all;
    Sums sums;
  };
  using Key = std::tuple<MachineId, std::int64_t, std::string>;

  void on_guest(const Event& event);
  void on_call(const Event& event, const GuestCall& call);
  void on_marker(const Event& event, std::string_view text);
  void begin_span(Key key, Timestamp at);
  void end(const Key& key, const Event& event, std::string what);
  void take(Interval interval);
  void settle(ThreadId thread);
  void finish(Interval interval);
  [[nodiscard]] static Sums sums_of(const Interval& interval);
  [[nodiscard]] static ExplainNode tree(const Sums& sums, const CulpritNames& names);
  [[nodiscard]] ExplainedSpan explained(const Interval& interval, const CulpritNames& names) const;
  [[nodiscard]] bool is(const Event& event, const std::string& wanted) const;

  const Timeline& timeline_;
  GuestSpanSpec spec_;
  std::size_t most_;
  GuestSpanTaker* taker_ = nullptr;
  const Pipeline* pipeline_ = nullptr;  // that told last
  VcpuHistory history_;
  std::map<Key, Timestamp> open_;
  std::map<ThreadId, std::deque<Interval>> pending_;  // until their vCPU is known up to their end
  Sums sums_;
  std::map<std::string, Group> groups_;
  std::vector<Interval> worst_;
  GuestSpansExplained result_;
};

// "guest.dat: ± 812 ns, by …", of each recording made in a guest.
[[nodiscard]] std::vector<std::string> guest_clocks(const Timeline& timeline);

// Errors: those of run_explain; no events of a guest; no interval (says which of its events came).
[[nodiscard]] Result<GuestSpansExplained> run_guest_spans(const InputOptions& input,
                                                          const GuestSpanSpec& spec,
                                                          std::size_t worst,
                                                          const Progress& progress);

}  // namespace trapline
