#include "merge/analyze/stack_tree.h"

#include <fmt/format.h>

namespace trapline {

StackTree::StackTree(Names& names) : names_(&names), nodes_(1) { index_.add(hash(0, 0)); }

StackId StackTree::child(StackId caller, NameId function) {
  const std::uint32_t at = hash(caller, function);
  const std::uint32_t known = index_.find(at, [&](std::uint32_t i) {
    return i != kNoStack && nodes_[i].caller == caller && nodes_[i].function == function;
  });
  if (known != FlatIndex::kNone) return known;
  if (nodes_.size() >= kMost) return caller;
  nodes_.push_back({caller, function});
  index_.add(at);
  return static_cast<StackId>(nodes_.size() - 1);
}

// What an address is called may change: names are compared.
StackTree::Called StackTree::call(StackId caller, std::uint64_t address, std::string_view name) {
  Recent& recent = recent_[hash(caller, address) >> 24];
  if (recent.to != kNoStack && recent.caller == caller && recent.address == address &&
      recent.has_name != name.empty()) {
    const NameId function = innermost(recent.to);
    if (name.empty() || (*names_)[function] == name) return {recent.to, function};
  }
  const NameId function =
      name.empty() ? names_->id(fmt::format("{:#x}", address)) : names_->id(name);
  const StackId stack = child(caller, function);
  if (innermost(stack) == function) recent = {caller, stack, address, !name.empty()};
  return {stack, function};
}

StackId StackTree::with_innermost(StackId stack, NameId function) {
  for (StackId node = stack; node != kNoStack; node = nodes_[node].caller) {
    if (nodes_[node].function == function) return node;
  }
  return child(stack, function);
}

std::string StackTree::text(StackId stack) const {
  if (stack == kNoStack) return "-";
  // Each frame of a recursion is a stack of its own: their texts together would be as long as the
  // square of its depth.
  constexpr std::size_t kMostText = 8192;
  std::vector<NameId> functions;
  StackId node = stack;
  for (std::size_t size = 0; node != kNoStack && size < kMostText; node = nodes_[node].caller) {
    functions.push_back(nodes_[node].function);
    size += (*names_)[functions.back()].size() + 1;
  }
  std::string text = node == kNoStack ? "" : "[...]";
  for (auto function = functions.rbegin(); function != functions.rend(); ++function) {
    if (!text.empty()) text += ';';
    text += std::string_view((*names_)[*function]).substr(0, kMostText);
  }
  return text;
}

}  // namespace trapline
