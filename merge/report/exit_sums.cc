// Adds an exit to the sums of its row. Every exit passes through this file, which CMakeLists.txt
// compiles by itself, for speed.
#include "merge/report/run.h"

namespace trapline {

void ExitSums::add(const ExitSpan& exit) {
  halts = (count() == 0 || halts) && exit.halt;
  if (exit.ended != ExitSpan::End::kKnown) [[unlikely]] {
    ++(exit.ended == ExitSpan::End::kOpen ? open : cut);
    unended_cost_ns += trapline::cost_ns(exit.parts);
    return;
  }
  const std::uint64_t ns = exit.total();
  if (total.count() == 0 || ns > total.max()) max_at_ns = exit.start.ns();
  total.add(ns);
  for (std::size_t i = 0; i < kParts; ++i) parts[i] += exit.parts[i];
}

// Returns the place of the key's sum; kMost if there is no more room.
std::uint32_t Subjects::place_of(Key key) {
  std::uint64_t hash =
      key.value * 0x9e3779b97f4a7c15 ^ (std::uint64_t{key.group} << 32 | key.device);
  hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9;
  const auto at = static_cast<std::uint32_t>(hash >> 32);
  const std::uint32_t known = index_.find(at, [&](std::uint32_t i) { return sums_[i].key == key; });
  if (known != FlatIndex::kNone) return known;
  if (sums_.size() == kMost) return kMost;
  sums_.push_back({key});
  index_.add(at);
  return static_cast<std::uint32_t>(sums_.size() - 1);
}

void Subjects::add(std::uint32_t group, const ExitSpan& exit) {
  if (exit.halt || group == kMostGroups) return;
  const bool by_device = devices_ && exit.device != kNoName;
  if (!by_device && (!details_ || exit.detail.kind == DetailKind::kNone)) return;
  const Key key =
      by_device ? Key{group, exit.device}
                : Key{group, kNoName, exit.detail.kind, exit.detail.value, exit.detail.access};
  std::uint32_t& last = last_[group];
  if (sums_.empty() || sums_[last].key != key) [[unlikely]] {
    const std::uint32_t place = place_of(key);
    if (place == kMost) {
      overflow_.insert(group);
      return;
    }
    last = place;
  }
  sums_[last].ns += exit.total();
  ++sums_[last].exits;
}

[[gnu::flatten]] void Aggregator::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  const bool needs_stack = needs_stack_ || pipeline.has_guest_records();
  const StackId stack = needs_stack ? pipeline.stack_of(exit) : kNoStack;
  const auto waits = needs_waits_ ? pipeline.waits()->shares() : std::span<const WaitShare>();
  const std::uint32_t group =
      groups_.place_of(keys_.of(exit, stack, pipeline.stacks(), waits, pipeline.kernel()));
  groups_[group].add(exit);
  subjects_.add(group, exit);
  isa_ = exit.reason.isa;
}

}  // namespace trapline
