// trapline stalls: the longest times in which a vCPU, or a whole VM, made no progress, and why.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "merge/analyze/stall_tracker.h"
#include "merge/pass/naming.h"
#include "merge/pass/pass.h"
#include "merge/report/table.h"

namespace trapline {

// The length of a stall from which a guest, or its peer, notices it, and where that is documented.
struct StallLimit {
  std::uint64_t ns = 0;
  std::string_view what, source;
};

struct StallRow {
  struct Cause {
    std::string_view key;    // key in docs/formats/report.md: "preempted"
    std::string culprit;     // empty: none
    std::string_view phase;  // "reclaim", "compaction": for memory; empty: none
    std::string text;        // "the host's kernel worked for it"
    std::uint64_t ns = 0;
  };
  Stall stall;
  std::string name;         // "vCPU 0", "4 vCPUs"
  std::string vm, vm_name;  // empty: not known; the VM has no name
  std::int32_t vcpu = kNoVcpu;
  std::string exit;  // the longest exit: "npf, page-fault 0x1000"; empty: the stall was not an exit
  std::uint64_t guest_ns = 0;
  bool knows_guest = true, knows_user = true;
  std::vector<Cause> causes;       // the largest first; they sum to the stall
  std::vector<StallLimit> limits;  // limits that the stall exceeds
};

// A halt that lasts until the end. It is no stall: nothing shows that it should have ended.
struct OpenHalt {
  std::string vcpu;
  std::uint64_t ns = 0;
};

struct StallsFound {
  Report begun;  // head, sources and notes
  std::uint64_t at_least_ns = 0;
  std::string recording;       // words for a shell; empty: the recording cannot be read again
  std::vector<StallRow> rows;  // the longest first
  std::uint64_t count = 0, total_ns = 0;  // number and length of all stalls, listed or not
  std::vector<OpenHalt> open_halts;
};

// Keeps the longest stalls.
class LongestStalls : public SpanSink {
 public:
  static constexpr std::size_t kMost = 10'000;
  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kStalls | SpanClass::kExits;
  }
  void stall(const Stall& stall, const Pipeline&) override;
  // Returns the `top` longest stalls; call it after the pass. A vCPU's stall inside a stall of its
  // whole VM is not listed separately.
  [[nodiscard]] StallsFound found(const Naming& names, std::size_t top) const;

 private:
  std::vector<Stall> kept_;
  std::uint64_t left_out_ = 0, left_out_ns_ = 0;
};

// Finds stalls that last at least PassOptions::stalls_ns. Errors: those of Pass::read; no exits; no
// durations; times in cycles.
[[nodiscard]] Result<StallsFound> run_stalls(const PassOptions& what, std::size_t top,
                                             const Progress& progress);

// Returns the table of the stalls. Borrows the rows.
[[nodiscard]] Table stall_table(const StallsFound& found);
[[nodiscard]] Report make_report(const StallsFound& found);

}  // namespace trapline
