// The combinations of values that exits had (reason, detail, device, QEMU event, stack, vCPU),
// numbered in the order in which they came.
#pragma once

#include <cstdint>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/report/exit_keys.h"
#include "merge/report/keyed_rows.h"

namespace trapline::page {

class Combos {
 public:
  static constexpr std::size_t kMost = 4096;
  // The number of the exits that are beyond the first kMost combinations.
  static constexpr std::uint32_t kOther = kMost;

  Combos();

  // The dimensions of a combination, in the order of its key's words; a detail takes two.
  [[nodiscard]] static const std::vector<Dimension>& dimensions();
  // Page faults are one value: there are as many addresses as the guest has pages.
  [[nodiscard]] std::uint32_t of(const ExitSpan& exit, StackId stack, const GuestStacks& stacks);
  struct Combo {
    GroupKey key;
  };
  [[nodiscard]] const std::vector<Combo>& combos() const { return combos_.rows(); }

 private:
  ExitKeys keys_;
  KeyedRows<Combo> combos_;
};

}  // namespace trapline::page
