#include "merge/export/culprit_texts.h"

#include "merge/report/culprit_text.h"

namespace trapline {

const std::string& CulpritTexts::of(const Culprit& culprit, const Pipeline& pipeline) {
  const std::uint64_t key = pack(culprit);
  if (const auto known = texts_.find(key); known != texts_.end()) return known->second;
  if (texts_.size() >= kMost) texts_.clear();
  const auto threads = vcpu_threads(pipeline.exits().vcpus(), timeline_);
  const VcpuNames vcpus(threads, find_vms(threads, pipeline.processes()));
  const CulpritNames names{pipeline.names(), timeline_, vcpus, pipeline.processes()};
  return texts_[key] = form_(names.text(culprit));
}

}  // namespace trapline
