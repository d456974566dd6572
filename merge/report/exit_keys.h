// An exit's key in the dimensions of --by, and the key's text. A new dimension is a case in both.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "merge/analyze/guest_stacks.h"
#include "merge/analyze/kernel_tracker.h"
#include "merge/model/exit_span.h"
#include "merge/pass/naming.h"
#include "merge/report/dimensions.h"

namespace trapline {

class ExitKeys {
 public:
  // Borrows the dimensions for as long as it lives.
  explicit ExitKeys(const std::vector<Dimension>& dimensions)
      : dimensions_(dimensions),
        by_reason_(has(Dimension::kReason)),
        only_reason_(by_reason_ && dimensions.size() == 1) {}

  // The words of a key that are used.
  [[nodiscard]] std::size_t words() const;
  [[nodiscard]] bool has(Dimension dimension) const;
  [[nodiscard]] bool needs_stack() const {
    return has(Dimension::kFunction) || has(Dimension::kStack);
  }

  [[nodiscard]] bool needs_waits() const {
    return has(Dimension::kPreemptedBy) || has(Dimension::kBlockedOn);
  }

  [[nodiscard]] bool needs_kernel() const { return has(Dimension::kKernelFunction); }

  // `waits` and `kernel` are the exit's, where needs_waits(), needs_kernel(). Valid until the next
  // call.
  [[nodiscard]] const GroupKey& of(const ExitSpan& span, StackId stack, const GuestStacks& stacks,
                                   std::span<const WaitShare> waits = {},
                                   const KernelTracker* kernel = nullptr);
  // The key of all halts, where they are one row: there is no reason among the dimensions.
  [[nodiscard]] const GroupKey* halted_row(bool halt) const {
    static constexpr GroupKey kRow{{}, true};
    return halt && !by_reason_ ? &kRow : nullptr;
  }
  // Of a call: check_dimensions_of_calls().
  [[nodiscard]] const GroupKey& of(const FunctionCall& call, const GuestStacks& stacks);
  // The device of calls that accessed more than one.
  static constexpr std::uint64_t kSeveralDevices = ~std::uint64_t{0};
  // "io / rtc"
  [[nodiscard]] std::string text(const GroupKey& key, const Naming& names) const;

 private:
  const std::vector<Dimension>& dimensions_;
  bool by_reason_, only_reason_;
  GroupKey key_;  // the same words each time; the others stay 0
};

}  // namespace trapline
