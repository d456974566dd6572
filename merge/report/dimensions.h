// The dimensions of --by, by which exits are grouped, the key of an exit in them, and the text of a
// key. A new dimension needs a case for its key and one for its text.
#pragma once

#include <algorithm>
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
  kCount  // the number of dimensions
};

// Parses "reason,device". The Error names what is unknown, and what exists: the dimensions, and
// `alone`, which the command takes in their place ("span").
[[nodiscard]] Result<std::vector<Dimension>> parse_dimensions(std::string_view text,
                                                              std::string_view alone = {});

// Checks the dimensions of a report of calls. The Error names one that only exits have.
[[nodiscard]] Result<void> check_dimensions_of_calls(const std::vector<Dimension>& dimensions);
// Returns the dimension's name in --by.
[[nodiscard]] std::string_view name_of(Dimension dimension);
// Returns "reason, detail, ...": everything that parse_dimensions() accepts.
[[nodiscard]] std::string dimension_names();
// Returns a row's key with "not known", "no device" or "no wait" in place of "-". `by`: the key's
// dimensions.
[[nodiscard]] std::string shown_key(std::string_view key, std::string_view by);

// An exit's values in the dimensions; a detail takes two words.
struct GroupKey {
  static constexpr std::size_t kWords = static_cast<std::size_t>(Dimension::kCount) + 1;
  std::array<std::uint64_t, kWords> words{};
  bool halted = false;  // true for halts, which are one row if the reason is not a dimension
  friend bool operator==(const GroupKey&, const GroupKey&) = default;
};

// Makes an exit's key in the dimensions of --by, and the key's text.

class ExitKeys {
 public:
  explicit ExitKeys(std::vector<Dimension> dimensions)
      : dimensions_(std::move(dimensions)),
        by_reason_(has(Dimension::kReason)),
        only_reason_(by_reason_ && dimensions_.size() == 1) {}

  // Returns how many words of a key are used.
  [[nodiscard]] std::size_t words() const {
    return dimensions_.size() + (has(Dimension::kDetail) ? 1 : 0);
  }
  [[nodiscard]] bool has(Dimension dimension) const {
    return std::ranges::find(dimensions_, dimension) != dimensions_.end();
  }
  [[nodiscard]] bool needs_stack() const {
    return has(Dimension::kFunction) || has(Dimension::kStack);
  }

  [[nodiscard]] bool needs_waits() const {
    return has(Dimension::kPreemptedBy) || has(Dimension::kBlockedOn);
  }

  [[nodiscard]] bool needs_kernel() const { return has(Dimension::kKernelFunction); }

  // Returns an exit's key, valid until the next call. `waits` and `kernel` are the exit's; they are
  // needed if needs_waits() or needs_kernel() is true.
  [[nodiscard]] const GroupKey& of(const ExitSpan& span, StackId stack, const GuestStacks& stacks,
                                   std::span<const WaitShare> waits = {},
                                   const KernelTracker* kernel = nullptr) {
    if (!only_reason_) return of_several(span, stack, stacks, waits, kernel);
    key_.words[0] = packed(span.reason, span.source);
    return key_;
  }
  // Returns the key of a call; see check_dimensions_of_calls().
  [[nodiscard]] const GroupKey& of(const FunctionCall& call, const GuestStacks& stacks);
  // Returns the key that of() makes for the exits of `cell`. `cell` is a key in the dimensions
  // `all`, which contain these dimensions; kVcpu may be there for kVm, kStack for kFunction.
  [[nodiscard]] GroupKey part_of(const GroupKey& cell, const std::vector<Dimension>& all,
                                 const GuestStacks& stacks) const;
  // Stands for the device of calls that accessed more than one.
  static constexpr std::uint64_t kSeveralDevices = ~std::uint64_t{0};
  // Returns a text such as "io / rtc".
  [[nodiscard]] std::string text(const GroupKey& key, const Naming& names) const;

 private:
  // Returns the key of the one row that all halts share; nullptr if `halt` is false, or if the
  // reason is a dimension: halts then have rows by reason.
  [[nodiscard]] const GroupKey* halted_row(bool halt) const {
    static constexpr GroupKey kRow{{}, true};
    return halt && !by_reason_ ? &kRow : nullptr;
  }
  [[nodiscard]] const GroupKey& of_several(const ExitSpan& span, StackId stack,
                                           const GuestStacks& stacks,
                                           std::span<const WaitShare> waits,
                                           const KernelTracker* kernel);

  std::vector<Dimension> dimensions_;
  bool by_reason_, only_reason_;
  GroupKey key_;  // of() sets the same words each time; the others stay 0
};

}  // namespace trapline
