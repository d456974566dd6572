#include "merge/render/page/waits.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace trapline::page {

void Waits::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  if (!started_) {
    started_ = true;
    bins_.first = pipeline.begin().value_or(exit.start).ns();
  }
  for (const WaitShare& share : pipeline.waits()->shares()) add(share);
}

void Waits::add(const WaitShare& share) {
  auto& sums = share.part == Part::kBlocked ? blocked_ : preempted_;
  Culprit culprit = share.culprit;
  if (sums.size() >= kMostCulprits && !sums.contains(culprit)) {
    culprit = Culprit();
    culprit.missing = Missing::kRoom;
  }
  if (share.length() != 0) {
    while (bins_.bin(share.end.ns() - 1) >= kMostBins) coarsen();
  }
  Sum& sum = sums[culprit];
  sum.ns += share.length();
  ++sum.count;
  sum.max_ns = std::max(sum.max_ns, share.length());
  for (std::uint64_t at = share.begin.ns(); at < share.end.ns();) {
    const std::uint64_t bin = bins_.bin(at);
    const std::uint64_t to = bins_.until(at, share.end.ns());
    if (sum.time.size() <= bin) sum.time.resize(bin + 1);
    sum.time[bin] += to - at;
    at = to;
  }
}

void Waits::coarsen() {
  for (auto* sums : {&preempted_, &blocked_}) {
    for (auto& [culprit, sum] : *sums) {
      std::vector<std::uint64_t> longer;
      for (std::size_t bin = 0; bin < sum.time.size(); ++bin) {
        const auto to = static_cast<std::size_t>(bins_.doubled(bin));
        if (longer.size() <= to) longer.resize(to + 1);
        longer[to] += sum.time[bin];
      }
      sum.time = std::move(longer);
    }
  }
  ++bins_.shift;
}

Json Waits::json(const std::map<Culprit, Sum>& sums, const Naming& names) const {
  struct Row {
    std::string culprit, vm;
    const Sum* sum;
  };
  std::vector<Row> rows;
  std::uint64_t total = 0;
  for (const auto& [culprit, sum] : sums) {
    const bool thread = culprit.is_thread();
    rows.push_back({names.text(culprit), thread ? names.vm(culprit.thread) : std::string(), &sum});
    total += sum.ns;
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(b.sum->ns, a.culprit, a.vm) < std::tie(a.sum->ns, b.culprit, b.vm);
  });
  Json list = Json::array();
  for (const Row& row : rows) {
    if (list.size() >= kMostRows) break;
    Json time = Json::array();  // bins to go on, ns; …
    std::size_t last = 0;
    for (std::size_t bin = 0; bin < row.sum->time.size(); ++bin) {
      if (row.sum->time[bin] == 0) continue;
      time.push_back(bin - last);
      time.push_back(row.sum->time[bin]);
      last = bin;
    }
    list.push_back({{"culprit", row.culprit},
                    {"vm", row.vm.empty() ? Json() : Json(row.vm)},
                    {"ns", row.sum->ns},
                    {"count", row.sum->count},
                    {"max_ns", row.sum->max_ns},
                    {"time", std::move(time)}});
  }
  const std::size_t left_out = rows.size() - list.size();
  const States known = names.pipeline.exits().known_states();
  const bool told = known[static_cast<std::size_t>(State::kPreempted)];
  return {{"total_ns", told ? Json(total) : Json()},
          {"rows", std::move(list)},
          {"rows_left_out", left_out}};
}

Json Waits::json(const Naming& names) const {
  return {{"preempted", json(preempted_, names)}, {"blocked", json(blocked_, names)}};
}

}  // namespace trapline::page
