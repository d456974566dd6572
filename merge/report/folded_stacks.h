// Where the time went, as stacks: guest functions with their own time, and below them the causes of
// their exits. For differential flame graphs.
//
//   main;draw                  the guest's time in draw itself
//   main;draw;io;rtc           the time of exits with reason io that the rtc served
//   main;draw;[blocked]        without KVM: the thread was blocked
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "merge/analyze/kernel_tracker.h"
#include "merge/analyze/pipeline.h"
#include "merge/pass/naming.h"

namespace trapline {

// A frame's name: ';' separates frames, and a line's last blank the weight.
[[nodiscard]] std::string folded_frame(std::string_view name);

using FoldedTimes = std::map<std::string, std::uint64_t>;  // ns by stack

// Weights of exits by guest stack, reason and device.
class ExitStacks {
 public:
  // Further stacks than `most` are "[other]".
  explicit ExitStacks(std::size_t most) : most_(most) {}
  void add(const ExitSpan& exit, std::uint64_t weight, const Pipeline& pipeline);
  // "main;draw;io;rtc", with its weight.
  void each(const Naming& names,
            const std::function<void(const std::string&, std::uint64_t)>& take) const;

 private:
  using Key =
      std::tuple<StackId, std::uint16_t, std::uint32_t, std::uint32_t, std::uint32_t, NameId>;
  std::size_t most_;
  std::map<Key, std::uint64_t> weights_;
  std::uint64_t other_ = 0;
};

// The kernel's time in exits by reason, then what `report --kernel` tells of it: functions and
// handlers one in the other, what came after an event, "untraced". It sums to the exits' kernel
// part exactly.
//
//   io;svm_handle_exit();io_interception()      in io_interception itself
//   io;untraced
class KernelStacks {
 public:
  // Further stacks than `most` are "[other]".
  explicit KernelStacks(std::size_t most) : most_(most) {}
  void add(const ExitSpan& exit, const KernelTracker& kernel);
  // Needs the tracker that it was fed from: Naming::pipeline's. Two numbers of reasons may have one
  // name: a stack may come twice.
  void each(const Naming& names,
            const std::function<void(const std::string&, std::uint64_t)>& take) const;

 private:
  // Source and reason, what it was in, and what that is where it is in no stack.
  using Key = std::tuple<std::uint16_t, ExitReason, KernelStackId, KernelWork, NameId>;
  std::size_t most_;
  std::map<Key, std::uint64_t> ns_;
  std::uint64_t other_ = 0;
};

class FoldedStacks : public SpanSink {
 public:
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kExits | SpanClass::kCalls; }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  void call(const FunctionCall& call, const Pipeline& pipeline) override;

  // After Pipeline::finish().
  [[nodiscard]] FoldedTimes take(const Naming& names) const;

 private:
  struct Own {
    std::uint64_t guest_ns = 0;
    Parts parts{};
  };

  bool exits_ = false;
  ExitStacks causes_{std::size_t{1} << 16};
  std::map<StackId, Own> own_;  // GuestStacks bounds them
};

// A stack of both sides, in time for each recording of a side.
struct FoldedDifference {
  std::string stack;
  std::uint64_t before_ns = 0, after_ns = 0;
};
[[nodiscard]] std::vector<FoldedDifference> folded_difference(
    const std::vector<FoldedTimes>& before, const std::vector<FoldedTimes>& after);

}  // namespace trapline
