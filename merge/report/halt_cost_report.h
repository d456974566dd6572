// What --halt reports beside how halts ended: plain data. docs/formats/report.md, "Halts".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "merge/analyze/halts.h"
#include "merge/pass/naming.h"

namespace trapline {

struct HaltCostRow {
  std::int32_t vcpu = kNoVcpu;
  std::string vm, vm_name;

  // How much of its exits, those that ended, and of its time the guest was idle.
  std::uint64_t exits = 0, halt_exits = 0, halted_ns = 0;
  std::uint64_t time_ns = 0;  // of the vCPU

  // What polling cost. Of the bounded halts it is the most that it can have been; of the unknown
  // ones nothing is in polling_ns.
  std::uint64_t polling_ns = 0, halts_bounded = 0, halts_unknown = 0;

  // The halts under other values of halt_poll_ns.
  std::uint64_t halts = 0;          // that were replayed
  std::uint64_t wakes_unknown = 0;  // sleeps that were not
  std::uint64_t late_ns = 0;        // of the replayed ones, as recorded
  bool halves = false, saw_shrinking = false;
  HaltReplays::Rows replay{};
};

// Of the vCPUs that count, in order of VM and vCPU.
[[nodiscard]] std::vector<HaltCostRow> halt_cost_rows(const Naming& names);

}  // namespace trapline
