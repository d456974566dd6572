#include "merge/render/page/fault_map.h"

#include <string>

namespace trapline::page {

void FaultMap::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  if (!is_page_fault(exit)) return;
  if (!bins_.started) bins_.start(pipeline.begin().value_or(exit.start));
  const PageFault& fault = pipeline.faults()->last();
  const FaultTotal sum{1, exit.total()};
  causes_[fault.why.cause].add(sum);
  const ThreadId vm = pipeline.processes().of(exit.thread, exit.thread);
  if (!fault.address || (vms_.size() >= kMostVms && !vms_.contains(vm))) {
    ++unplaced_;
    return;
  }
  vms_.try_emplace(vm, exit.thread);
  while (bins_.bin(exit.start.ns()) >= kMostBins) coarsen();
  regions_[{vm, *fault.address >> region_bits_}][{bins_.bin(exit.start.ns()), fault.why.cause}].add(
      sum);
  while (regions_.size() > kMostRegions && region_bits_ < kMostRegionBits) widen();
}

void FaultMap::coarsen() {
  for (auto& [key, region] : regions_) {
    for (const Region before = std::exchange(region, {}); const auto& [place, sum] : before)
      region[{bins_.doubled(place.first), place.second}].add(sum);
  }
  ++bins_.shift;
}

// Doubles the length of the regions.
void FaultMap::widen() {
  ++region_bits_;
  for (const auto before = std::exchange(regions_, {}); const auto& [key, region] : before) {
    Region& to = regions_[{key.first, key.second >> 1}];
    for (const auto& [place, sum] : region) to[place].add(sum);
  }
}

std::size_t FaultMap::cells() const {
  std::size_t cells = 0;
  for (const auto& [key, region] : regions_) cells += region.size();
  return cells;
}

Table FaultMap::table(const Naming& names) {
  while (cells() > kMostCells && regions_.size() > vms_.size() && region_bits_ < kMostRegionBits)
    widen();
  // Threads whose process was not known during the pass may turn out to be of one VM: merges them.
  std::map<std::pair<std::string, std::uint64_t>, Region> of_vms;
  for (const auto& [key, region] : regions_) {
    Region& to = of_vms[{names.vcpus.vm(vms_.at(key.first)), key.second}];
    for (const auto& [place, sum] : region) to[place].add(sum);
  }
  struct Row {
    std::string vm;
    std::uint64_t address = 0;
    std::vector<std::uint64_t> cells{};  // bins since the previous cell, cause, count, ns
  };
  std::vector<Row> rows;
  for (const auto& [key, region] : of_vms) {
    Row& row = rows.emplace_back(Row{key.first, key.second << region_bits_});
    std::uint64_t last = 0;
    for (const auto& [place, sum] : region) {
      const std::uint64_t step = place.first - std::exchange(last, place.first);
      const auto cause = static_cast<std::uint64_t>(place.second);
      row.cells.insert(row.cells.end(), {step, cause, sum.count, sum.ns});
    }
  }
  std::vector<std::string> texts;
  std::vector<std::uint64_t> causes, counts, times;
  for (const auto& [cause, sum] : causes_) {
    causes.push_back(static_cast<std::uint64_t>(cause));
    texts.push_back(cause == FaultCause::kUserSpace ? "served by user space"
                                                    : names.text(PageFault::Why{.cause = cause}));
    counts.push_back(sum.count);
    times.push_back(sum.ns);
  }
  TableOf<Row> table({.key = "fault_map", .packed = true}, std::move(rows), &Row::vm);
  table.facts = {{"region_bytes", std::uint64_t{1} << region_bits_},
                 {"unplaced", unplaced_},
                 {"causes", causes},
                 {"cause_texts", texts},
                 {"counts", counts},
                 {"times", times}};
  table.add({"vm"}, &Row::vm);
  table.add({"address"}, &Row::address);
  table.add({"cells"}, &Row::cells);
  return table;
}

}  // namespace trapline::page
