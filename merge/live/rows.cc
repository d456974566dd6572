#include "merge/live/rows.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace trapline::live {
namespace {

// Returns the place of a dimension's words in a cell's key.
std::size_t place_of(Dimension dimension, const std::vector<Dimension>& cells) {
  if (dimension == Dimension::kVm) dimension = Dimension::kVcpu;
  std::size_t at = 0;
  for (const Dimension cell : cells) {
    if (cell == dimension) return at;
    at += cell == Dimension::kDetail ? 2 : 1;
  }
  return at;
}

// Returns the key that ExitKeys(by) would make for the cell's exits.
GroupKey project(const GroupKey& cell, const std::vector<Dimension>& by,
                 const std::vector<Dimension>& cells) {
  if (const GroupKey* row = ExitKeys(by).halted_row(cell.halted)) return *row;
  GroupKey key;
  std::size_t to = 0;
  for (const Dimension dimension : by) {
    const std::size_t from = place_of(dimension, cells);
    key.words[to++] = cell.words[from];
    if (dimension == Dimension::kDetail) key.words[to++] = cell.words[from + 1];
  }
  return key;
}

void add(LiveRow& row, const Cell& cell) {
  row.halts = (row.total.count() == 0 || row.halts) && cell.slowest.halt;
  const bool as_long = row.total.count() != 0 && cell.total.max() == row.total.max();
  if (row.total.count() == 0 || cell.total.max() > row.total.max() ||
      (as_long && cell.slowest.start.ns() < row.max_at_ns)) {
    row.max_at_ns = cell.slowest.start.ns();
    row.cell = cell.key;
  }
  row.total.merge(cell.total);
  for (std::size_t i = 0; i < kParts; ++i) row.parts[i] += cell.parts[i];
  row.carried += cell.carried;
  row.carried_ns += cell.carried_ns;
}

}  // namespace

bool Scope::holds(ThreadId of, const Naming& naming) const {
  if (thread && of != *thread) return false;
  return naming.vcpus.fits(of, vcpus);
}

bool Scope::holds(const GroupKey& key, const Naming& naming) const {
  return (!reason || key.words[kReasonWord] == *reason) &&
         (!device || key.words[kDeviceWord] == *device) &&
         holds(ThreadId{static_cast<std::int32_t>(key.words[kVcpuWord])}, naming);
}

std::vector<LiveRow> rows_of(const Frame& frame, const std::vector<Dimension>& by,
                             const Scope& scope, SortBy sort, const Engine& engine) {
  const ExitKeys keys(by);
  std::map<std::string, LiveRow> by_name;  // two numbers may have one name
  for (const Cell& cell : frame.cells) {
    if (!scope.holds(cell.key, engine.naming())) continue;
    add(by_name[keys.text(project(cell.key, by, engine.dimensions()), engine.naming())], cell);
  }
  std::vector<LiveRow> rows;
  for (auto& [key, row] : by_name) {
    row.key = key;
    rows.push_back(std::move(row));
  }
  const bool durations = engine.model().durations();
  std::stable_sort(rows.begin(), rows.end(), [&](const LiveRow& a, const LiveRow& b) {
    return measure(a, sort, durations) > measure(b, sort, durations);
  });
  return rows;
}

std::string dimension_text(const GroupKey& cell, Dimension dimension, const Engine& engine) {
  const std::vector<Dimension> by{dimension};
  return ExitKeys(by).text(project(cell, by, engine.dimensions()), engine.naming());
}

std::vector<VcpuRow> vcpus_of(const Frame& frame, const Scope& scope, const Engine& engine) {
  const Naming& naming = engine.naming();
  std::vector<VcpuRow> rows;
  for (const VcpuUse& use : frame.vcpus) {
    if (!scope.holds(use.thread, naming)) continue;
    VcpuRow row;
    row.vm = naming.vcpus.vm_id(use.thread);
    row.vm_inferred = row.vm.starts_with('~') || row.vm.starts_with('?');
    row.vcpu = use.totals.vcpu;
    row.tid = static_cast<std::int32_t>(use.thread);
    row.comm = naming.timeline.source(use.totals.source).comm(use.thread);
    row.totals = use.totals;
    rows.push_back(std::move(row));
  }
  std::ranges::sort(rows, {}, [](const auto& row) { return std::tie(row.vm, row.vcpu, row.tid); });
  return rows;
}

std::vector<SlowExit> slow_of(const Frame& frame, const Scope& scope, const Engine& engine) {
  std::vector<SlowExit> slow;
  std::set<std::pair<Timestamp, ThreadId>> seen;
  const auto add = [&](const SlowExit& exit) {
    if (scope.holds(exit.key, engine.naming()) && seen.insert({exit.start, exit.thread}).second) {
      slow.push_back(exit);
    }
  };
  for (const SlowExit& exit : frame.slow) add(exit);
  // A cell without any of the slow exits adds its slowest exit. Halts are only added if a reason
  // was chosen.
  for (const Cell& cell : frame.cells) {
    if (!cell.slowest.halt || scope.reason) add(cell.slowest);
  }
  std::ranges::stable_sort(slow, std::greater(), &SlowExit::total);
  return slow;
}

}  // namespace trapline::live
