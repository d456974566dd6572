// The kernel's softirqs by their numbers, include/linux/interrupt.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace trapline {

// "softirq NET_RX", or with the number where the kernel has none of that number.
[[nodiscard]] inline std::string softirq_text(std::uint32_t number) {
  constexpr std::array<std::string_view, 10> kNames = {
      "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"};
  return "softirq " +
         (number < kNames.size() ? std::string(kNames[number]) : std::to_string(number));
}

}  // namespace trapline
