#include "merge/report/groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "merge/pass/reason_kinds.h"
#include "merge/report/common_columns.h"
#include "merge/report/dimensions.h"
#include "merge/report/report_data.h"
#include "merge/report/units.h"

namespace trapline {

void ExitSums::merge(const ExitSums& other) {
  // If two exits are equally long, max_at_ns is the time of the earlier one.
  const bool longer = other.total.max() > total.max() || total.count() == 0;
  const bool as_long = other.total.max() == total.max() && other.total.count() != 0;
  if (longer || (as_long && other.max_at_ns < max_at_ns)) max_at_ns = other.max_at_ns;
  halts = count() == 0 ? other.halts : halts && other.halts;
  total.merge(other.total);
  cut += other.cut;
  open += other.open;
  unended_cost_ns += other.unended_cost_ns;
  for (std::size_t i = 0; i < kParts; ++i) parts[i] += other.parts[i];
  devices_at_most_ns += other.devices_at_most_ns;
}

void ExitSums::add(const FunctionCall& call) {
  const std::uint64_t ns = call.own.total();
  if (total.count() == 0 || ns > total.max()) max_at_ns = call.begin.ns();
  total.add(ns);
  for (std::size_t i = 0; i < kParts; ++i) parts[i] += call.own.parts[i];
  devices_at_most_ns += call.own.devices_at_most_ns;
}

namespace {

// The order in which a narrow terminal drops columns: the highest number first, so parts that are
// not known go first. kLargest is the column of the device or detail with the most time.
// kSmallParts are the parts with little time. Of two parts, the one with less time goes first.
enum GroupDropOrder : std::uint8_t {
  kCount = 1,
  kMean,
  kMax,
  kP99,
  kOfParts,
  kLargest = kOfParts + kParts,
  kSmallParts,
  kP50 = kSmallParts + kParts,
  kP90,
  kNotKnown
};

// Returns whether the rows' shares are without waits for a CPU, although the rows' totals have
// them.
bool leaves_out_waits(const ReportData& report) {
  return report.overhead && report.knows(State::kPreempted);
}

// Sets the drop_order of the parts' columns. Parts with little time are dropped first; then the
// kernel's and QEMU's part stay longer than the others, and parts with more time, halts aside,
// longer than those with less. Adds the column "other", the sum without the kernel's and QEMU's
// part.
void rank_parts(TableOf<GroupRow>& table, std::size_t first, const States& known,
                std::span<const GroupRow> rows) {
  const auto is_own = [](std::size_t part) { return static_cast<Part>(part) <= Part::kUser; };
  GroupRow sum;
  for (const GroupRow& row : rows)
    if (!row.halts) sum.merge(row);
  for (std::size_t part = 0; part < kParts; ++part) {
    const std::uint64_t ns = sum.parts[part];
    const bool own = is_own(part);
    std::ptrdiff_t rank = 0;
    for (std::size_t other = 0; other < kParts; ++other)
      if (is_own(other) != own ? is_own(other) : sum.parts[other] > ns) ++rank;
    const bool small = ns < sum.total.total() / 10;
    Column& column = table.columns[first + part];
    column.drop_order = static_cast<std::uint8_t>(
        !known[part] ? +kNotKnown : (small ? kSmallParts : kOfParts) + rank);
    column.highlight = Highlight::kLargestPart;
    if (!own && known[part]) column.joined = small ? Joined::kSmallPart : Joined::kPart;
  }
  table.add({.title = std::string(kSumOfParts),
             .unit = Unit::kShare,
             .drop_order = kOfParts + kParts - 1,
             .joined = Joined::kSum,
             .csv = false,
             .json = false,
             .whole = table.columns[first].whole},
            [known, is_own](const GroupRow& row) {
              std::uint64_t ns = 0;
              for (std::size_t part = 0; part < kParts; ++part)
                if (!is_own(part) && known[part]) ns += row.parts[part];
              return Share{ns, row.total.total()};
            });
}

}  // namespace

TableOf<GroupRow> group_columns(std::vector<GroupRow> given, const ReportData& report) {
  const bool calls = report.rows_of == RowsOf::kCalls, exits = report.rows_of == RowsOf::kExits;
  const bool requests = report.rows_of == RowsOf::kRequests, durations = report.durations();
  const std::uint64_t whole = report.whole_ns();
  const std::string total = "the total";
  const States known = requests ? States() : report.known_states();
  TableOf<GroupRow> table({}, std::move(given), &GroupRow::key);
  const std::span<const GroupRow> rows = table.all();
  table.dim = [rows](std::size_t row) { return rows[row].halts; };
  const auto timed = [durations](std::uint64_t ns) {
    return durations ? to_value(ns) : CellValue();
  };
  table.add({"key"}, &GroupRow::key);
  table.add({.key = "count", .title = std::string(name_of(report.rows_of)), .drop_order = kCount},
            &GroupRow::count);
  if (exits) {
    table.add({"cut"}, &GroupRow::cut);
    table.add({"open"}, &GroupRow::open);
    table.add({"unended_cost_ns"},
              [timed](const GroupRow& row) { return timed(row.unended_cost_ns); });
  }
  table.add({.title = requests ? "" : "share",
             .unit = Unit::kShare,
             .whole = std::string(report.whole()),
             .above = exits && leaves_out_waits(report) ? "of busy" : ""},
            [=](const GroupRow& row) -> CellValue {
              if (!durations || are_whole_halts(known, row.halts, row.parts)) return {};
              const bool is_all_cut = exits && row.count() != 0 && row.total.count() == 0;
              if (is_all_cut && row.cost_ns() == 0) return {};
              return Share{exits ? row.cost_ns() : row.total.total(), whole};
            });
  table.add({"total_ns", "total", Unit::kDuration}, [timed](const GroupRow& row) {
    return row.total.count() != 0 || row.count() == 0 ? timed(row.total.total()) : CellValue();
  });
  if (exits) table.add({.key = "halts", .csv = false}, &GroupRow::halts);
  add_percentiles(table, "",
                  {.mean = {"mean", kMean},
                   .p50 = {"p50", kP50},
                   .p90 = {requests || calls ? "p90" : "", kP90},
                   .p99 = {"p99", kP99},
                   .max = {"max", kMax}},
                  [durations](const GroupRow& row) {
                    static const Histogram kNone;
                    return durations ? &row.total : &kNone;
                  });
  if (exits) table.columns.back().highlight = Highlight::kLargest;
  for (Column& column : table.columns)
    if (exits && !report.model.from_userspace_exit && column.unit == Unit::kDuration &&
        !column.title.empty())
      column.above = "exit to entry, with waits";
  table.add({"max_at_ns"}, [timed](const GroupRow& row) {
    return row.total.count() != 0 || row.count() == 0 ? timed(row.max_at_ns) : CellValue();
  });
  const auto parts = [](const GroupRow& row) {
    return PartsOf{row.parts, row.total.total(), row.halts};
  };
  if (calls) {
    const auto at_most = [](const GroupRow& row) {
      return Share{row.devices_at_most_ns, row.total.total()};
    };
    table.add({.key = "guest_ns",
               .title = "guest",
               .unit = Unit::kShare,
               .drop_order = kOfParts,
               .whole = total},
              [](const GroupRow& row) {
                return Share{row.guest_ns(), row.total.total()};
              });
    add_call_parts(table, known, total, parts, at_most);
    table.add({"devices_at_most_ns"}, at_most);
  } else {
    const std::size_t first = table.columns.size();
    add_parts(table, known, requests ? kNoParts : part_titles(known), total, kOfParts, parts);
    rank_parts(table, first, known, rows);
  }
  if (exits) {
    table.add({.key = "largest", .unit = Unit::kText},
              [](const GroupRow& row) { return text_or_null(row.largest); });
    table.add({"largest_ns", "largest part", Unit::kSubject, 0, kLargest},
              [](const GroupRow& row) -> CellValue {
                if (row.largest.empty()) return {};
                return Share{.ns = row.largest_ns,
                             .whole = row.total.total(),
                             .at_least = row.largest_at_least,
                             .of = row.largest};
              });
  }
  return table;
}

namespace {

// Returns text's rows: the exits, a row for those that --top left out, a row for all exits; then
// the halts, and a row for those left out.
std::vector<GroupRow> shown_rows(const ReportData& report) {
  std::vector<GroupRow> rows = report.rows;
  if (report.rows_of != RowsOf::kExits) return rows;
  const auto halts =
      std::find_if(rows.begin(), rows.end(), [](const auto& row) { return row.halts; });
  const auto exits = halts - rows.begin();
  std::vector<GroupRow> sums;
  if (report.left_out.count() != 0)
    sums.push_back({report.left_out,
                    fmt::format("{} more (--top)", report.rows_left_out - report.halts_left_out)});
  if (exits + static_cast<std::ptrdiff_t>(sums.size()) > 1) {
    sums.push_back({report.total, halts == rows.end() ? "all exits" : "all exits but halts"});
    if (!report.exit_filter.empty()) sums.back().key += " with " + report.exit_filter.text();
  }
  rows.insert(halts, sums.begin(), sums.end());
  if (report.halts_left_out != 0)
    rows.push_back(
        {report.left_out_halts, fmt::format("{} more halts (--top)", report.halts_left_out)});
  return rows;
}

// Returns whether the row's largest subject has half of its time, so that nothing is larger.
bool is_most(const GroupRow& row) {
  return row.largest_ns != 0 && 2 * row.largest_ns >= row.total.total();
}

// Returns what most exits of the costliest rows were about.
std::string largest_text(const ReportData& report) {
  constexpr std::size_t kMost = 3;
  constexpr std::uint64_t kLeast = 20;  // a row needs 1/kLeast of the exits' cost
  std::vector<const GroupRow*> rows;
  for (const GroupRow& row : report.rows)
    if (!row.halts && is_most(row) && row.cost_ns() >= report.total.cost_ns() / kLeast)
      rows.push_back(&row);
  std::ranges::stable_sort(rows, std::ranges::greater(), &GroupRow::cost_ns);
  std::string text;
  for (const GroupRow* row : std::span(rows).first(std::min(rows.size(), kMost))) {
    const std::string_view bound = row->largest_at_least ? "at least " : "";
    text += fmt::format("{}{}: {}{} of its {} exits, for {}, took {}{} of its total of {}",
                        text.empty() ? "" : "; ", shown_key(row->key, report.by), bound,
                        grouped(row->largest_exits), grouped(row->count()), row->largest, bound,
                        duration_text(row->largest_ns, report.cycles),
                        duration_text(row->total.total(), report.cycles));
  }
  return text;
}

// Returns which part has most of "other" in the costliest rows: "EPT_MISCONFIG blocked 82.1%".
std::string other_text(const ReportData& report) {
  constexpr std::size_t kMost = 3;
  constexpr auto kFirst = static_cast<std::ptrdiff_t>(Part::kPreempted);
  std::vector<std::string> rows;
  for (const GroupRow& row : report.rows) {
    const auto most = std::max_element(row.parts.begin() + kFirst, row.parts.end());
    if (row.halts || *most < row.total.total() / 10 || rows.size() == kMost) continue;
    rows.push_back(fmt::format("{} {} {}", shown_key(row.key, report.by),
                               kPartNames[static_cast<std::size_t>(most - row.parts.begin())],
                               percent_text(*most, row.total.total())));
  }
  return fmt::format("{}", fmt::join(rows, "; "));
}

// Returns what an exit took without waits for a CPU, of the rows with most of them: "io 280 µs".
std::string without_waits_text(const ReportData& report) {
  constexpr std::size_t kMost = 3;
  const auto waits_of = [](const GroupRow* row) {
    return row->parts[static_cast<std::size_t>(Part::kPreempted)];
  };
  std::vector<const GroupRow*> order;
  for (const GroupRow& row : report.rows)
    if (!row.halts && waits_of(&row) != 0) order.push_back(&row);
  std::ranges::stable_sort(order, std::ranges::greater(), waits_of);
  std::vector<std::string> rows;
  for (const GroupRow* row : std::span(order).first(std::min(order.size(), kMost))) {
    rows.push_back(fmt::format(
        "{} {}", shown_key(row->key, report.by),
        duration_text((row->total.total() - waits_of(row)) / row->total.count(), report.cycles)));
  }
  return fmt::format("{}", fmt::join(rows, "; "));
}

// Adds the meanings of the reasons whose rows have the longest totals.
void explain_reasons(const ReportData& report, std::vector<std::string>& text) {
  constexpr std::size_t kMost = 3;
  std::set<std::string_view> explained;
  std::vector<std::pair<const ReasonKind*, std::string>> kinds;  // each with its reasons
  std::vector<const GroupRow*> rows;
  for (const GroupRow& row : report.rows) rows.push_back(&row);
  std::ranges::stable_sort(rows, std::ranges::greater(),
                           [](auto* row) { return row->total.total(); });
  for (const GroupRow* row : rows) {
    const std::string_view reason = std::string_view(row->key).substr(0, row->key.find(" / "));
    const ReasonKind* kind = kind_of(reason);
    if (row->halts || kind == nullptr || explained.size() == kMost) continue;
    if (!explained.insert(reason).second) continue;
    const auto same = std::ranges::find(kinds, kind, [](const auto& of) { return of.first; });
    if (same != kinds.end())
      same->second += fmt::format(", {}", reason);
    else
      kinds.emplace_back(kind, reason);
  }
  for (const auto& [kind, reasons] : kinds)
    text.push_back(fmt::format("{}: {}{}", reasons, kind->meaning,
                               report.isa == kIsaArm64 && kind->name == "interrupt"
                                   ? "; the row is what came after its handler (see --kernel)"
                                   : ""));
  text.emplace_back("other reasons: trapline help exits");
}

// Explains the titles of the columns that the table has. `largest`: what largest_text() returns.
std::string legend_text(const ReportData& report, const std::string& largest) {
  constexpr std::uint32_t kP99PerMille = 990;
  constexpr std::array<std::string_view, kParts> kMeanings = {
      "the host's, with KVM", "QEMU, its system calls too", "waits for a CPU",
      "asleep in KVM or QEMU", "idle"};
  const auto titles = part_titles(report.known_states());
  std::vector<std::string> text;
  if (!report.durations()) return {};
  const bool no_waits = leaves_out_waits(report);
  if (no_waits || report.time_in(State::kHalted) != 0)
    text.push_back(fmt::format(
        "share: total less {}halted time, of the busy time{}",
        !no_waits ? ""
        : !report.model.wakeups && report.overhead->blocked_ns != 0
            ? "waits for a CPU (those after a sleep were not recorded) and "
            : "waits for a CPU and ",
        report.overhead && std::ranges::any_of(report.rows, &GroupRow::halts)
            ? fmt::format(" (exits and halts together: {})",
                          percent_text(report.overhead->exit_ns, report.overhead->busy_ns()))
            : ""));
  if (std::ranges::any_of(report.rows, [](const GroupRow& row) {
        return row.total.count() != 0 && !row.total.percentile(kP99PerMille);
      }))
    text.emplace_back("p99 -: fewer than 100 exits");
  for (std::size_t part = 0; part < kParts; ++part)
    if (std::ranges::any_of(report.rows, [part](auto& row) { return row.parts[part] != 0; }))
      text.push_back(titles[part] == kKernelOrUser
                         ? std::string(kKernelOrUser) + ": not told apart"
                         : fmt::format("{}: {}", titles[part], kMeanings[part]));
  if (largest.find(" page-fault ") != std::string::npos)
    text.emplace_back(
        "page-fault ADDRESS: memory, or a register that KVM itself answers (ioeventfd); QEMU's "
        "'info mtree' tells which");
  if (report.by.starts_with(name_of(Dimension::kReason))) explain_reasons(report, text);
  return fmt::format("{}", fmt::join(text, "; "));
}

std::string no_rows_text(const ReportData& report) {
  const bool requests = report.rows_of == RowsOf::kRequests;
  return fmt::format("\nno {}{}", name_of(report.rows_of),
                     report.is_window ? ": none both began and ended in this part"
                     : requests
                         ? "; record QEMU's: --qemu-events 'memory_region_ops_*,virtio_blk_*'"
                         : "");
}

Table in_text(const ReportData& report) {
  if (report.rows.empty()) {
    Table none;
    none.after = {{.text = no_rows_text(report), .verbatim = true}};
    return none;
  }
  std::vector<GroupRow> rows = shown_rows(report);
  for (GroupRow& row : rows)
    if (!is_most(row)) row.largest.clear();
  TableOf<GroupRow> table = group_columns(std::move(rows), report);
  if (report.rows_of != RowsOf::kExits) table.left_out = report.rows_left_out;
  table.titles = {report.by};
  std::string largest = largest_text(report);
  if (report.rows_of == RowsOf::kExits)
    if (std::string legend = legend_text(report, largest); !legend.empty())
      table.after.push_back({.text = std::move(legend), .shown = Shown::kLegend});
  if (std::string means = without_waits_text(report); !means.empty())
    table.after.push_back({.text = std::move(means),
                           .label = "mean without waits for a CPU, of the rows that waited most:",
                           .shown = Shown::kLegend});
  table.after.push_back({.text = other_text(report),
                         .label = "other is mostly:",
                         .dropped = std::string(kSumOfParts)});
  table.after.push_back({.text = std::move(largest), .dropped = "largest_ns"});
  table.name = [name = table.name, by = report.by](std::size_t row) {
    return shown_key(name(row), by);
  };
  if (std::ranges::find(table.all(), "-", &GroupRow::key) != table.all().end()) {
    const bool none = report.by == "kernel-function" && table.rows == 1;
    table.after.push_back(
        {.text = report.by == name_of(Dimension::kDevice)
                     ? "no device: KVM served them itself, or no event of QEMU names a device"
                     : fmt::format("{}: {} with no recorded {}{}", shown_key("-", report.by),
                                   name_of(report.rows_of), report.by,
                                   none ? "; record --kernel-functions" : "")});
  }
  return table;
}

}  // namespace

Table group_table(const ReportData& report) {
  Table table = group_columns(report.rows, report);
  table.key = "groups";
  table.csv = true;
  table.facts = {{"by", report.by}, {"of", to_value(name_of(report.rows_of))}};
  table.left_out = report.rows_left_out;
  if (report.rows_of == RowsOf::kExits)
    table.total = std::make_shared<const Table>(group_columns({{report.total}}, report));
  table.in_text = std::make_shared<const Table>(in_text(report));
  return table;
}

Subjects::Subjects(const std::vector<Dimension>& by)
    : devices_(std::ranges::find(by, Dimension::kDevice) == by.end()),
      details_(std::ranges::find(by, Dimension::kDetail) == by.end()),
      last_(kMostGroups) {}

void Subjects::fill(std::vector<GroupRow>& rows, const std::vector<std::uint32_t>& row_of_group,
                    const Naming& names) const {
  std::map<Key, Sum> sums;  // by row: several groups may belong to one
  for (Sum sum : sums_) {
    sum.key.group = row_of_group[sum.key.group];
    sums[sum.key].ns += sum.ns;
    sums[sum.key].exits += sum.exits;
  }
  for (const auto& [key, sum] : sums) {
    GroupRow& row = rows[key.group];
    if (!row.largest.empty() && sum.ns <= row.largest_ns) continue;
    row.largest_ns = sum.ns;
    row.largest_exits = sum.exits;
    row.largest = key.device != kNoName ? name_or_dash(names.names, key.device)
                                        : detail_text({key.value, 0, key.kind, key.access, false});
  }
  for (const std::uint32_t group : overflow_) rows[row_of_group[group]].largest_at_least = true;
}

}  // namespace trapline
