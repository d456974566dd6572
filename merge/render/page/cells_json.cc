#include "merge/render/page/cells_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "merge/render/page/numbered_texts.h"
#include "merge/report/report_data.h"

namespace trapline::page {
namespace {

constexpr std::string_view kNames[] = {"reason", "detail", "device", "qemu-event", "stack", "vcpu"};

using Combo = std::vector<std::size_t>;  // of each dimension, the number of its text; 1 of halts

Combo combo_of(const GroupKey& key, const Naming& names, std::vector<NumberedTexts>& texts) {
  const std::vector<Dimension>& dimensions = Combos::dimensions();
  Combo combo;
  std::size_t word = 0;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const std::vector<Dimension> one = {dimensions[i]};
    const bool is_detail = one[0] == Dimension::kDetail;
    GroupKey part;
    part.words[0] = key.words[word++];
    if (is_detail) part.words[1] = key.words[word++];
    std::string text = ExitKeys(one).text(part, names);
    if (is_detail && text.starts_with("page-fault")) text = "page-fault";
    combo.push_back(texts[i].number(std::move(text)));
  }
  combo.push_back(key.halted ? 1 : 0);
  return combo;
}

// One cell's numbers; what is nothing, or one exit, is left out and its bit says so.
void print(std::string& text, std::uint32_t time, std::uint32_t latency, const Cells::Cell& cell) {
  unsigned given = cell.count != 1 ? 1 : 0;
  for (std::size_t i = 0; i < cell.parts.size(); ++i) given |= cell.parts[i] != 0 ? 2u << i : 0;
  const std::uint64_t place = (std::uint64_t{time} * kLatencyBins + latency) * 32 + given;
  const auto add = [&text](std::uint64_t value) {
    if (!text.empty()) text += ',';
    const fmt::format_int digits(value);
    text.append(digits.data(), digits.size());
  };
  add(place);
  if (cell.count != 1) add(cell.count);
  add(cell.total);
  for (const std::uint64_t ns : cell.parts)
    if (ns != 0) add(ns);
}

std::string print_cells(const Exits& exits, const std::vector<std::size_t>& combo_of,
                        std::size_t combos) {
  std::vector<Cells::Cell> cells = exits.cells.sorted();
  for (Cells::Cell& cell : cells)
    cell.set_combo(combo_of[std::min<std::size_t>(cell.combo(), combo_of.size() - 1)]);
  std::ranges::stable_sort(cells, {}, &Cells::Cell::key);
  std::vector<std::string> flat(combos);
  std::vector<std::uint32_t> last(combos);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cells::Cell& cell = cells[i];
    if (i + 1 < cells.size() && cells[i + 1].key == cell.key) {
      cells[i + 1].add(cell);
      continue;
    }
    print(flat[cell.combo()], cell.time() - last[cell.combo()], cell.latency(), cell);
    last[cell.combo()] = cell.time();
  }
  std::string text = "[";
  for (const std::string& of_combo : flat) text += (text.size() > 1 ? ",[" : "[") + of_combo + ']';
  return text + ']';
}

}  // namespace

std::vector<Table> cell_tables(const Exits& exits, const Naming& names) {
  const std::size_t dimensions = Combos::dimensions().size();
  std::vector<NumberedTexts> texts(dimensions);
  // Two keys may have one text; they are one combination then.
  std::map<Combo, std::size_t> merged;
  std::vector<std::size_t> combo_of_key;
  const auto add = [&](Combo combo) {
    combo_of_key.push_back(merged.emplace(std::move(combo), merged.size()).first->second);
  };
  for (const auto& [key] : exits.combos.combos()) add(combo_of(key, names, texts));
  if (exits.cells.folded() != 0) {
    Combo other;
    for (NumberedTexts& of : texts) other.push_back(of.number(std::string(ReportData::kFoldedKey)));
    other.push_back(0);
    add(std::move(other));
  }
  std::vector<Combo> combos(merged.size());
  for (const auto& [combo, at] : merged) combos[at] = combo;
  Table cells;
  cells.key = "cells";
  cells.raw_rows = print_cells(exits, combo_of_key, merged.size());
  TableOf<Combo> table(std::move(combos), [](const Combo&) { return std::string(); });
  table.key = "combos";
  table.packed = true;
  for (std::size_t i = 0; i < dimensions; ++i) {
    table.facts.push_back({"values." + std::string(kNames[i]), texts[i].all()});
    table.add({std::string(kNames[i])}, [i](const Combo& combo) { return combo[i]; });
  }
  table.add({"halt"}, [dimensions](const Combo& combo) { return combo[dimensions]; });
  return {std::move(table), std::move(cells)};
}

}  // namespace trapline::page
