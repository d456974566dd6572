#include "merge/render/page/exits.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "merge/render/page/numbered_texts.h"
#include "merge/report/options.h"
#include "merge/report/report_data.h"

namespace trapline::page {

namespace {

// The dimensions of a combination, in the order of its key's words; a detail takes two words.
const std::vector<Dimension> kDimensions = {Dimension::kReason, Dimension::kDetail,
                                            Dimension::kDevice, Dimension::kVmmEvent,
                                            Dimension::kStack,  Dimension::kVcpu};
constexpr std::size_t kFewestBins = 16;

std::uint64_t cell_key(std::uint32_t combo, std::uint64_t time, std::uint64_t latency) {
  return (std::uint64_t{combo} + 1) << 32 | time << 8 | latency;
}

std::uint32_t hash_of(std::uint64_t key) {
  return static_cast<std::uint32_t>(key * 0x9e3779b97f4a7c15 >> 32);
}

}  // namespace

void Cells::Cell::add(const Cell& other) {
  count += other.count;
  total += other.total;
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] += other.parts[i];
}

std::uint32_t Cells::find(std::uint64_t key) const {
  return index_.find(hash_of(key), [&](std::uint32_t i) { return cells_[i].key == key; });
}

Cells::Cell& Cells::get(std::uint64_t key) {
  if (const std::uint32_t known = find(key); known != FlatIndex::kNone) return cells_[known];
  index_.add(hash_of(key));
  return cells_.emplace_back(Cell{key});
}

void Cells::coarsen() {
  index_ = FlatIndex(std::bit_ceil(2 * cells_.size() + 2));
  for (const Cell& cell : std::exchange(cells_, {}))
    get(cell_key(cell.combo(), bins_.doubled(cell.time()), cell.latency())).add(cell);
  ++bins_.shift;
}

void Cells::add(std::uint32_t combo, const ExitSpan& exit, const Pipeline& pipeline) {
  if (!bins_.started) bins_.start(pipeline.begin().value_or(exit.start));
  while (bins_.bin(exit.start.ns()) >= kMostBins) coarsen();
  const std::uint64_t latency = latency_bin(exit.total());
  std::uint64_t key = cell_key(combo, bins_.bin(exit.start.ns()), latency);
  if (cells_.size() >= kMostCells && find(key) == FlatIndex::kNone) {
    bins_.bin(pipeline.end().ns()) > kFewestBins ? coarsen() : void(combo = kOtherCombos);
    key = cell_key(combo, bins_.bin(exit.start.ns()), latency);
  }
  if (combo == kOtherCombos) ++folded_;
  Cell& cell = get(key);
  ++cell.count;
  cell.total += exit.total();
  for (std::size_t i = 0; i < cell.parts.size(); ++i) cell.parts[i] += exit.parts[i + 1];
}

namespace {

using Combo = std::vector<std::size_t>;  // for each dimension, the number of its text; for halts 1

Combo combo_of(GroupKey key, const Naming& names, std::vector<NumberedTexts>& texts) {
  const bool halted = std::exchange(key.halted, false);
  Combo combo;
  for (std::size_t i = 0; i < kDimensions.size(); ++i) {
    const std::vector<Dimension> one = {kDimensions[i]};
    const ExitKeys keys(one);
    combo.push_back(
        texts[i].number(keys.text(keys.part_of(key, kDimensions, names.pipeline.stacks()), names)));
  }
  combo.push_back(halted ? 1 : 0);
  return combo;
}

// Adds a cell's numbers. A count of 1 and parts of 0 are left out: the lowest bits of the first
// number say which numbers follow.
void add_cell(std::vector<std::uint64_t>& numbers, std::uint32_t time, const Cells::Cell& cell) {
  unsigned given = cell.count != 1 ? 1 : 0;
  for (std::size_t i = 0; i < cell.parts.size(); ++i) given |= cell.parts[i] != 0 ? 2u << i : 0;
  numbers.push_back((std::uint64_t{time} * kLatencyBins + cell.latency()) * 32 + given);
  if (cell.count != 1) numbers.push_back(cell.count);
  numbers.push_back(cell.total);
  for (const std::uint64_t ns : cell.parts)
    if (ns != 0) numbers.push_back(ns);
}

// Returns the numbers of all cells, for each combination.
std::vector<std::vector<std::uint64_t>> numbers_of(std::vector<Cells::Cell> cells,
                                                   const std::vector<std::size_t>& combo_of,
                                                   std::size_t combos) {
  for (Cells::Cell& cell : cells)
    cell.set_combo(combo_of[std::min<std::size_t>(cell.combo(), combo_of.size() - 1)]);
  std::ranges::sort(cells, {}, &Cells::Cell::key);
  std::vector<std::vector<std::uint64_t>> flat(combos);
  std::vector<std::uint32_t> last(combos);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cells::Cell& cell = cells[i];
    if (i + 1 < cells.size() && cells[i + 1].key == cell.key) {
      cells[i + 1].add(cell);
      continue;
    }
    add_cell(flat[cell.combo()], cell.time() - last[cell.combo()], cell);
    last[cell.combo()] = cell.time();
  }
  return flat;
}

}  // namespace

std::vector<trapline::Table> Exits::cell_tables(const Naming& names) const {
  const std::size_t dimensions = kDimensions.size();
  std::vector<NumberedTexts> texts(dimensions);
  // Two keys may have the same text; then they are one combination.
  std::map<Combo, std::size_t> merged;
  std::vector<std::size_t> combo_of_key;
  const auto add = [&](Combo combo) {
    combo_of_key.push_back(merged.emplace(std::move(combo), merged.size()).first->second);
  };
  for (const ExitGroup& group : combos_.rows()) add(combo_of(group.key, names, texts));
  if (cells.folded() != 0) {
    Combo other;
    for (NumberedTexts& of : texts) other.push_back(of.number(std::string(ReportData::kFoldedKey)));
    other.push_back(0);
    add(std::move(other));
  }
  std::vector<Combo> combos(merged.size());
  for (const auto& [combo, at] : merged) combos[at] = combo;
  trapline::Table numbers{.key = "cells"};
  numbers.facts = {{"rows", numbers_of(cells.all(), combo_of_key, merged.size())}};
  TableOf<Combo> table({.key = "combos", .packed = true}, std::move(combos),
                       [](const Combo&) { return std::string(); });
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::string name(name_of(kDimensions[i]));
    table.facts.push_back({"values." + name, texts[i].all()});
    table.add({name}, [i](const Combo& combo) { return combo[i]; });
  }
  table.add({"halt"}, [dimensions](const Combo& combo) { return combo[dimensions]; });
  return {std::move(table), std::move(numbers)};
}

namespace {

constexpr std::string_view kTables[] = {"reason",     "reason,device", "detail", "device",
                                        "qemu-event", "function",      "vcpu"};

}  // namespace

Exits::Own::Own(std::string_view name)
    : text(name), by(*parse_dimensions(name)), keys(by), groups(keys.words(), kMostGroups) {}

Exits::Exits() : keys_(kDimensions), combos_(keys_.words(), kMostGroups) {
  for (const std::string_view text : kTables) own_.emplace_back(text);
}

std::uint32_t Exits::add(const ExitSpan& exit, const Pipeline& pipeline) {
  const StackId stack = pipeline.stack_of(exit);
  GroupKey key = keys_.of(exit, stack, pipeline.stacks());
  key.halted = exit.halt;
  const std::uint32_t combo = combos_.place_of(key);
  combos_[combo].add(exit);
  for (auto own = own_.begin(); combo == kOtherCombos && own != own_.end(); ++own)
    own->groups[own->groups.place_of(own->keys.of(exit, stack, pipeline.stacks()))].add(exit);
  return combo;
}

std::vector<GroupRow> Exits::rows(const Own& own, const Naming& names, bool durations) const {
  std::map<std::string, ExitSums> sums;
  for (const ExitGroup& group : own.groups.rows())
    sums[own.keys.text(group.key, names)].merge(group);
  const GuestStacks& stacks = names.pipeline.stacks();
  for (const ExitGroup& combo : combos_.rows())
    sums[own.keys.text(own.keys.part_of(combo.key, kDimensions, stacks), names)].merge(combo);
  std::vector<GroupRow> rows;
  for (auto& [key, row] : sums) rows.push_back({std::move(row), key});
  std::stable_sort(rows.begin(), rows.end(), [durations](const GroupRow& a, const GroupRow& b) {
    return comes_before(a, b, SortBy::kTotal, durations);
  });
  if (own.groups.other().count() != 0)
    rows.push_back({own.groups.other(), std::string(ReportData::kFoldedKey)});
  return rows;
}

std::vector<Exits::Table> Exits::tables(const Naming& names, bool durations) const {
  std::vector<Table> tables;
  for (const Own& own : own_) tables.push_back({own.text, rows(own, names, durations)});
  return tables;
}

}  // namespace trapline::page
