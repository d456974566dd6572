#include "merge/render/page/kernel_stacks.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "merge/report/report.h"

namespace trapline::page {

Json kernel_stacks_json(const KernelStacks& stacks, const Naming& names) {
  FoldedTimes times;
  stacks.each(names, [&times](const std::string& stack, std::uint64_t ns) { times[stack] += ns; });
  std::uint64_t rest = 0;
  if (const auto other = times.extract(std::string(Report::kFoldedKey))) rest = other.mapped();
  std::vector<std::pair<std::string, std::uint64_t>> order(times.begin(), times.end());
  std::ranges::stable_sort(order, std::greater<>(), [](const auto& one) { return one.second; });
  Json rows = Json::array();
  for (auto& [stack, ns] : order) {
    // A clipped stack would name another one.
    if (rows.size() < kMostKernelRows && stack.size() <= kLongestKernelStack) {
      rows.push_back({std::move(stack), ns});
    } else {
      rest += ns;
    }
  }
  if (rest != 0) rows.push_back({Report::kFoldedKey, rest});
  return {{"columns", {"stack", "ns"}}, {"rows", std::move(rows)}};
}

}  // namespace trapline::page
