#include "merge/report/wait_table.h"

#include <algorithm>
#include <tuple>

#include "merge/report/keyed_rows.h"
#include "merge/report/tables.h"

namespace trapline {

void CulpritSums::add(const WaitShare& share, std::size_t most) {
  Sum& sum = bounded(sums_, share.culprit, most, unknown_for(Missing::kRoom));
  if (sum.count == 0) sum.root = share.root;
  if (sum.root != share.root) sum.root = {};
  sum.ns += share.length();
  ++sum.count;
  sum.max_ns = std::max(sum.max_ns, share.length());
}

std::optional<CulpritSums::Runner> CulpritSums::runner() const {
  const Culprit* most = nullptr;
  std::uint64_t ns = 0, second = 0, unknown = 0;
  for (const auto& [culprit, sum] : sums_) {
    const Missing missing = culprit.missing;
    if (missing == Missing::kLost || missing == Missing::kSelected || missing == Missing::kCpu)
      return std::nullopt;
    if (culprit.kind == CulpritKind::kUnknown) {
      unknown += sum.ns;
    } else if (most == nullptr || sum.ns > ns) {
      second = ns;
      ns = sum.ns;
      most = &culprit;
    } else {
      second = std::max(second, sum.ns);
    }
  }
  if (most == nullptr || most->kind != CulpritKind::kThread || ns < second + unknown)
    return std::nullopt;
  return Runner{most->thread, ns, second + unknown};
}

WaitReport WaitTable::report(const Naming& names) const {
  WaitReport report{preempted_.rows(names), blocked_.rows(names), halted_.rows(names)};
  if (const auto runner = preempted_.runner()) {
    report.ran_most = names.text(runner->thread);
    report.ran_most_ns = runner->ns;
    report.others_at_most_ns = runner->others_at_most_ns;
  }
  return report;
}

WaitRows CulpritSums::rows(const Naming& names) const {
  WaitRows result;
  for (const auto& [culprit, sum] : sums_) {
    WaitRow row;
    row.culprit = names.text(culprit, sum.root);
    if (culprit.is_thread()) {
      row.tid = static_cast<std::int32_t>(culprit.thread);
      row.vm = names.vm(culprit.thread);
      if (const Vm* vm = names.vcpus.vm_of(row.vm)) row.vm_name = vm->given;
      const ThreadId process = names.processes.of(culprit.thread, ThreadId{});
      if (process != ThreadId{}) row.process = static_cast<std::int32_t>(process);
    }
    row.ns = sum.ns;
    row.count = sum.count;
    row.max_ns = sum.max_ns;
    result.total_ns += sum.ns;
    result.rows.push_back(std::move(row));
  }
  std::sort(result.rows.begin(), result.rows.end(), [](const WaitRow& a, const WaitRow& b) {
    return std::tie(b.ns, a.culprit, a.tid) < std::tie(a.ns, b.culprit, b.tid);
  });
  return result;
}

Table wait_table(const WaitRows& waits, std::string_view part, std::int32_t vcpu_tid) {
  using Row = WaitRow;
  enum Goes : std::uint8_t {
    kShare = 1,
    kCount,
    kMax
  };  // where a terminal is narrow, the last first
  TableOf<Row> table(waits.rows, [](const Row& row) {
    const bool named = row.vm.empty() || row.culprit.find("VM ") != std::string::npos;
    return named ? row.culprit : row.culprit + ", VM " + vm_text(row.vm, row.vm_name);
  });
  table.left_out = waits.rows_left_out;
  table.add({.key = "part", .unit = Unit::kWord, .json = false},
            [part](const Row&) { return part; });
  table.add({.key = "vcpu_tid", .json = false},
            [vcpu_tid](const Row&) { return number_or_null(vcpu_tid, -1); });
  table.add({"culprit"}, &Row::culprit);
  table.add({"tid"}, [](const Row& row) { return number_or_null(row.tid, -1); });
  table.add({"process"}, [](const Row& row) { return number_or_null(row.process, -1); });
  table.add({.key = "vm", .unit = Unit::kWord},
            [](const Row& row) { return text_or_null(row.vm); });
  table.add({.key = "vm_name", .csv = false},
            [](const Row& row) { return text_or_null(row.vm_name); });
  table.add({"ns", "time", Unit::kDuration}, &Row::ns);
  table.add({.title = "share", .unit = Unit::kShare, .goes = kShare},
            [whole = waits.total_ns](const Row& row) {
              return Share{row.ns, whole};
            });
  table.add({.key = "count", .title = "times", .goes = kCount}, &Row::count);
  table.add({.key = "max_ns", .title = "max", .unit = Unit::kDuration, .goes = kMax}, &Row::max_ns);
  return table;
}

}  // namespace trapline
