#include "merge/export/texts.h"

#include "merge/pass/naming.h"

namespace trapline {

const std::string& CulpritTexts::of(const Culprit& culprit, const Pipeline& pipeline) {
  const std::uint64_t key = pack(culprit);
  if (const auto known = texts_.find(key); known != texts_.end()) return known->second;
  if (texts_.size() >= kMost) texts_.clear();
  return texts_[key] = form_(Naming(timeline_, pipeline).text(culprit));
}

}  // namespace trapline
