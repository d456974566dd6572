#include "merge/report/subjects.h"

#include <algorithm>
#include <map>

#include "merge/pass/exit_text.h"

namespace trapline {

Subjects::Subjects(const std::vector<Dimension>& by)
    : devices_(std::ranges::find(by, Dimension::kDevice) == by.end()),
      details_(std::ranges::find(by, Dimension::kDetail) == by.end()) {}

bool Subjects::is_same(const Sum& a, const Sum& b) {
  return a.group == b.group && a.device == b.device && a.detail.value == b.detail.value &&
         a.detail.kind == b.detail.kind && a.detail.access == b.detail.access;
}

Subjects::Sum* Subjects::sum_of(const Sum& subject) {
  if (last_ < sums_.size() && is_same(sums_[last_], subject)) return &sums_[last_];
  std::uint64_t hash = subject.detail.value * 0x9e3779b97f4a7c15 ^
                       (std::uint64_t{subject.group} << 32 | subject.device);
  hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9;
  const auto at = static_cast<std::uint32_t>(hash >> 32);
  const std::uint32_t known =
      index_.find(at, [&](std::uint32_t i) { return is_same(sums_[i], subject); });
  if (known != FlatIndex::kNone) {
    last_ = known;
    return &sums_[known];
  }
  if (sums_.size() == kMost) return nullptr;
  last_ = static_cast<std::uint32_t>(sums_.size());
  sums_.push_back(subject);
  index_.add(at);
  return &sums_.back();
}

void Subjects::add(std::uint32_t group, const ExitSpan& exit) {
  if (exit.halt) return;
  Sum subject{.group = group};
  if (devices_ && exit.device != kNoName) {
    subject.device = exit.device;
  } else if (details_ && exit.detail.kind != DetailKind::kNone) {
    subject.detail.value = exit.detail.value;
    subject.detail.kind = exit.detail.kind;
    subject.detail.access = exit.detail.access;
  } else {
    return;
  }
  if (Sum* sum = sum_of(subject)) {
    sum->ns += exit.total();
    return;
  }
  if (group >= overflow_.size()) overflow_.resize(group + 1);
  overflow_[group] = true;
}

std::optional<Subjects::Subject> Subjects::largest(const std::vector<std::uint32_t>& groups,
                                                   const Naming& names) const {
  std::map<std::string, std::uint64_t> sums;  // two numbers may have one name
  for (const Sum& sum : sums_) {
    if (std::ranges::find(groups, sum.group) == groups.end()) continue;
    sums[sum.device != kNoName ? name_or_dash(names.names, sum.device) : detail_text(sum.detail)] +=
        sum.ns;
  }
  const auto most = std::ranges::max_element(sums, {}, [](const auto& sum) { return sum.second; });
  if (most == sums.end()) return std::nullopt;
  const bool at_least = std::ranges::any_of(
      groups, [this](std::uint32_t group) { return group < overflow_.size() && overflow_[group]; });
  return Subject{most->first, most->second, at_least};
}

}  // namespace trapline
