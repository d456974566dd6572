// The dimensions by which exits are grouped, as --by names them; an exit's key in them, and the
// key's text. A new dimension is a case in both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/analyze/guest_stacks.h"
#include "merge/analyze/kernel_tracker.h"
#include "merge/model/exit_span.h"
#include "merge/pass/naming.h"

namespace trapline {

enum class Dimension : std::uint8_t {
  kReason,
  kDetail,
  kDevice,
  kVmmEvent,
  kFunction,
  kStack,
  kVcpu,
  kVm,
  kCpu,
  kNested,
  kPreemptedBy,
  kBlockedOn,
  kKernelFunction,
  kCount  // of them
};

// "reason,device"; an Error names what is unknown and what there is: the dimensions, and `alone`,
// which the command takes in their place ("span").
[[nodiscard]] Result<std::vector<Dimension>> parse_dimensions(std::string_view text,
                                                              std::string_view alone = {});

// An Error names the one that only exits have.
[[nodiscard]] Result<void> check_dimensions_of_calls(const std::vector<Dimension>& dimensions);
// As --by names it.
[[nodiscard]] std::string_view name_of(Dimension dimension);
// "reason, detail, ...": what parse_dimensions() takes.
[[nodiscard]] std::string dimension_names();

// What an exit is in each dimension; a detail takes two words.
struct GroupKey {
  static constexpr std::size_t kWords = static_cast<std::size_t>(Dimension::kCount) + 1;
  std::array<std::uint64_t, kWords> words{};
  bool halted = false;  // of halts, which are one row where the reason is not asked for
  friend bool operator==(const GroupKey&, const GroupKey&) = default;
};

// An exit's key in the dimensions of --by, and the key's text. A new dimension is a case in both.

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
