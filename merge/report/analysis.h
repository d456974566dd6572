// From events to a Report: the correlators, the tables and the filters of one pass.
#pragma once

#include <optional>
#include <vector>

#include "merge/analyze/exit_tracker.h"
#include "merge/analyze/guest_stacks.h"
#include "merge/analyze/halt_tracker.h"
#include "merge/analyze/kernel_threads.h"
#include "merge/model/processes.h"
#include "merge/report/exit_keys.h"
#include "merge/report/groups.h"
#include "merge/report/irq_table.h"
#include "merge/report/options.h"
#include "merge/report/report.h"
#include "merge/report/request_table.h"
#include "merge/report/slow_exits.h"
#include "merge/report/vcpu_names.h"
#include "merge/session/input.h"
#include "merge/source/timeline.h"

namespace trapline {

class Analysis {
 public:
  // Borrows all three for as long as it lives.
  Analysis(const Timeline& timeline, const Input& input, const ReportOptions& options);

  // False when the event lies behind --to: nothing more is needed.
  [[nodiscard]] bool on(const Event& event);
  // Call once, after the last event.
  [[nodiscard]] Report finish();

 private:
  void take(const ExitSpan& span);
  [[nodiscard]] bool on_guest(const Event& event);
  [[nodiscard]] StackId stack_of(const ExitSpan& span);
  [[nodiscard]] bool counts(ThreadId thread) const {
    return !options_.threads || options_.threads->contains(thread);
  }
  void find_interval(Report& report) const;
  void report_sources(Report& report) const;
  void report_vcpus(Report& report);
  void report_groups(Report& report);
  void report_qemu_events(Report& report) const;
  void report_halts(Report& report);
  void report_guest(Report& report) const;

  const Timeline& timeline_;
  const Input& input_;
  const ReportOptions& options_;
  Names names_;
  QemuEventReader reader_;
  ExitModel model_;
  ExitTracker tracker_;
  Processes processes_;
  WorkedFor worked_for_;  // of threads that raise interrupts
  GuestStacks stacks_;
  std::vector<NameId> symbol_names_;  // by symbol, made when first needed
  bool has_guest_ = false;            // a source holds guest records
  bool needs_stack_ = false;
  std::optional<Timestamp> first_;  // of the recording; from it --from and --to count
  std::optional<Timestamp> start_;
  Timestamp end_, from_, to_;
  ExitKeys keys_;
  Groups groups_;
  SlowExits slow_exits_;
  RequestTable requests_;
  IrqTable irqs_;
  HaltTracker halts_;
  VcpuNames vcpus_;  // once finished
};

}  // namespace trapline
