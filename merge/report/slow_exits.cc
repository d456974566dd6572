#include "merge/report/slow_exits.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/text.h"
#include "merge/analyze/pipeline.h"
#include "merge/report/common_columns.h"
#include "merge/report/options.h"
#include "merge/report/report_data.h"
#include "merge/report/table_kinds.h"
#include "merge/report/units.h"
#include "merge/report/vcpus.h"

namespace trapline {

KeptExit::KeptExit(const ExitSpan& exit, const Pipeline& pipeline)
    : ExitSpan(exit), preempted(largest(pipeline.waits()->shares(), Part::kPreempted)) {
  intervals = {};
  handlers = {};
}

ExitRow exit_row(const ExitSpan& span, NameId function, const Naming& naming,
                 const LargestCulprit& preempted) {
  const Source& source = naming.timeline.source(span.source);
  ExitRow row{span,
              naming.vcpus.vcpu(span.thread, true),
              name_or_dash(naming.names, function),
              printable(source.reason_name(span.reason)),
              detail_text(span.detail),
              name_or_dash(naming.names, span.device),
              "-",
              {}};
  if (preempted.ns != 0) {
    row.preempted_by = naming.text(preempted.culprit);
    row.preempted = naming.step(Part::kPreempted, preempted.culprit);
  }
  return row;
}

std::string exit_text(const ExitRow& row, const std::string& accesses) {
  std::string text = row.reason;
  if (row.detail != "-") text += ", " + row.detail;
  text += accesses;
  if (row.device != "-") text += ", " + row.device;
  if (row.function == kHiddenFunction) return text + ", rip " + row.function;
  return row.function == "-" ? text : text + ", in " + row.function;
}

void OpenExits::add(const UnendedExit& exit) {
  if (!exit.is_notable) return;
  ++all_;
  const auto length = [](const UnendedExit& open) { return open.span.total(); };
  longest_.insert(std::ranges::upper_bound(longest_, length(exit), std::ranges::greater(), length),
                  exit);
  if (longest_.size() > kMost) longest_.pop_back();
}

std::vector<std::string> OpenExits::sentences(const Naming& names) const {
  std::vector<std::string> sentences;
  const bool cycles = names.timeline.source(0).info().cycles;
  for (const UnendedExit& open : longest_) {
    const ExitSpan& exit = open.span;
    const bool knows_user = names.pipeline.exits().model().userspace_exits;
    const std::string where = open.state == State::kUser
                                  ? fmt::format("in {}", names.vmm(exit.thread))
                              : open.state == State::kPreempted ? "ready to run"
                              : open.state == State::kBlocked   ? "asleep"
                              : open.state == State::kPaused    ? "stopped"
                              : knows_user                      ? "in the host's kernel"
                                                                : std::string();
    std::string text = fmt::format(
        "{} has been in an exit since {} (for {}): {}", names.vcpus.vcpu(exit.thread, true),
        cycles ? grouped(exit.start.ns()) : seconds_text(exit.start.ns()),
        duration_text(exit.total(), cycles), exit_text(exit_row(exit, kNoName, names)));
    if (exit.rip != 0) text += fmt::format(" at {:#x}", exit.rip);
    if (!where.empty()) text += ", " + where;
    if (exit.userspace_reason != ExitSpan::kNoUserspaceReason)
      text +=
          ": " + printable(names.timeline.source(exit.source)
                               .reason_name({exit.userspace_reason, ExitReason::kIsaUserspace}));
    sentences.push_back(text + '.');
  }
  if (all_ > longest_.size())
    sentences.push_back(
        fmt::format("And {} more such exits had not ended.", grouped(all_ - longest_.size())));
  return sentences;
}

TableOf<ExitRow> slow_exit_table(std::vector<ExitRow> rows, const States& known, bool vmm_events) {
  using Row = ExitRow;
  TableOf<Row> table({}, std::move(rows), &Row::vcpu);
  table.add({"start_ns"}, [](const Row& row) { return row.span.start.ns(); });
  table.add({"total_ns"}, [](const Row& row) { return row.span.total(); });
  add_parts(table, known, kNoParts, {}, 0, [](const Row& row) {
    return PartsOf{row.span.parts, row.span.total(), row.span.halt};
  });
  table.add({"vcpu"}, [](const Row& row) { return number_or_null(row.span.vcpu, kNoVcpu); });
  add_tid(table, [](const Row& row) { return row.span.thread; });
  table.add({"reason"}, &Row::reason);
  table.add({"detail"}, [](const Row& row) { return name_or_null(row.detail); });
  table.add({"device"}, [](const Row& row) { return name_or_null(row.device); });
  table.add({"function"}, [](const Row& row) { return name_or_null(row.function); });
  table.add({"preempted_by"}, [](const Row& row) { return name_or_null(row.preempted_by); });
  table.add({"qemu_events"}, [vmm_events](const Row& row) {
    return vmm_events ? to_value(row.span.vmm_events) : CellValue();
  });
  table.add({"injected_vector"}, [](const Row& row) {
    return row.span.injected == kNoVector ? CellValue(Absent()) : to_value(row.span.injected);
  });
  return table;
}

namespace {

// Returns an exit's line, and a line with its parts.
std::vector<Paragraph> sentences_of(const ExitRow& row, bool is_longest, bool cycles,
                                    const std::array<std::string_view, kParts>& titles) {
  std::string parts;
  for (std::size_t i = 0; i < kParts; ++i) {
    if (row.span.parts[i] == 0) continue;
    parts += fmt::format("{}{} {}", parts.empty() ? "" : "  ", titles[i],
                         duration_text(row.span.parts[i], cycles));
  }
  if (!row.preempted.empty()) parts += "  " + row.preempted;
  return {{.text = fmt::format(" {}  {}  {}", row.vcpu, duration_text(row.span.total(), cycles),
                               exit_text(row)),
           .label = time_text(row.span.start.ns(), cycles),
           .look = is_longest ? LabelLook::kWarning : LabelLook::kStrong,
           .figures = true},
          {.text = std::move(parts), .label = "   "}};
}

}  // namespace

void add_sentences(TableOf<ExitRow>& table, const States& known, bool cycles) {
  std::uint64_t longest = 0;
  for (const ExitRow& row : table.all()) longest = std::max(longest, row.span.total());
  table.sentences = [=, all = table.all(), titles = part_titles(known)](std::size_t row) {
    return sentences_of(all[row], all[row].span.total() == longest, cycles, titles);
  };
}

namespace {

class SlowExits : public TableSink {
 public:
  // Number of exits that are kept; of more exits, the slowest are kept.
  static constexpr std::size_t kMost = 20'000;

  explicit SlowExits(std::uint64_t at_least_ns, const ReportOptions& options)
      : at_least_ns_(at_least_ns),
        most_(options.top == 0 ? kMost : std::min(options.top, kMost)),
        with_halts_(options.halts) {}

  [[nodiscard]] SpanClass selects() const override { return SpanClass::kExits | SpanClass::kWaits; }
  void exit(const ExitSpan& span, const Pipeline& pipeline) override {
    if (span.total() < at_least_ns_) return;
    if (span.halt && !with_halts_) {
      ++halts_;
      return;
    }
    const NameId function = pipeline.stacks().innermost(pipeline.stack_of(span));
    const auto faster_last = [](const SlowExit& a, const SlowExit& b) {
      return a.span.total() > b.span.total();
    };
    ++added_;
    if (kept_.size() >= most_) {
      if (kept_.front().span.total() >= span.total()) return;
      std::pop_heap(kept_.begin(), kept_.end(), faster_last);
      kept_.pop_back();
    }
    kept_.push_back({KeptExit(span, pipeline), function, added_});
    std::push_heap(kept_.begin(), kept_.end(), faster_last);
  }
  [[nodiscard]] std::vector<Table> tables(const ReportData& report,
                                          const Naming& names) const override {
    const States known = report.known_states();
    const bool cycles = report.cycles;
    TableOf<ExitRow> table =
        slow_exit_table(rows(names), known, report.counters.exits.vmm_events != 0);
    table.key = "slow_exits";
    table.csv = true;
    table.facts = {{"slower_than_ns", at_least_ns_}};
    table.left_out = added_ - kept_.size();
    table.before = {{.text = fmt::format("\nExits of {} and more: {}",
                                         duration_text(at_least_ns_, cycles), grouped(added_)),
                     .verbatim = true}};
    if (table.left_out != 0)
      table.before.push_back(
          {.text = fmt::format("the {} slowest of them; raise {} to see them all",
                               grouped(table.rows), table.rows < kMost ? "--top" : "--slower-than"),
           .verbatim = true});
    if (halts_ != 0)
      table.before.push_back(
          {.text = fmt::format("{} not listed (--halt)",
                               halts_ == 1 ? "1 halt is" : grouped(halts_) + " halts are"),
           .verbatim = true});
    add_sentences(table, known, cycles);
    return {std::move(table)};
  }

 private:
  struct SlowExit {
    KeptExit span;
    NameId function;
    std::uint64_t order;  // the exit's number, in the order of the exits' ends
  };
  // Returns the rows in order of time.
  [[nodiscard]] std::vector<ExitRow> rows(const Naming& naming) const {
    std::vector<SlowExit> kept = kept_;
    std::sort(kept.begin(), kept.end(), [](const SlowExit& a, const SlowExit& b) {
      return std::tuple(a.span.start, a.order) < std::tuple(b.span.start, b.order);
    });
    std::vector<ExitRow> rows;
    for (const SlowExit& slow : kept)
      rows.push_back(exit_row(slow.span, slow.function, naming, slow.span.preempted));
    return rows;
  }

  std::uint64_t at_least_ns_;
  std::size_t most_;  // of more exits, the slowest are kept
  bool with_halts_;
  std::vector<SlowExit> kept_;           // once full, a heap with the fastest exit in front
  std::uint64_t added_ = 0, halts_ = 0;  // halts that were not added
};

Result<std::unique_ptr<TableSink>> make_slow_exits(const ReportOptions& options,
                                                   const std::string& value) {
  const auto least = parse_duration("--slower-than", value);
  if (!least) return tl::unexpected(least.error());
  return std::make_unique<SlowExits>(*least, options);
}

}  // namespace

const TableKind kSlowExitTable = {.option = "--slower-than",
                                  .argument = "TIME",
                                  .help = "Exits, except halts, that took this long or more",
                                  .in_page = InPage::kNever,
                                  .make = make_slow_exits};

}  // namespace trapline
