// Handlers and functions of the kernel, each in, or called by, its parent: stacks by number.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "merge/model/names.h"

namespace trapline {

enum class KernelWork : std::uint8_t { kUntraced, kAfter, kHandler, kFunction };
// The innermost of a stack; 0: none.
using KernelStackId = std::uint32_t;
struct KernelFrame {
  KernelStackId parent = 0;
  NameId name = kNoName;
  KernelWork work = KernelWork::kUntraced;
  friend auto operator<=>(const KernelFrame&, const KernelFrame&) = default;
};

class KernelFrames {
 public:
  static constexpr std::size_t kMost = 1u << 16;

  // The frame's number, `without_room` where there are kMost of them and it is a new one.
  [[nodiscard]] KernelStackId number(const KernelFrame& frame, KernelStackId without_room) {
    if (const auto known = numbers_.find(frame); known != numbers_.end()) return known->second;
    if (frames_.size() >= kMost) return without_room;
    frames_.push_back(frame);
    return numbers_[frame] = static_cast<KernelStackId>(frames_.size() - 1);
  }
  [[nodiscard]] const KernelFrame& operator[](KernelStackId stack) const { return frames_[stack]; }

 private:
  std::vector<KernelFrame> frames_{KernelFrame()};
  std::map<KernelFrame, KernelStackId> numbers_;
};

}  // namespace trapline
