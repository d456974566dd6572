#include "merge/report/vcpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <ranges>
#include <string_view>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/report/common_columns.h"

namespace trapline {
namespace {

// The order in which a narrow terminal drops columns, the highest first, after those of states.
constexpr std::uint8_t kCount = kParts + 2, kRate = kCount + 1, kNotKnown = kRate + 1;

// Calls add(key, get) for each figure of an Overhead; get(overhead) returns its value. `known`: the
// events show how long vCPUs waited for a CPU.
void each_figure(bool known, const auto& add) {
  const auto share = [](std::uint64_t ns, const Overhead& overhead) -> CellValue {
    if (overhead.busy_ns() == 0) return {};
    return static_cast<double>(ns) / static_cast<double>(overhead.busy_ns());
  };
  add("guest_ns", [](const Overhead& all) { return to_value(all.guest_ns); });
  add("exit_ns", [](const Overhead& all) { return to_value(all.exit_ns); });
  add("not_run_ns",
      [known](const Overhead& all) { return known ? to_value(all.not_run_ns) : CellValue(); });
  add("share", [share](const Overhead& all) { return share(all.exit_ns, all); });
  add("not_run_share", [share, known](const Overhead& all) {
    return known ? share(all.not_run_ns, all) : CellValue();
  });
}

}  // namespace

bool shows_vms(const ReportData& report) {
  return std::any_of(report.vcpus.begin(), report.vcpus.end(), [&](const VcpuRow& row) {
    return row.vm != report.vcpus.front().vm || !row.vm_name.empty();
  });
}

std::optional<std::uint64_t> exits_per_second(const VcpuRow& row, const ReportData& report) {
  // Time in which the state is not seen counts too: any further exit would have been recorded,
  // unless events were lost or left out.
  std::uint64_t seen = row.totals.time_ns();
  if (report.counters.gaps != 0 || report.counters.left_out_pieces != 0) {
    // After an exit without an end, the time until the next event is not seen without a loss.
    if (report.model.from_userspace_exit || report.lacks_switches ||
        report.counters.exits.exit_without_entry > report.open_exits)
      return std::nullopt;
    seen -= row.totals.not_seen_ns;
  }
  if (seen == 0 || report.lacks_entries) return std::nullopt;
  const double rate = static_cast<double>(row.totals.exits) * 1e9 / static_cast<double>(seen);
  return static_cast<std::uint64_t>(rate + 0.5);
}

std::optional<std::uint64_t> exits_per_second_together(const ReportData& report) {
  const auto begin = [](const VcpuRow& row) { return row.totals.begin; };
  const auto end = [](const VcpuRow& row) { return row.totals.end; };
  // Rates of different times have no sum.
  const auto [first, last_begin] = std::ranges::minmax_element(report.vcpus, {}, begin);
  const auto [first_end, last] = std::ranges::minmax_element(report.vcpus, {}, end);
  const Timestamp common_begin = begin(*last_begin);
  const Timestamp common_end = end(*first_end);
  if (common_begin > common_end ||
      elapsed(common_begin, common_end) < elapsed(begin(*first), end(*last)) / 10 * 9)
    return std::nullopt;
  std::optional<std::uint64_t> sum;
  for (const VcpuRow& row : report.vcpus)
    if (const auto rate = exits_per_second(row, report)) sum = sum.value_or(0) + *rate;
  return sum;
}

void fill_vcpus(ReportData& report, const Naming& names) {
  const Pipeline& pipeline = names.pipeline;
  const std::vector<VcpuTotalsOf> all = pipeline.vcpus();
  report.threads = all.size();
  report.open_exits = static_cast<std::size_t>(std::ranges::count_if(all, [](auto& of) {
    return of.totals.open && of.totals.open != State::kGuest && of.totals.open != State::kNotSeen;
  }));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ThreadId thread = all[i].thread;
    if (!pipeline.counts(thread)) continue;
    VcpuTotals totals = all[i].totals;
    if (report.rows_of == RowsOf::kCalls) {
      // For calls, all time outside recorded functions counts as not seen.
      const std::uint64_t known = totals.time_ns(), all_ns = report.end_ns - report.start_ns;
      totals.not_seen_ns = all_ns > known ? all_ns - known : 0;
    } else if (report.knows(State::kGuest)) {
      if (!report.overhead) report.overhead.emplace();
      report.overhead->add(totals);
    }
    report.vcpus.push_back({{thread, names.vcpus},
                            names.vms[i].inferred,
                            names.timeline.source(totals.source).comm(thread),
                            totals,
                            names.processes.is_of_several(thread)});
  }
  std::ranges::sort(report.vcpus, {}, &VcpuId::order);
}

namespace {

constexpr std::size_t kMostShown = 16;

// Calls have no time in the kernel, and none of the states that KVM's events show.
constexpr std::array<std::string_view, kStates> kTitlesOfCalls = {
    "", "devices", "preempted", "blocked", "", "guest", "", "", "elsewhere"};

// Returns the table of `rows`, which are the report's rows, or those of them that text shows.
TableOf<VcpuRow> table_of(std::span<const VcpuRow> rows, const ReportData& report) {
  const bool calls = report.rows_of == RowsOf::kCalls, with_vm = shows_vms(report);
  TableOf<VcpuRow> table({}, rows, [with_vm](const VcpuRow& row) {
    return fmt::format("{} (tid {})", row.text(with_vm), tid_text(row.thread));
  });
  add_vcpu(table, true);
  const std::string counted = calls ? "calls" : "exits";
  table.add({.key = counted, .title = counted, .drop_order = kCount},
            [&report](const VcpuRow& row) {
              return report.lacks_entries ? CellValue() : to_value(row.totals.exits);
            });
  if (!calls && !report.cycles) {
    table.add({.title = "exits/s", .drop_order = kRate},
              [&report](const VcpuRow& row) -> CellValue {
                return to_value(exits_per_second(row, report));
              });
  }
  table.add({.key = "time_ns",
             .title = calls ? "" : "time",
             .unit = Unit::kDuration,
             .drop_order = kCount},
            [](const VcpuRow& row) { return row.totals.time_ns(); });
  const States known = report.known_states();
  const std::uint64_t interval = report.end_ns - report.start_ns;
  const auto whole = [calls, interval](const VcpuRow& row) {
    return calls ? interval : row.totals.time_ns();
  };
  add_states(table, known, calls ? kTitlesOfCalls : state_titles(known),
             calls ? "wall time" : "the vCPU's time", kNotKnown, &VcpuRow::totals, whole);
  if (calls) return table;
  table.add({"start_ns"}, [](const VcpuRow& row) { return row.totals.begin.ns(); });
  table.add({"end_ns"}, [](const VcpuRow& row) { return row.totals.end.ns(); });
  table.add({"open"},
            [](const VcpuRow& row) { return row.totals.open ? CellValue(Absent()) : CellValue(); });
  table.add({"open.state"}, [](const VcpuRow& row) {
    return row.totals.open ? to_value(kStateKeys[static_cast<std::size_t>(*row.totals.open)])
                           : CellValue(Absent());
  });
  table.add({"open.ns"}, [](const VcpuRow& row) {
    return row.totals.open ? to_value(row.totals.open_ns) : CellValue(Absent());
  });
  const auto overhead_of = [known = report.knows(State::kGuest)](const VcpuRow& row) {
    std::optional<Overhead> overhead;
    if (known) overhead.emplace().add(row.totals);
    return overhead;
  };
  table.add({"overhead"}, [overhead_of](const VcpuRow& row) {
    return overhead_of(row) ? CellValue(Absent()) : CellValue();
  });
  each_figure(report.knows(State::kPreempted), [&](const std::string& key, auto figure) {
    table.add({"overhead." + key}, [overhead_of, figure](const VcpuRow& row) {
      const std::optional<Overhead> overhead = overhead_of(row);
      return overhead ? figure(*overhead) : CellValue(Absent());
    });
  });
  return table;
}

// Returns the rows that text shows: of many vCPUs only the busiest, in their order, and a row that
// sums up all.
std::vector<VcpuRow> shown_vcpus(const ReportData& report) {
  std::vector<VcpuRow> rows = report.vcpus;
  if (rows.size() > kMostShown) {
    std::ranges::stable_sort(rows, std::greater(),
                             [](const VcpuRow& row) { return row.totals.exits; });
    rows.resize(kMostShown);
    std::ranges::sort(rows, {}, &VcpuId::order);
  }
  if (report.vcpus.size() == 1 || report.rows_of == RowsOf::kCalls) return rows;
  VcpuRow& all = rows.emplace_back();
  for (const VcpuRow& row : report.vcpus) all.totals.add(row.totals);
  return rows;
}

// Names the last row, which has the sums over all vCPUs, and gives it the sum of their rates.
void name_sum(Table& table, const ReportData& report) {
  const std::size_t last = table.rows - 1;
  // A vCPU that was made again has several rows, one after the other in time.
  std::size_t vcpus = 0;
  const VcpuRow* before = nullptr;
  for (const VcpuRow& row : report.vcpus) {
    const bool is_again =
        before != nullptr && row.vcpu != kNoVcpu && row.vcpu == before->vcpu &&
        row.vm == before->vm &&
        (before->totals.end <= row.totals.begin || row.totals.end <= before->totals.begin);
    if (!is_again) ++vcpus;
    before = &row;
  }
  table.name = [all = fmt::format("all {} vCPU{}", vcpus, vcpus == 1 ? "" : "s"), name = table.name,
                last](std::size_t row) { return row == last ? all : name(row); };
  const CellValue rates = to_value(exits_per_second_together(report));
  for (Table::Described& column : table.columns) {
    if (column.drop_order != kRate) continue;
    column.value = [rates, value = column.value, last](std::size_t row) {
      return row == last ? rates : value(row);
    };
  }
}

// Explains the table's titles, and the busy time that shares in other tables are of.
std::string legend_text(const ReportData& report) {
  const bool is_offline =
      std::ranges::any_of(report.vcpus, [](auto& row) { return row.totals.offline_ns != 0; });
  return fmt::format(
      "time: from the vCPU's first event on{}; busy: guest, exits{} and waits for a CPU{}",
      is_offline ? "; offline: before its first entry, or switched off" : "",
      report.time_in(State::kBlocked) != 0 ? ", in which it may be blocked," : "",
      shows_vms(report) && report.vcpus.front().vm_name.empty() ? "; VM: its VMM's process id"
                                                                : "");
}

Table in_text(const ReportData& report) {
  const bool calls = report.rows_of == RowsOf::kCalls;
  const auto rows = std::make_shared<const std::vector<VcpuRow>>(shown_vcpus(report));
  Table table = table_of(*rows, report);
  table.owned = rows;
  table.titles = {calls ? "Share of wall time" : "Of all the vCPU's time"};
  if (report.vcpus.size() > 1 && !calls) name_sum(table, report);
  if (report.vcpus.size() > kMostShown)
    table.after.push_back(
        {.text = fmt::format("{} vCPUs with fewer {} are not shown (--by vm sums those of each VM, "
                             "--vm shows one).",
                             report.vcpus.size() - kMostShown, name_of(report.rows_of))});
  if (!calls && report.knows(State::kGuest))
    table.after.push_back({.text = legend_text(report), .shown = Shown::kLegend});
  if (calls)
    table.after.push_back({.text = "The time elsewhere is in functions that were not recorded, "
                                   "before the first call and after the last."});
  return table;
}

}  // namespace

Table vcpu_table(const ReportData& report) {
  TableOf<VcpuRow> table = table_of(report.vcpus, report);
  table.key = "vcpus";
  table.weight = [all = table.all()](std::size_t row) { return all[row].totals.exits; };
  table.in_text = std::make_shared<const Table>(report.vcpus.empty() ? Table() : in_text(report));
  return table;
}

void add_overhead(Facts& facts, const ReportData& report) {
  if (!report.overhead) {
    facts.push_back({"overhead", {}});
    return;
  }
  each_figure(report.knows(State::kPreempted), [&](const std::string& key, auto figure) {
    facts.push_back({"overhead." + key, figure(*report.overhead)});
  });
}

}  // namespace trapline
