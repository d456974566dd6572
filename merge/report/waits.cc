#include "merge/report/waits.h"
#include "merge/model/kernel_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "merge/analyze/pipeline.h"
#include "merge/model/processes.h"
#include "merge/report/common_columns.h"
#include "merge/report/report_data.h"
#include "merge/report/table_kinds.h"
#include "merge/report/units.h"
#include "merge/report/vcpus.h"

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

WaitReport WaitSums::report(const Naming& names) const {
  const auto of = [this](Part part) -> auto& { return sums_[static_cast<std::size_t>(part)]; };
  WaitReport report{of(Part::kPreempted).rows(names), of(Part::kBlocked).rows(names),
                    of(Part::kHalted).rows(names)};
  if (const auto runner = of(Part::kPreempted).runner()) {
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
    row.kind = culprit.kind;
    if (culprit.is_thread()) {
      row.tid = tid_of(culprit.thread);
      row.vm = names.vm(culprit.thread);
      const auto vm = std::ranges::find(names.vms, row.vm, &Vm::id);
      if (vm != names.vms.end()) row.vm_name = vm->given;
      const ThreadId process = names.processes.of(unnamed(culprit.thread), ThreadId{});
      if (process != ThreadId{}) row.process = tid_of(process);
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

namespace {

// Returns a table of waits by culprit. `is_known`: the recorded events show this kind of wait.
// `whole`: names what shares are of. `top`: the most rows; 0: all.
TableOf<WaitRow> wait_table(WaitRows waits, bool is_known, std::string whole, std::size_t top) {
  using Row = WaitRow;
  enum DropOrder : std::uint8_t { kShare = 1, kTimes, kMax };
  const std::size_t left_out = keep_first(waits.rows, top);
  TableOf<Row> table({.left_out = left_out}, std::move(waits.rows), [](const Row& row) {
    const bool named = row.vm.empty() || row.culprit.find("VM ") != std::string::npos;
    std::string text = row.culprit;
    if (!named)
      text.insert(std::min(text.find(", which waited"), text.size()),
                  ", VM " + vm_text(row.vm, row.vm_name));
    return text;
  });
  table.facts = {{"total_ns", is_known ? to_value(waits.total_ns) : CellValue()}};
  table.add({"culprit"}, &Row::culprit);
  table.add({"tid"}, [](const Row& row) { return number_or_null(row.tid, -1); });
  table.add({"process"}, [](const Row& row) { return number_or_null(row.process, -1); });
  table.add({.key = "vm", .unit = Unit::kWord},
            [](const Row& row) { return text_or_null(row.vm); });
  table.add({"vm_name"}, [](const Row& row) { return text_or_null(row.vm_name); });
  table.add({"ns", "time", Unit::kDuration}, &Row::ns);
  table.add(
      {.title = "share", .unit = Unit::kShare, .drop_order = kShare, .whole = std::move(whole)},
      [whole = waits.total_ns](const Row& row) {
        return Share{row.ns, whole};
      });
  table.add({.key = "count", .title = "times", .drop_order = kTimes}, &Row::count);
  table.add({.key = "max_ns", .title = "max", .unit = Unit::kDuration, .drop_order = kMax},
            &Row::max_ns);
  return table;
}

class WaitTables : public TableSink {
 public:
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kExits | SpanClass::kWaits; }
  void exit(const ExitSpan& /*exit*/, const Pipeline& pipeline) override {
    sums_.add(pipeline.waits()->shares());
    sums_.add(pipeline.waits()->halts());
  }
  void fill(ReportData& data, const Naming& names) const override {
    data.waits = sums_.report(names);
    data.wait_counters = names.pipeline.waits()->counters();
  }
  [[nodiscard]] std::vector<Table> tables(const ReportData& data, const Naming&) const override {
    return wait_tables(*data.waits, data, data.top);
  }

 private:
  WaitSums sums_;
};

// Explains why there are no rows of preempted or blocked time; empty if there are some.
std::vector<Paragraph> none_text(const WaitReport& waits, bool is_known) {
  if (!is_known)
    return {{},
            {.text = fmt::format("Whether a vCPU was preempted or blocked was not recorded ({}).",
                                 events::sched_switch.full_name)}};
  if (!waits.preempted.rows.empty() || !waits.blocked.rows.empty()) return {};
  return {{},
          {.text = "No vCPU was preempted or blocked inside its exits, as far as was recorded."}};
}

}  // namespace

std::vector<Table> wait_tables(const WaitReport& waits, const ReportData& report, std::size_t top) {
  const bool is_known = report.knows(State::kPreempted);
  std::vector<Table> tables;
  const auto time = [&report](const WaitRows& rows) {
    return duration_text(rows.total_ns, report.cycles);
  };
  const auto add = [&](const char* key, const WaitRows& rows, const std::string& title,
                       bool known) {
    Table& table = tables.emplace_back(wait_table(rows, known, time(rows), top));
    table.key = key;
    table.csv = true;
    table.titles = {title};
  };
  add("preempted", waits.preempted, fmt::format("Preempted {}, by", time(waits.preempted)),
      is_known);
  add("blocked", waits.blocked, fmt::format("Blocked {}, by", time(waits.blocked)), is_known);
  add("halted", waits.halted, fmt::format("Slept in halts {}, until", time(waits.halted)),
      is_known && report.knows(State::kHalted));
  tables.front().before = none_text(waits, is_known);
  return tables;
}

namespace {

// The time in which a vCPU's thread was runnable and did not run, inside and outside exits.
struct Stolen {
  CulpritSums sums;
  std::uint64_t waits = 0, longest_ns = 0;
  Timestamp longest_at{};
};
struct StealRow : VcpuId, Stolen {
  WaitRows by{};
};

std::string name_of(const StealRow& row) {
  return fmt::format("{} (tid {})", row.text(true), tid_text(row.thread));
}

// Returns the text above a vCPU's table, or in its place if it has no rows.
Paragraph stolen_text(const StealRow& row, const ReportData& report) {
  if (!report.model.sched_switch)
    return {.text = fmt::format("{}: what was stolen from it was not recorded ({}).", name_of(row),
                                events::sched_switch.full_name)};
  if (row.by.rows.empty())
    return {.text = name_of(row) + ": nothing was stolen from it, as far as was recorded."};
  const std::uint64_t interval = report.end_ns - report.start_ns;
  const std::string longest =
      row.waits == 1
          ? "it"
          : fmt::format("the longest, {},", duration_text(row.longest_ns, report.cycles));
  return {.text = fmt::format(
              "{}: for {}{} of {}, in {} wait{}, it was runnable and did not run; {} began at {}.",
              name_of(row), report.counters.gaps == 0 ? "" : "at least ",
              duration_text(row.by.total_ns, report.cycles), duration_text(interval, report.cycles),
              grouped(row.waits), row.waits == 1 ? "" : "s", longest,
              time_text(row.longest_at.ns(), report.cycles)),
          .figures = true};
}

// --steal: how long each vCPU's thread was runnable and did not run, and who ran instead.
class StealTable : public TableSink {
 public:
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kWaits; }
  void wait(const EndedWait& wait, const Pipeline& /*pipeline*/) override {
    Stolen& vcpu = vcpus_[wait.thread];
    std::uint64_t ns = 0;
    std::optional<Timestamp> begin;
    for (const WaitShare& share : wait.shares) {
      if (share.part != Part::kPreempted) continue;
      if (!begin) begin = share.begin;
      ns += share.length();
      const std::size_t before = vcpu.sums.size();
      vcpu.sums.add(share, sums_ < kMostSums ? CulpritSums::kMost : 0);
      sums_ += vcpu.sums.size() - before;
    }
    if (!begin) return;
    if (vcpu.waits++ == 0 || ns > vcpu.longest_ns) {
      vcpu.longest_ns = ns;
      vcpu.longest_at = *begin;
    }
  }
  void fill(ReportData& data, const Naming& names) const override {
    data.wait_counters = names.pipeline.waits()->counters();
  }
  [[nodiscard]] std::vector<Table> tables(const ReportData& report,
                                          const Naming& names) const override {
    using Row = StealRow;
    const bool is_known = report.model.sched_switch;
    std::vector<Row> rows = this->rows(names);
    std::vector<Paragraph> sentences;
    for (const Row& row : rows) sentences.push_back(stolen_text(row, report));
    TableOf<Row> table({.key = "steal", .csv = true}, std::move(rows), name_of);
    table.text_children = table.csv_children = true;
    table.children = [all = table.all(), sentences = std::move(sentences), is_known,
                      top = report.top](std::size_t row) {
      Table by = wait_table(all[row].by, is_known, "the stolen time", top);
      by.key = "by";
      by.before = {{}, sentences[row]};
      if (is_known && by.rows != 0) by.titles = {"Stolen by"};
      return std::vector<Table>{std::move(by)};
    };
    add_vcpu(table, true);
    table.add({"waits"},
              [is_known](const Row& row) { return is_known ? to_value(row.waits) : CellValue(); });
    table.add({"max_ns"}, [](const Row& row) {
      return row.waits == 0 ? CellValue() : to_value(row.longest_ns);
    });
    table.add({"max_at_ns"}, [](const Row& row) {
      return row.waits == 0 ? CellValue() : to_value(row.longest_at.ns());
    });
    return {std::move(table)};
  }

 private:
  // Returns a row for each selected vCPU thread, in order of VM and vCPU.
  [[nodiscard]] std::vector<StealRow> rows(const Naming& names) const {
    std::vector<StealRow> rows;
    for (const VcpuThread& vcpu : names.threads) {
      if (!names.pipeline.counts(vcpu.thread)) continue;
      const auto found = vcpus_.find(vcpu.thread);
      StealRow& row = rows.emplace_back(
          StealRow{{vcpu.thread, names.vcpus}, found == vcpus_.end() ? Stolen() : found->second});
      row.by = row.sums.rows(names);
    }
    std::ranges::sort(rows, {}, &VcpuId::order);
    return rows;
  }
  static constexpr std::size_t kMostSums = 1u << 15;  // over all vCPUs

  std::map<ThreadId, Stolen> vcpus_;
  std::size_t sums_ = 0;
};

}  // namespace

const TableKind kWaitTables = {.option = "--waits",
                               .help = "What exits waited for: a lock, a disk, a CPU, …",
                               .in_page = InPage::kNever,
                               .make = make_sink<WaitTables>,
                               .answers = "what the exits waited for",
                               .of = Part::kBlocked};

const TableKind kStealTable = {.option = "--steal",
                               .help = "Who had the CPU while vCPUs waited for it",
                               .make = make_sink<StealTable>,
                               .answers = "what ran instead",
                               .of = Part::kPreempted};

}  // namespace trapline
