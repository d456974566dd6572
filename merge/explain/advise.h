// trapline advise: how much of the vCPUs' busy time changes of the host, QEMU or the guest would
// gain.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "merge/analyze/halts.h"
#include "merge/analyze/span_sink.h"
#include "merge/explain/remedies.h"
#include "merge/model/histogram.h"
#include "merge/pass/naming.h"
#include "merge/pass/pass.h"
#include "merge/report/host_roles.h"
#include "merge/report/table.h"

namespace trapline {

// A change for one VM. Times are sums over all its vCPUs.
struct AdviceRow {
  RemedyId id = RemedyId::kNone;
  std::string vm, vm_name;  // empty: not known; the VM has no name
  std::string cause, change;
  std::string rests_on;
  std::uint64_t count = 0;                          // exits, waits or halts
  std::uint64_t cost_ns = 0;                        // cost in the recording
  std::uint64_t gain_low_ns = 0, gain_high_ns = 0;  // both 0: not validated
  std::uint64_t busy_ns = 0;                        // of all vCPUs; the denominator of shares
  // For a gain in the host's CPU time, not in busy time: the time saved (host_low_ns 0: only the
  // maximum is known), and the recording's length, of which that time is a share.
  std::uint64_t host_low_ns = 0, host_high_ns = 0, interval_ns = 0;
  bool quota_possible = false;  // a CPU quota may have caused the waits
};

struct Advice {
  Report begun;  // head, sources and notes
  Overhead busy;
  std::vector<AdviceRow> rows;           // with a figure, the largest gain first
  std::vector<AdviceRow> of_host;        // gains in the host's CPU time, the largest first
  std::vector<AdviceRow> not_validated;  // the largest cost first
  std::vector<std::string> finding;      // three sentences
  std::vector<std::string> record;       // what the recording cannot show, a line each
};

// Sums exits by the change that concerns them, and waits by their culprit.
class AdviceSink : public SpanSink {
 public:
  // `no_quota`: the user states that no CPU quota limits the vCPUs.
  explicit AdviceSink(bool no_quota) : no_quota_(no_quota) {}

  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kExits | SpanClass::kWaits | SpanClass::kHalts | SpanClass::kHostRuns |
           SpanClass::kFaults;
  }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  void unended(const UnendedExit& unended, const Pipeline& pipeline) override {
    exit(unended.span, pipeline);
  }
  // Returns the advice; call it after the pass.
  [[nodiscard]] Advice advice(const Naming& names) const;

 private:
  static constexpr std::array<std::uint64_t, 2> kDebugPorts = {0x402, 0xe9};
  static constexpr std::size_t kMostThreads = 1u << 16, kMostRanges = 1u << 20,
                               kMostCulprits = 1u << 14;
  struct Sum {
    std::uint64_t exits = 0, cost = 0, beyond_kernel = 0, between = 0;
    std::uint64_t rows = 0;          // series of consecutive exits
    std::uint64_t first_faults = 0;  // kPages: first faults in a range of 2 MiB
    std::uint64_t first_cost = 0;
    std::uint64_t doubtful_cost = 0;  // kPages: of faults that a larger page may not end
    // kDebugPort: a bit for each of kDebugPorts; whether a device may answer at the port.
    std::uint8_t ports = 0;
    bool answered = false;
    void add(const Sum& other);
  };
  struct Thread {
    std::array<Sum, kRemedies> sums{};
    RemedyId last = RemedyId::kNone;
    Timestamp last_end;
    std::uint64_t sleeps_waited = 0;  // preempted time in halts in which the vCPU slept
    std::uint64_t to_user = 0;        // cost of exits to the VMM
    // The number of sleeps in halts that a timer ended, the sum of the times from their ends to the
    // vCPU's next sleep, and the end of the last sleep if a timer ended it.
    std::uint64_t timers = 0, timers_ns = 0;
    std::optional<Timestamp> by_timer;
    // Cost of exits without a device; of faults without an address.
    std::uint64_t unnamed = 0, unnamed_faults = 0;
  };
  struct Wait {
    std::uint64_t ns = 0, count = 0;
    std::uint64_t switches = 0;  // cost of exits that did nothing but wait
  };
  struct Waiting {
    ThreadId thread{};
    Part part = Part::kPreempted;
    bool iothread = false;  // in an exit of a device that can have an iothread
    Culprit culprit;
    friend auto operator<=>(const Waiting&, const Waiting&) = default;
  };
  struct Gain {
    std::uint64_t low = 0, high = 0;
    bool quota_possible = false;  // a CPU quota may have taken the time that is gained
  };
  struct Found;
  [[nodiscard]] Gain gain_of(RemedyId id, const Sum& sum) const;
  [[nodiscard]] std::string rests_on(RemedyId id, const Sum& sum, std::string_view user) const;
  [[nodiscard]] static std::string change_of(RemedyId id, const Sum& sum);
  [[nodiscard]] RemedyId change(const ExitSpan& exit, Thread& thread, const Pipeline& pipeline);
  void add_fault(const ExitSpan& exit, Sum& sum, const Pipeline& pipeline);
  static void add_port(const ExitSpan& exit, Sum& sum, const Pipeline& pipeline);
  void add_waits(const ExitSpan& exit, const Pipeline& pipeline);
  void find_exits(Found& found) const;
  void find_waits(Found& found) const;
  void find_halts(Found& found) const;
  void find_line(Found& found, const HostThread& loop) const;
  void find_of_host(Found& found) const;
  void find_missing(Found& found) const;

  ThreadTable<Thread> threads_;
  std::vector<std::uint8_t> by_device_;  // by NameId: RemedyId + 1; 0: not looked up yet
  std::set<std::pair<ThreadId, std::uint64_t>> ranges_;  // by process: ranges of 2 MiB with a fault
  std::map<Waiting, Wait> waits_;
  bool no_quota_;
  Histogram runs_;  // durations of the guest's runs between two exits
};

// Makes the advice for a recording. Errors: those of Pass::read; no exits; no durations; times in
// cycles.
[[nodiscard]] Result<Advice> run_advise(const PassOptions& what, bool no_quota,
                                        const Progress& progress);

// Returns "0.096 to 0.107 CPUs of the host", for a row that has such a gain.
[[nodiscard]] std::string host_text(const AdviceRow& row);

// Makes the report of the advice, which the report borrows.
[[nodiscard]] Report make_report(const Advice& advice);

}  // namespace trapline
