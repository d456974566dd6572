// --kernel: what the kernel did in exits, by reason.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/kernel_tracker.h"
#include "merge/analyze/pipeline.h"
#include "merge/model/kernel_events.h"
#include "merge/pass/naming.h"
#include "merge/report/common_columns.h"
#include "merge/report/grouping.h"
#include "merge/report/report_data.h"
#include "merge/report/table_kinds.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

// A part of the kernel's time in the exits of one reason.
struct KernelRow {
  std::string reason, part;
  std::uint64_t ns = 0;
  std::optional<std::uint64_t> total_ns;  // time of a function including its callees
  std::uint64_t count = 0;                // number of pieces
  std::uint64_t max_ns = 0;               // the longest piece
};

class KernelTable : public TableSink {
 public:
  // Limit of reasons and their parts; further ones are one row, "[other]".
  static constexpr std::size_t kMost = 4096;
  static constexpr std::size_t kMostOnPage = 200;

  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kExits | SpanClass::kKernelParts;
  }
  // Adds the exit's kernel time to the rows. A function that calls itself counts once in its total.
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    const KernelTracker& kernel = *pipeline.kernel();
    std::set<NameId> counted;
    for (const KernelShare& share : kernel.shares()) {
      sum_of(exit, share.work, share.name).add({share.ns, share.pieces, share.max_ns, 0});
      counted.clear();
      for (KernelStackId stack = share.stack; stack != 0; stack = kernel.frame(stack).parent) {
        const KernelFrame& frame = kernel.frame(stack);
        if (frame.work == KernelWork::kFunction && counted.insert(frame.name).second)
          sum_of(exit, frame.work, frame.name).total_ns += share.ns;
      }
    }
  }
  [[nodiscard]] std::vector<Table> tables(const ReportData& report,
                                          const Naming& names) const override {
    using Row = KernelRow;
    constexpr std::uint8_t kMax = 1, kCount = 2;  // drop_order: the count goes first, then the max
    std::uint64_t whole = other_.ns, untraced = 0;
    for (const auto& [key, sum] : sums_) {
      whole += sum.ns;
      if (std::get<KernelWork>(key) == KernelWork::kUntraced) untraced += sum.ns;
    }
    std::vector<Row> rows = this->rows(names);
    const std::size_t left_out = keep_first(rows, report.page ? kMostOnPage : report.top);
    TableOf<Row> table({.key = "kernel", .left_out = left_out, .csv = true}, std::move(rows),
                       [](const Row& row) { return row.reason + ": " + row.part; });
    const std::string_view who = report.knows(State::kUser) ? "The kernel" : "The kernel or QEMU";
    table.page_title = "reason: event";
    table.facts = {
        {"total_ns", to_value(known_ns(report.known_states(), State::kKernel, whole))},
        {"whose", report.knows(State::kUser) ? "the kernel's" : "the kernel's or QEMU's"}};
    if (!report.knows(State::kKernel)) {
      table.after = {{},
                     {.text = fmt::format("The kernel's time in exits was not recorded ({}).",
                                          events::kvm_exit.full_name)}};
    } else {
      table.titles = {fmt::format("{} {}, in", who, duration_text(whole, report.cycles))};
      if (whole != 0 && untraced == whole)
        table.after = {
            {.text = fmt::format("No event was recorded in it that tells more (record kvm, "
                                 "irq_vectors, {}, {}, {}, {}).",
                                 events::softirq_entry.full_name, events::softirq_exit.full_name,
                                 events::hrtimer_expire_entry.full_name,
                                 events::hrtimer_expire_exit.full_name)}};
    }
    table.add({"reason"}, &Row::reason);
    table.add({"part"}, &Row::part);
    table.add(
        {.key = "ns", .title = "time", .unit = Unit::kDuration, .highlight = Highlight::kLargest},
        &Row::ns);
    table.add(
        {.title = "share", .unit = Unit::kShare, .whole = duration_text(whole, report.cycles)},
        [whole](const Row& row) {
          return Share{row.ns, whole};
        });
    const bool functions =
        std::ranges::any_of(table.all(), [](const Row& row) { return row.total_ns.has_value(); });
    table.add(
        {.key = "total_ns", .title = functions ? "with callees" : "", .unit = Unit::kDuration},
        &Row::total_ns);
    table.add({.key = "count", .title = "times", .drop_order = kCount}, &Row::count);
    table.add({.key = "max_ns", .title = "max", .unit = Unit::kDuration, .drop_order = kMax},
              &Row::max_ns);
    return {std::move(table)};
  }

 private:
  // Returns the rows, the largest first. Rows of one name are merged, since two numbers may
  // have the same name.
  [[nodiscard]] std::vector<KernelRow> rows(const Naming& names) const {
    std::map<std::pair<std::string, std::string>, Sum> sums;
    for (const auto& [key, sum] : sums_) {
      const auto& [source, reason, work, name] = key;
      sums[{printable(names.timeline.source(source).reason_name(reason)),
            printable(kernel_work_text(work, names.names[name]))}]
          .add(sum);
    }
    if (other_.count != 0) sums[{std::string(ReportData::kFoldedKey), "-"}].add(other_);
    std::vector<KernelRow> rows;
    for (const auto& [key, sum] : sums) {
      const auto total = sum.total_ns == 0 ? std::nullopt : std::optional(sum.total_ns);
      rows.push_back({key.first, key.second, sum.ns, total, sum.count, sum.max_ns});
    }
    std::ranges::stable_sort(rows, std::greater<>(), &KernelRow::ns);
    return rows;
  }
  // Source and reason, and the kind and name of the kernel's work.
  using Key = std::tuple<std::uint16_t, ExitReason, KernelWork, NameId>;
  struct Sum {
    std::uint64_t ns = 0, count = 0, max_ns = 0, total_ns = 0;
    void add(const Sum& other) {
      ns += other.ns;
      count += other.count;
      max_ns = std::max(max_ns, other.max_ns);
      total_ns += other.total_ns;
    }
  };
  Sum& sum_of(const ExitSpan& exit, KernelWork work, NameId name) {
    return bounded(sums_, Key{exit.source, exit.reason, work, name}, kMost, other_);
  }

  std::map<Key, Sum> sums_;
  Sum other_;
};

}  // namespace

const TableKind kKernelTable = {.option = "--kernel",
                                .help = "The kernel's time in exits, by its events",
                                .make = make_sink<KernelTable>};

}  // namespace trapline
