// Notices that no VM exit comes: once, when two intervals have gone by without one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backend_ftrace/base/saturated_sum.h"
#include "merge/live/frame.h"

namespace trapline::live {

class NoExitNotice {
 public:
  // A frame is seen later than it ends: of a growing session by up to 2.5 s.
  static constexpr std::uint64_t kShortest = 4'000'000'000;  // ns

  NoExitNotice(std::uint64_t interval_ns, std::uint64_t now)
      : wait_ns_(std::max(saturated_sum(interval_ns, interval_ns), kShortest)), since_(now) {}

  // True where the frame has the first exits since is_due() told that none came.
  bool add(const Frame& frame, std::uint64_t now) {
    const bool exits = !frame.cells.empty() ||
                       std::ranges::any_of(
                           frame.vcpus, [](const VcpuUse& vcpu) { return vcpu.totals.exits != 0; });
    if (!exits) return false;
    since_ = now;
    return std::exchange(waits_, false);
  }
  // True once.
  [[nodiscard]] bool is_due(std::uint64_t now) {
    if (told_ || now - since_ < wait_ns_) return false;
    return told_ = waits_ = true;
  }

 private:
  std::uint64_t wait_ns_, since_;
  bool told_ = false, waits_ = false;
};

}  // namespace trapline::live
