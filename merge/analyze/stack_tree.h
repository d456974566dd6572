// The different stacks of the guest's functions: each is a node of a tree of (caller's node,
// function), so that a span holds a number. Bounded: after kMost different stacks new ones are
// their caller's.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "merge/analyze/function_call.h"
#include "merge/model/flat_index.h"
#include "merge/model/names.h"

namespace trapline {

class StackTree {
 public:
  static constexpr std::size_t kMost = 1u << 16;

  explicit StackTree(Names& names);

  struct Called {
    StackId stack;
    NameId function;  // the stack's innermost, but where there is no room for more stacks
  };
  // What the function at the address was called by `caller`; without a name it is called after its
  // address.
  [[nodiscard]] Called call(StackId caller, std::uint64_t address, std::string_view name);
  // The stack with `function` innermost: the same where it is that already, its caller's part where
  // it is one of the frames, else with the function added as called by it.
  [[nodiscard]] StackId with_innermost(StackId stack, NameId function);

  [[nodiscard]] NameId innermost(StackId stack) const { return nodes_[stack].function; }
  // "main;f;g", the innermost last; "-" of kNoStack.
  [[nodiscard]] std::string text(StackId stack) const;

 private:
  struct Node {
    StackId caller = kNoStack;
    NameId function = kNoName;
  };
  // Where the last call of a hash led to: a loop's need no look-up of names.
  struct Recent {
    StackId caller = kNoStack, to = kNoStack;
    std::uint64_t address = 0;
    bool has_name = false;
  };
  [[nodiscard]] static std::uint32_t hash(StackId caller, std::uint64_t function) {
    const std::uint64_t both = (std::uint64_t{caller} << 32 ^ function) * 0x9e3779b97f4a7c15;
    return static_cast<std::uint32_t>(both >> 32);
  }
  [[nodiscard]] StackId child(StackId caller, NameId function);

  Names* names_;
  std::vector<Node> nodes_;  // [0] is kNoStack
  FlatIndex index_;          // of nodes_, by caller and function
  std::array<Recent, 256> recent_;
};

}  // namespace trapline
