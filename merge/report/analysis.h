// From events to a Report: the correlators, the groups and the filters of one pass.
#pragma once

#include <memory>
#include <optional>
#include <set>

#include "merge/correlate/exit_tracker.h"
#include "merge/correlate/guest_stacks.h"
#include "merge/correlate/halt_tracker.h"
#include "merge/correlate/irq_tracker.h"
#include "merge/correlate/processes.h"
#include "merge/correlate/request_path.h"
#include "merge/correlate/request_spans.h"
#include "merge/input.h"
#include "merge/report/groups.h"
#include "merge/report/report.h"
#include "merge/timeline.h"

namespace trapline {

// A point in time as users give it: on the recording's clock, or "+" from its first event.
struct TimeSpec {
  std::uint64_t ns = 0;
  bool relative = false;
  [[nodiscard]] Timestamp resolve(Timestamp first) const {
    return Timestamp(relative ? first.ns() + ns : ns);
  }
};
[[nodiscard]] Result<TimeSpec> parse_time_spec(std::string_view option, std::string_view text);

enum class SortBy : std::uint8_t { kTotal, kCount, kMean, kMax, kP99, kKey };
[[nodiscard]] Result<SortBy> parse_sort(std::string_view text);

struct ReportOptions {
  std::vector<Dimension> by = {Dimension::kReason};
  std::string by_text = "reason";
  SortBy sort = SortBy::kTotal;
  std::size_t top = 0;  // 0: all
  std::optional<std::uint64_t> slower_than;
  // --by span: requests instead of exits; empty specs: those QEMU's own devices trace.
  bool requests = false;
  std::vector<RequestSpec> request_specs;
  bool irq = false, halt = false, guest = false;
  std::optional<TimeSpec> from, to;
  // The vCPU threads that count; empty: all.
  std::optional<std::set<ThreadId>> threads;
};

class Analysis {
 public:
  // Exits that --slower-than lists at most; of more, the slowest.
  static constexpr std::size_t kMostSlowExits = 20'000;

  // Borrows all three for as long as it lives.
  Analysis(const Timeline& timeline, const Input& input, const ReportOptions& options);

  // False when the event lies behind --to: nothing more is needed.
  [[nodiscard]] bool on(const Event& event);
  // Call once, after the last event.
  [[nodiscard]] Report finish();

 private:
  struct SlowExit {
    ExitSpan span;
    NameId function;
    std::size_t order;  // in which it ended
  };
  void take(const ExitSpan& span);
  void take_irq(const IrqSpan& span);
  void on_request(const Event& event);
  void report_requests(Report& report);
  void keep_slow(const ExitSpan& span, NameId function);
  [[nodiscard]] bool on_guest(const Event& event);
  [[nodiscard]] StackId stack_of(const ExitSpan& span);
  [[nodiscard]] GroupKey key_of(const ExitSpan& span, StackId stack) const;
  [[nodiscard]] std::string text_of(const GroupKey& key) const;
  [[nodiscard]] std::string vcpu_text(ThreadId thread, bool with_vm) const;
  [[nodiscard]] std::string vm_of(ThreadId thread) const;
  [[nodiscard]] bool counts(ThreadId thread) const {
    return !options_.threads || options_.threads->contains(thread);
  }
  void find_interval(Report& report) const;
  void report_sources(Report& report) const;
  void report_vcpus(Report& report);
  void report_groups(Report& report);
  void report_qemu_events(Report& report) const;
  void report_slow_exits(Report& report);
  void report_irqs(Report& report);
  void report_halts(Report& report);
  void report_guest(Report& report);
  void report_notes(Report& report) const;

  const Timeline& timeline_;
  const Input& input_;
  const ReportOptions& options_;
  Names names_;
  QemuEventReader reader_;
  ExitModel model_;
  ExitTracker tracker_;
  Processes processes_;
  Groups groups_;
  GuestStacks stacks_;
  std::vector<NameId> symbol_names_;  // by symbol, made when first needed
  bool has_guest_ = false;            // a source holds guest records
  bool needs_stack_ = false;
  std::optional<Timestamp> first_;  // of the recording; from it --from and --to count
  std::optional<Timestamp> start_;
  Timestamp end_, from_, to_;
  std::vector<SlowExit> slow_;  // a heap with the fastest in front once it is full
  std::uint64_t slow_left_out_ = 0;
  RequestSpans requests_;
  RequestPath request_path_;
  std::vector<GroupRow> request_rows_;         // by spec
  std::vector<RequestPathRow> request_paths_;  // by spec
  IrqTracker irq_;
  std::map<std::tuple<std::uint32_t, IrqSpan::Origin, std::uint32_t>, IrqRow> irq_rows_;
  HaltTracker halt_;
  std::map<ThreadId, std::size_t> vcpu_index_;  // into vcpu_threads_ and vms_, once finished
  std::vector<VcpuThread> vcpu_threads_;
  std::vector<Vm> vms_;
  std::size_t vm_count_ = 0;
};

// The words of a key that a dimension takes.
[[nodiscard]] constexpr std::size_t words_of(Dimension dimension) {
  return dimension == Dimension::kDetail ? 2 : 1;
}

}  // namespace trapline
