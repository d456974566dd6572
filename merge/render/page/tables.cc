#include "merge/render/page/tables.h"

#include <algorithm>
#include <map>

#include "merge/report/options.h"

namespace trapline::page {
namespace {

constexpr std::string_view kTables[] = {"reason",     "reason,device", "detail", "device",
                                        "qemu-event", "function",      "vcpu"};

// The words that dimension has in a combination's key: Combos::dimensions().
GroupKey part_of(const GroupKey& combo, const std::vector<Dimension>& by,
                 const GuestStacks& stacks) {
  enum : std::size_t { kReason, kDetail, kDetailKind, kDevice, kVmmEvent, kStack, kVcpu };
  const auto word_of = [&](Dimension dimension) -> std::uint64_t {
    switch (dimension) {
      case Dimension::kReason:
        return combo.words[kReason];
      case Dimension::kDevice:
        return combo.words[kDevice];
      case Dimension::kVmmEvent:
        return combo.words[kVmmEvent];
      case Dimension::kFunction:
        return stacks.innermost(static_cast<StackId>(combo.words[kStack]));
      case Dimension::kVcpu:
        return combo.words[kVcpu];
      case Dimension::kDetail:
        return combo.words[kDetail];
      default:
        return 0;
    }
  };
  GroupKey key;
  std::size_t at = 0;
  for (const Dimension dimension : by) {
    key.words[at++] = word_of(dimension);
    if (dimension == Dimension::kDetail) key.words[at++] = combo.words[kDetailKind];
  }
  return key;
}

}  // namespace

Tables::Own::Own(std::string_view name)
    : text(name),
      by(*parse_dimensions(name)),
      keys(by),
      details(keys.has(Dimension::kDetail)),
      groups(keys.words()) {}

Tables::Tables() {
  for (const std::string_view text : kTables) own_.emplace_back(text);
}

void Tables::add(std::uint32_t combo, const ExitSpan& exit, StackId stack,
                 const GuestStacks& stacks) {
  const bool has_room = combo != Combos::kOther;
  const bool has_address = exit.detail.kind == DetailKind::kPageFault;
  if (combo >= has_address_.size()) has_address_.resize(combo + 1);
  has_address_[combo] = has_address;
  if (has_address || !has_room) {
    for (Own& own : own_) {
      if (own.details || !has_room) own.groups.add(own.keys.of(exit, stack, stacks), exit);
    }
  }
  if (!has_room) return;
  if (combo >= combos_.size()) combos_.resize(combo + 1);
  combos_[combo].add(exit);
}

std::vector<GroupRow> Tables::rows(const Own& own, const Combos& combos, const Naming& names,
                                   bool durations) const {
  std::map<std::string, GroupRow> sums;
  const auto add = [&](const GroupKey& key, const GroupRow& row) {
    sums[own.keys.text(key, names)].merge(row);
  };
  for (const Groups::Group& group : own.groups.groups()) add(group.key, group.row);
  for (std::size_t i = 0; i < combos_.size(); ++i) {
    if (own.details && has_address_[i]) continue;
    const GroupKey& combo = combos.combos()[i].key;
    const GroupKey* halted = own.keys.halted_row(combo.halted);
    add(halted != nullptr ? *halted : part_of(combo, own.by, names.pipeline.stacks()), combos_[i]);
  }
  std::vector<GroupRow> rows;
  for (auto& [key, row] : sums) {
    row.key = key;
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [durations](const GroupRow& a, const GroupRow& b) {
    return comes_before(a, b, SortBy::kTotal, durations);
  });
  if (own.groups.other().total.count() != 0) {
    rows.push_back(own.groups.other());
    rows.back().key = ReportData::kFoldedKey;
  }
  return rows;
}

std::vector<Tables::Table> Tables::tables(const Combos& combos, const Naming& names,
                                          bool durations) const {
  std::vector<Table> tables;
  for (const Own& own : own_) tables.push_back({own.text, rows(own, combos, names, durations)});
  return tables;
}

}  // namespace trapline::page
