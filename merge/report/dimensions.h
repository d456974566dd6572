// The dimensions by which exits are grouped, as --by names them, and the key of a group.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"

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
// "reason, detail, ...": what parse_dimensions() takes.
[[nodiscard]] std::string dimension_names();

// What an exit is in each dimension; a detail takes two words.
struct GroupKey {
  static constexpr std::size_t kWords = static_cast<std::size_t>(Dimension::kCount) + 1;
  std::array<std::uint64_t, kWords> words{};
  bool halted = false;  // of halts, which are one row where the reason is not asked for
  friend bool operator==(const GroupKey&, const GroupKey&) = default;
};

}  // namespace trapline
