#include "merge/analyze/culprit.h"

namespace trapline {

ThreadId CulpritNames::of(ThreadId thread, std::string_view name, bool has_one_name) {
  const auto tid = static_cast<std::int32_t>(thread);
  if (tid <= 0 || unnamed(thread) != thread) return thread;
  if (has_one_name && names_.size() < kMost) {
    std::string& known = names_[thread];
    if (known.empty()) known = name;
    return thread;
  }
  for (std::int32_t i = 0; i < kMostNames; ++i) {
    const ThreadId named{tid | i << kNameAt};
    const auto known = names_.find(named);
    if (known != names_.end() && known->second == name) return named;
    if (known != names_.end()) continue;
    if (names_.size() >= kMost) break;
    names_.emplace(named, name);
    return named;
  }
  return ThreadId{tid | kMostNames << kNameAt};
}

std::string_view CulpritNames::operator[](ThreadId thread) const {
  const auto found = names_.find(thread);
  return found == names_.end() ? std::string_view() : found->second;
}

bool CulpritNames::is_of_several(ThreadId thread) const {
  return unnamed(thread) != thread ||
         names_.contains(ThreadId{static_cast<std::int32_t>(thread) | 1 << kNameAt});
}

}  // namespace trapline
