#include "merge/report/subjects.h"

#include <algorithm>
#include <tuple>

#include "merge/pass/naming.h"

namespace trapline {

Subjects::Subjects(const std::vector<Dimension>& by)
    : devices_(std::ranges::find(by, Dimension::kDevice) == by.end()),
      details_(std::ranges::find(by, Dimension::kDetail) == by.end()) {}

bool Subjects::is_same(const Sum& a, const Sum& b) {
  return a.group == b.group && a.device == b.device && a.detail.value == b.detail.value &&
         a.detail.kind == b.detail.kind && a.detail.access == b.detail.access;
}

Subjects::Sum* Subjects::sum_of(const Sum& subject) {
  if (subject.group >= last_.size()) last_.resize(subject.group + 1);
  std::uint32_t& last = last_[subject.group];
  std::uint64_t hash = subject.detail.value * 0x9e3779b97f4a7c15 ^
                       (std::uint64_t{subject.group} << 32 | subject.device);
  hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9;
  const auto at = static_cast<std::uint32_t>(hash >> 32);
  const std::uint32_t known =
      index_.find(at, [&](std::uint32_t i) { return is_same(sums_[i], subject); });
  if (known != FlatIndex::kNone) {
    last = known;
    return &sums_[known];
  }
  if (sums_.size() == kMost) return nullptr;
  last = static_cast<std::uint32_t>(sums_.size());
  sums_.push_back(subject);
  index_.add(at);
  return &sums_.back();
}

void Subjects::add(std::uint32_t group, const ExitSpan& exit) {
  if (exit.halt || group == Groups::kOther) return;
  const bool by_device = devices_ && exit.device != kNoName;
  if (!by_device && (!details_ || exit.detail.kind == DetailKind::kNone)) return;
  if (group < last_.size() && !sums_.empty()) [[likely]] {
    Sum& last = sums_[last_[group]];
    const bool same = by_device ? last.device == exit.device
                                : last.device == kNoName && last.detail.kind == exit.detail.kind &&
                                      last.detail.value == exit.detail.value &&
                                      last.detail.access == exit.detail.access;
    if (same && last.group == group) {
      last.ns += exit.total();
      return;
    }
  }
  add_other(group, exit, by_device);
}

void Subjects::add_other(std::uint32_t group, const ExitSpan& exit, bool by_device) {
  Sum subject{.group = group};
  if (by_device) {
    subject.device = exit.device;
  } else {
    subject.detail.value = exit.detail.value;
    subject.detail.kind = exit.detail.kind;
    subject.detail.access = exit.detail.access;
  }
  if (Sum* sum = sum_of(subject)) {
    sum->ns += exit.total();
    return;
  }
  if (group >= overflow_.size()) overflow_.resize(group + 1);
  overflow_[group] = true;
}

std::vector<Subjects::Subject> Subjects::of_rows(const std::vector<std::uint32_t>& row_of_group,
                                                 std::size_t rows, const Naming& names) const {
  std::vector<Sum> sums = sums_;
  for (Sum& sum : sums) sum.group = row_of_group[sum.group];
  const auto key = [](const Sum& sum) {
    return std::tuple(sum.group, sum.device, sum.detail.kind, sum.detail.value, sum.detail.access);
  };
  std::ranges::sort(sums, {}, key);
  std::vector<Subject> subjects(rows);
  std::vector<const Sum*> most(rows, nullptr);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    // Several groups may be one row.
    if (i + 1 < sums.size() && key(sums[i]) == key(sums[i + 1])) {
      sums[i + 1].ns += sums[i].ns;
      continue;
    }
    const Sum*& largest = most[sums[i].group];
    if (largest == nullptr || sums[i].ns > largest->ns) largest = &sums[i];
  }
  for (std::size_t row = 0; row < rows; ++row) {
    if (most[row] == nullptr) continue;
    const Sum& sum = *most[row];
    subjects[row].ns = sum.ns;
    subjects[row].text =
        sum.device != kNoName ? name_or_dash(names.names, sum.device) : detail_text(sum.detail);
  }
  for (std::size_t group = 0; group < overflow_.size(); ++group)
    if (overflow_[group] && group < row_of_group.size())
      subjects[row_of_group[group]].at_least = true;
  return subjects;
}

}  // namespace trapline
