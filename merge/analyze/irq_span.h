// One interrupt that was handed to a guest, and which events of interrupts a recording holds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "merge/model/event.h"

namespace trapline {

// Times that were not seen are absent.
struct IrqSpan {
  enum class Origin : std::uint8_t { kLine, kMsi, kLocal };
  Origin origin = Origin::kLocal;
  std::uint32_t pin = 0;  // kLine
  std::uint32_t vector = kNoVector;
  Timestamp raised;
  std::optional<Timestamp> injected, entered, ended;
};

// How many events of each IrqStep came.
using IrqStepCounts = std::array<std::uint64_t, static_cast<std::size_t>(IrqStep::kPicEnd) + 1>;

}  // namespace trapline
