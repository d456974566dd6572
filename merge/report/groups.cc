#include "merge/report/groups.h"

#include <algorithm>
#include <utility>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

constexpr std::pair<std::string_view, Dimension> kDimensions[] = {
    {"reason", Dimension::kReason},
    {"detail", Dimension::kDetail},
    {"device", Dimension::kDevice},
    {"qemu-event", Dimension::kVmmEvent},
    {"function", Dimension::kFunction},
    {"stack", Dimension::kStack},
    {"vcpu", Dimension::kVcpu},
    {"vm", Dimension::kVm},
    {"cpu", Dimension::kCpu},
    {"nested", Dimension::kNested},
    {"preempted-by", Dimension::kPreemptedBy},
    {"blocked-on", Dimension::kBlockedOn}};

Result<Dimension> parse_dimension(std::string_view name, std::string_view alone) {
  std::vector<std::string_view> names;
  for (const auto& [known, dimension] : kDimensions) {
    if (name == known) return dimension;
    names.push_back(known);
  }
  const auto near = nearest(name, names);
  return fail(ErrorKind::kUsage, "--by: unknown '{}'; {}there are {}{}", name,
              near.empty() ? std::string() : fmt::format("did you mean '{}'? ", near),
              dimension_names(),
              alone.empty() ? std::string() : fmt::format(", and {} alone", alone));
}

}  // namespace

Result<void> check_dimensions_of_calls(const std::vector<Dimension>& dimensions) {
  for (const auto& [name, dimension] : kDimensions) {
    const bool of_exits = dimension == Dimension::kReason || dimension == Dimension::kCpu ||
                          dimension == Dimension::kNested || dimension == Dimension::kDetail ||
                          dimension == Dimension::kPreemptedBy ||
                          dimension == Dimension::kBlockedOn;
    if (!of_exits || std::find(dimensions.begin(), dimensions.end(), dimension) == dimensions.end())
      continue;
    return fail(ErrorKind::kUsage,
                "--by: '{}' is of VM exits, and this recording has none; calls of guest functions "
                "have function, stack, device, qemu-event, vcpu and vm",
                name);
  }
  return {};
}

std::string dimension_names() {
  std::string all;
  for (const auto& [name, dimension] : kDimensions) {
    all += (all.empty() ? "" : ", ") + std::string(name);
  }
  return all;
}

Result<std::vector<Dimension>> parse_dimensions(std::string_view text, std::string_view alone) {
  std::vector<Dimension> dimensions;
  while (true) {
    const auto comma = text.find(',');
    auto dimension = parse_dimension(trimmed(text.substr(0, comma)), alone);
    if (!dimension) return tl::unexpected(std::move(dimension).error());
    if (std::find(dimensions.begin(), dimensions.end(), *dimension) != dimensions.end()) {
      return fail(ErrorKind::kUsage, "--by: '{}' is named twice", text.substr(0, comma));
    }
    dimensions.push_back(*dimension);
    if (comma == std::string_view::npos) return dimensions;
    text.remove_prefix(comma + 1);
  }
}

void GroupRow::merge(const GroupRow& other) {
  // Of equals the first one's.
  const bool longer = other.total.max() > total.max() || total.count() == 0;
  const bool as_long = other.total.max() == total.max() && other.total.count() != 0;
  if (longer || (as_long && other.max_at_ns < max_at_ns)) max_at_ns = other.max_at_ns;
  halts = total.count() == 0 ? other.halts : halts && other.halts;
  total.merge(other.total);
  for (std::size_t i = 0; i < kParts; ++i) parts[i] += other.parts[i];
  devices_at_most_ns += other.devices_at_most_ns;
}

std::uint32_t Groups::hash(const GroupKey& key) const {
  std::uint64_t hash = key.halted ? 0x2545f4914f6cdd1d : 0x9e3779b97f4a7c15;
  for (std::size_t i = 0; i < words_; ++i) {
    hash = (hash ^ key.words[i]) * 0xbf58476d1ce4e5b9;
    hash ^= hash >> 29;
  }
  return static_cast<std::uint32_t>(hash);
}

bool Groups::is_same(const GroupKey& a, const GroupKey& b) const {
  for (std::size_t i = 0; i < words_; ++i) {
    if (a.words[i] != b.words[i]) return false;
  }
  return a.halted == b.halted;
}

std::uint32_t Groups::place_of(const GroupKey& key) {
  if (last_ < groups_.size() && is_same(groups_[last_].key, key)) return last_;
  const std::uint32_t at = hash(key);
  const std::uint32_t known =
      index_.find(at, [this, &key](std::uint32_t i) { return is_same(groups_[i].key, key); });
  if (known != FlatIndex::kNone) [[likely]] {
    return last_ = known;
  }
  if (groups_.size() == kMost) {
    ++folded_;
    return kOther;
  }
  groups_.push_back({key, {}});
  index_.add(at);
  return last_ = static_cast<std::uint32_t>(groups_.size() - 1);
}

std::uint32_t Groups::add(const GroupKey& key, const ExitSpan& span) {
  const std::uint32_t place = place_of(key);
  GroupRow& row = row_at(place);
  const std::uint64_t total = span.total();
  if (row.total.count() == 0) row.halts = true;
  row.halts = row.halts && span.halt;
  if (total > row.total.max() || row.total.count() == 0) row.max_at_ns = span.start.ns();
  row.total.add(total);
  for (std::size_t i = 0; i < kParts; ++i) row.parts[i] += span.parts[i];
  return place;
}

void Groups::add(const GroupKey& key, const FunctionCall& call) {
  GroupRow& row = row_at(place_of(key));
  const std::uint64_t total = call.own.total();
  if (total > row.total.max() || row.total.count() == 0) row.max_at_ns = call.begin.ns();
  row.total.add(total);
  for (std::size_t i = 0; i < kParts; ++i) row.parts[i] += call.own.parts[i];
  row.devices_at_most_ns += call.own.devices_at_most_ns;
}

}  // namespace trapline
