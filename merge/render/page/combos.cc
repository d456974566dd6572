#include "merge/render/page/combos.h"

namespace trapline::page {

const std::vector<Dimension>& Combos::dimensions() {
  static const std::vector<Dimension> kAll = {Dimension::kReason, Dimension::kDetail,
                                              Dimension::kDevice, Dimension::kVmmEvent,
                                              Dimension::kStack,  Dimension::kVcpu};
  return kAll;
}

Combos::Combos() : keys_(dimensions()), combos_(keys_.words(), kMost) {}

std::uint32_t Combos::of(const ExitSpan& exit, StackId stack, const GuestStacks& stacks) {
  constexpr std::size_t kDetailValue = 1;
  GroupKey key = keys_.of(exit, stack, stacks);
  key.halted = exit.halt;
  if (exit.detail.kind == DetailKind::kPageFault) key.words[kDetailValue] = 0;
  return combos_.place_of(key);
}

}  // namespace trapline::page
