#include "merge/render/page/cells.h"

#include <algorithm>
#include <utility>

namespace trapline::page {
namespace {

constexpr std::size_t kFewestBins = 16;

std::uint64_t mix(std::uint64_t value) {
  value *= 0x9e3779b97f4a7c15u;
  return value ^ value >> 29;
}

std::uint64_t cell_key(std::uint32_t combo, std::uint64_t time, std::uint64_t latency) {
  return (std::uint64_t{combo} + 1) << 32 | time << 8 | latency;
}

}  // namespace

void Cells::Cell::add(const Cell& other) {
  count += other.count;
  total += other.total;
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] += other.parts[i];
}

std::size_t Cells::slot_of(std::uint64_t key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = static_cast<std::size_t>(mix(key)) & mask;
  while (slots_[slot].key != 0 && slots_[slot].key != key) slot = (slot + 1) & mask;
  return slot;
}

void Cells::rehash(std::size_t slots, bool doubled) {
  std::vector<Cell> old = std::exchange(slots_, std::vector<Cell>(slots));
  size_ = 0;
  for (const Cell& cell : old) {
    if (cell.key == 0) continue;
    const std::uint64_t key =
        doubled ? cell_key(cell.combo(), bins_.doubled(cell.time()), cell.latency()) : cell.key;
    Cell& place = slots_[slot_of(key)];
    size_ += place.key == 0 ? 1 : 0;
    place.key = key;
    place.add(cell);
  }
  if (doubled) ++bins_.shift;
}

void Cells::coarsen() { rehash(slots_.size(), true); }

void Cells::add(std::uint32_t combo, const ExitSpan& exit, const Pipeline& pipeline) {
  if (!bins_.started) bins_.start(pipeline.begin().value_or(exit.start));
  while (bins_.bin(exit.start.ns()) >= kMostBins) coarsen();
  const std::uint64_t latency = latency_bin(exit.total());
  std::uint64_t key = cell_key(combo, bins_.bin(exit.start.ns()), latency);
  std::size_t slot = slot_of(key);
  if (slots_[slot].key == 0) {
    if (size_ >= kMostCells) {
      if (bins_.bin(pipeline.end().ns()) > kFewestBins) {
        coarsen();
      } else {
        combo = Combos::kOther;
      }
    } else if (2 * size_ >= slots_.size()) {
      rehash(2 * slots_.size(), false);
    }
    key = cell_key(combo, bins_.bin(exit.start.ns()), latency);
    slot = slot_of(key);
  }
  if (combo == Combos::kOther) ++folded_;
  Cell& cell = slots_[slot];
  size_ += cell.key == 0 ? 1 : 0;
  cell.key = key;
  ++cell.count;
  cell.total += exit.total();
  for (std::size_t i = 0; i < cell.parts.size(); ++i) cell.parts[i] += exit.parts[i + 1];
}

std::vector<Cells::Cell> Cells::sorted() const {
  std::vector<Cell> cells;
  cells.reserve(size_);
  std::copy_if(slots_.begin(), slots_.end(), std::back_inserter(cells),
               [](const Cell& cell) { return cell.key != 0; });
  std::sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) { return a.key < b.key; });
  return cells;
}

}  // namespace trapline::page
