#include "merge/report/groups.h"

namespace trapline {

void GroupRow::merge(const GroupRow& other) {
  // Of equally long ones the first tells when.
  const bool longer = other.total.max() > total.max() || total.count() == 0;
  const bool as_long = other.total.max() == total.max() && other.total.count() != 0;
  if (longer || (as_long && other.max_at_ns < max_at_ns)) max_at_ns = other.max_at_ns;
  halts = total.count() == 0 ? other.halts : halts && other.halts;
  total.merge(other.total);
  for (std::size_t i = 0; i < kParts; ++i) parts[i] += other.parts[i];
  devices_at_most_ns += other.devices_at_most_ns;
}

void GroupRow::add(const ExitSpan& exit) {
  const std::uint64_t ns = exit.total();
  const bool is_first = total.count() == 0;
  halts = (is_first || halts) && exit.halt;
  if (is_first || ns > total.max()) max_at_ns = exit.start.ns();
  total.add(ns);
  for (std::size_t i = 0; i < kParts; ++i) parts[i] += exit.parts[i];
}

GroupRow& Groups::row_at(std::uint32_t place) {
  if (place != kOther) [[likely]]
    return groups_[place].row;
  ++folded_;
  return other_;
}

std::uint32_t Groups::add(const GroupKey& key, const ExitSpan& span) {
  const std::uint32_t place = groups_.place_of(key);
  row_at(place).add(span);
  return place;
}

void Groups::add(const GroupKey& key, const FunctionCall& call) {
  GroupRow& row = row_at(groups_.place_of(key));
  const std::uint64_t total = call.own.total();
  if (total > row.total.max() || row.total.count() == 0) row.max_at_ns = call.begin.ns();
  row.total.add(total);
  for (std::size_t i = 0; i < kParts; ++i) row.parts[i] += call.own.parts[i];
  row.devices_at_most_ns += call.own.devices_at_most_ns;
}

}  // namespace trapline
