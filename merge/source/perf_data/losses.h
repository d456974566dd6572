// Places each CPU's losses between the events around them.
//
//   LOST n         n records found no room before the next one of this CPU
//   THROTTLE       events are left out until UNTHROTTLE
//   LOST_SAMPLES   written at the end: how many records of one event were lost in all, including
//                  those that no LOST record reports, because nothing came after them
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend_ftrace/base/saturated_sum.h"

namespace trapline::perf_data {

struct Loss {
  std::uint64_t from = 0, to = 0;
  std::uint64_t count = 0;  // 0: not known
};

class Losses {
 public:
  static constexpr std::uint32_t kMostCpus = 1u << 16;

  // Returns the loss between the CPU's last event and this one, if there is one.
  [[nodiscard]] std::optional<Loss> on_event(std::uint32_t cpu, std::uint64_t time) {
    Cpu& one = of(cpu);
    const std::uint64_t before = one.last;
    one.last = time;
    if (one.pending == 0) [[likely]]
      return std::nullopt;
    const Loss loss{before, time > before ? time : before, one.pending};
    one.pending = 0;
    return loss;
  }
  void on_lost(std::uint32_t cpu, std::uint64_t count) {
    Cpu& one = of(cpu);
    one.pending = saturated_sum(one.pending, count);
    told_ = saturated_sum(told_, count);
  }
  // perf does not say on which CPU they were lost.
  void on_lost_samples(std::uint64_t count) { in_all_ = saturated_sum(in_all_, count); }
  void on_throttle(std::uint32_t cpu, std::uint64_t time) { of(cpu).throttled = time; }
  [[nodiscard]] Loss on_unthrottle(std::uint32_t cpu, std::uint64_t time) {
    const std::uint64_t from = of(cpu).throttled.value_or(of(cpu).last);
    of(cpu).throttled.reset();
    return {from, time > from ? time : from, 0};
  }
  // Returns the CPU's loss that lasts until the recording's end, if there is one.
  [[nodiscard]] std::optional<Loss> at_end(std::uint32_t cpu, std::uint64_t end) const {
    const Cpu& one = cpus_[cpu];
    if (one.pending == 0 && !one.throttled) return std::nullopt;
    return Loss{one.pending == 0 ? *one.throttled : one.last, end, one.pending};
  }
  // Returns how many were lost after the last event and reported by no LOST record.
  [[nodiscard]] std::uint64_t untold() const { return in_all_ > told_ ? in_all_ - told_ : 0; }
  // Returns the total, as far as it is known.
  [[nodiscard]] std::uint64_t all() const { return in_all_ > told_ ? in_all_ : told_; }
  [[nodiscard]] std::uint32_t cpus() const { return static_cast<std::uint32_t>(cpus_.size()); }

 private:
  struct Cpu {
    std::uint64_t last = 0;  // time of the CPU's last event
    std::uint64_t pending = 0;
    std::optional<std::uint64_t> throttled;
  };
  [[nodiscard]] Cpu& of(std::uint32_t cpu) {
    if (cpu >= cpus_.size()) [[unlikely]]
      cpus_.resize(cpu + 1);
    return cpus_[cpu];
  }
  std::vector<Cpu> cpus_;
  std::uint64_t told_ = 0, in_all_ = 0;
};

}  // namespace trapline::perf_data
