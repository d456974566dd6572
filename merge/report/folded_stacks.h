// Shows where the time went as stacks: guest functions with their own time, and below them the
// causes of their exits. Tools turn two files of such stacks into a differential flame graph.
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

// Returns a frame's name with ',' for ';', which separates frames, and without control characters.
[[nodiscard]] std::string folded_frame(std::string_view name);

using FoldedTimes = std::map<std::string, std::uint64_t>;  // ns by stack

// The weights of exits by guest stack, reason and device.
class ExitStacks {
 public:
  // After `most` stacks, further ones are "[other]".
  explicit ExitStacks(std::size_t most) : most_(most) {}
  void add(const ExitSpan& exit, std::uint64_t weight, const Pipeline& pipeline);
  // Calls `take` with each stack, "main;draw;io;rtc", and its weight.
  void each(const Naming& names,
            const std::function<void(const std::string&, std::uint64_t)>& take) const;

 private:
  using Key =
      std::tuple<StackId, std::uint16_t, std::uint32_t, std::uint32_t, std::uint32_t, NameId>;
  std::size_t most_;
  std::map<Key, std::uint64_t> weights_;
  std::uint64_t other_ = 0;
};

// The kernel's time in exits by reason, and below that the rows of `report --kernel`: nested
// functions and handlers, "after" an event, "untraced". The sum is exactly the exits' kernel part.
//
//   io;svm_handle_exit();io_interception()      in io_interception itself
//   io;untraced
class KernelStacks {
 public:
  // After `most` stacks, further ones are "[other]".
  explicit KernelStacks(std::size_t most) : most_(most) {}
  void add(const ExitSpan& exit, const KernelTracker& kernel);
  // Calls `take` with each stack and its ns; the same stack may come twice, because two reasons may
  // have one name. `names` must be of the pipeline whose KernelTracker was given to add().
  void each(const Naming& names,
            const std::function<void(const std::string&, std::uint64_t)>& take) const;

 private:
  // Source and reason, the stack, and the kind and name of the work, for work that is in no stack.
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

  // Returns the time of each stack. Call this after Pipeline::finish().
  [[nodiscard]] FoldedTimes take(const Naming& names) const;

 private:
  bool exits_ = false;
  ExitStacks causes_{std::size_t{1} << 16};
  std::map<StackId, GuestTime> own_;  // GuestStacks limits the number of stacks
};

// A stack, with its mean time in the recordings of each side of a comparison: before and after.
struct FoldedDifference {
  std::string stack;
  std::uint64_t before_ns = 0, after_ns = 0;
};
[[nodiscard]] std::vector<FoldedDifference> folded_difference(
    const std::vector<FoldedTimes>& before, const std::vector<FoldedTimes>& after);

}  // namespace trapline
