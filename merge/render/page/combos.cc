#include "merge/render/page/combos.h"

namespace trapline::page {
namespace {

std::uint32_t hash_of(const GroupKey& key, std::size_t words) {
  std::uint64_t hash = 0x9e3779b97f4a7c15;
  for (std::size_t i = 0; i < words; ++i) {
    hash = (hash ^ key.words[i]) * 0xbf58476d1ce4e5b9;
    hash ^= hash >> 29;
  }
  return static_cast<std::uint32_t>(hash);
}

}  // namespace

const std::vector<Dimension>& Combos::dimensions() {
  static const std::vector<Dimension> kAll = {Dimension::kReason, Dimension::kDetail,
                                              Dimension::kDevice, Dimension::kVmmEvent,
                                              Dimension::kStack,  Dimension::kVcpu};
  return kAll;
}

Combos::Combos() : keys_(dimensions()), words_(keys_.words()), index_(1024) {}

std::uint32_t Combos::of(const ExitSpan& exit, StackId stack, const GuestStacks& stacks) {
  constexpr std::size_t kDetailValue = 1;
  GroupKey key = keys_.of(exit, stack, stacks);
  key.halted = exit.halt;
  if (exit.detail.kind == DetailKind::kPageFault) key.words[kDetailValue] = 0;
  const std::uint32_t hash = hash_of(key, words_);
  const std::uint32_t known =
      index_.find(hash, [this, &key](std::uint32_t i) { return combos_[i] == key; });
  if (known != FlatIndex::kNone) [[likely]]
    return known;
  if (combos_.size() >= kMost) return kOther;
  combos_.push_back(key);
  index_.add(hash);
  return static_cast<std::uint32_t>(combos_.size() - 1);
}

}  // namespace trapline::page
