// Makes the page's JSON of the data that was gathered: docs/formats/page.md.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "merge/explain/guest_spans.h"
#include "merge/explain/stalls.h"
#include "merge/pass/reason_kinds.h"
#include "merge/render/page/exits.h"
#include "merge/render/page/page_data.h"
#include "merge/render/page/stacks.h"
#include "merge/render/page/worst_exits.h"
#include "merge/render/print.h"
#include "merge/report/host_roles.h"
#include "merge/report/report.h"
#include "merge/report/vcpus.h"

namespace trapline {
namespace {

using page::Cells;
using page::Shares;
using page::WorstExits;

constexpr std::size_t kAimCells = 10'000, kFewestBins = 64;

// Returns nullptr if the table has no such column.
Table::Described* column_of(Table& table, std::string_view key) {
  const auto column = std::ranges::find(table.columns, key, &Table::Described::key);
  return column == table.columns.end() ? nullptr : &*column;
}

// Returns a number as text: JSON readers with 53 bits would round large ones.
CellValue as_text(const CellValue& given) {
  if (const auto* ns = std::get_if<std::int64_t>(&given)) return std::to_string(*ns);
  if (const auto* ns = std::get_if<std::uint64_t>(&given)) return std::to_string(*ns);
  return given;
}

// Returns the tables as members of an object, without its braces.
std::string members_of(const std::vector<Table>& tables) {
  std::string text;
  for (const Table& table : tables)
    if (table.json)
      text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", table.key, json_of(table));
  return text;
}

}  // namespace

struct PageData::Writer {
  PageData& data;
  const PassEnd& pass;
  const ReportData& report;
  const Naming names;
  std::uint64_t start = 0;
  page::TimeBins bins{};
  std::string fixed{};  // the tables that do not depend on the bins, as JSON

  [[nodiscard]] std::int64_t relative(std::uint64_t ns) const {
    return static_cast<std::int64_t>(ns - start);
  }

  // Makes a column's times count from the report's start, and renames it to `to`.
  void make_relative(Table& table, std::string_view from, const std::string& to) const {
    Table::Described* column = column_of(table, from);
    if (column == nullptr) return;
    column->key = to;
    column->value = [value = column->value, since = start](std::size_t row) -> CellValue {
      const CellValue given = value(row);
      const auto* ns = std::get_if<std::uint64_t>(&given);
      return ns == nullptr ? given : to_value(static_cast<std::int64_t>(*ns - since));
    };
  }

  // Adds one table for each of the page's dimensions, with the exits grouped by it.
  void add_sets(std::vector<Table>& tables) const {
    for (auto& set : data.exits_.tables(names, report.model.durations())) {
      const std::size_t left_out = keep_first(set.rows, kMostRows);
      Table table = group_columns(std::move(set.rows), report);
      std::erase_if(table.columns,
                    [](const Column& column) { return column.key.starts_with("largest"); });
      make_relative(table, "max_at_ns", "max_at");
      table.key = "by_" + set.by;
      std::ranges::replace(table.key, ',', '_');
      table.packed = true;
      table.left_out = left_out;
      table.facts = {{"by", set.by}};
      tables.push_back(std::move(table));
    }
  }

  // Returns the table of vCPUs, with the part of each time bin that was spent in each state.
  Table vcpus() const {
    Table table = vcpu_table(report);
    table.columns.push_back({{"name"}, [this](std::size_t row) {
                               const ThreadId thread = report.vcpus[row].thread;
                               return to_value(names.vcpus.vcpu(thread, true));
                             }});
    for (std::size_t state = 0; state < kStates; ++state) {
      table.columns.push_back(
          {{"shares." + std::string(kStateKeys[state])}, [this, state](std::size_t row) {
             std::vector<std::uint64_t> values;
             const auto* shares = data.shares_.of(report.vcpus[row].thread);
             if (shares != nullptr)
               for (const Shares::Bin& bin : *shares) values.push_back(bin[state]);
             return CellValue(std::move(values));
           }});
    }
    return table;
  }

  // Returns the host's CPU time of the VMs that took most, by role and time bin.
  Table host_cpu_time() const {
    using Times = std::map<HostRole, std::vector<std::uint64_t>>;
    struct Row {
      std::string vm;
      std::uint64_t ns = 0;
      Times times{};
    };
    std::vector<Row> rows;
    const HostRuns* runs = names.pipeline.host_runs();
    if (runs == nullptr || !report.model.sched_switch) return {};
    for (const HostThread& thread : host_threads(names, runs->threads(names.pipeline.end()))) {
      const auto* ran = data.host_.of(thread.runs.thread);
      if (thread.lacks_runs) continue;
      const std::string vm = thread.vm->text();
      auto row = std::ranges::find(rows, vm, &Row::vm);
      if (row == rows.end()) row = rows.insert(row, {.vm = vm});
      row->ns += thread.runs.state.ran_ns;
      if (ran == nullptr) continue;
      std::vector<std::uint64_t>& times = row->times[thread.role];
      times.resize(std::max(times.size(), ran->size()));
      for (std::size_t bin = 0; bin < ran->size(); ++bin) times[bin] += ran->at(bin)[0];
    }
    // Leaves out VMs whose picture would lack the time of threads beyond HostTime's limit.
    std::size_t left_out = std::erase_if(rows, [](const Row& row) {
      std::uint64_t ns = 0;
      for (const auto& [role, times] : row.times)
        ns += std::accumulate(times.begin(), times.end(), std::uint64_t{0});
      return ns != row.ns;
    });
    std::ranges::stable_sort(rows, std::greater(), &Row::ns);
    left_out += keep_first(rows, kMostHostVms);
    TableOf<Row> table({.key = "host_cpu_time", .left_out = left_out}, std::move(rows), &Row::vm);
    table.add({"vm"}, &Row::vm);
    for (const HostRole role : kRolesOfVm) {
      table.add({std::string(key_of(role))}, [role](const Row& row) {
        const auto times = row.times.find(role);
        return times == row.times.end() ? std::vector<std::uint64_t>() : times->second;
      });
    }
    return table;
  }

  Table losses() const {
    TableOf<Loss> table({.key = "lost", .left_out = data.losses_left_out_}, data.losses_,
                        [](const Loss&) { return std::string(); });
    table.add({"cpu"}, &Loss::cpu);
    table.add({"from"},
              [this](const Loss& loss) { return relative(std::max(start, loss.from.ns())); });
    table.add({"to"}, [this](const Loss& loss) { return relative(std::max(start, loss.to.ns())); });
    table.add({"count"}, &Loss::count);
    return table;
  }

  std::vector<std::string> left_out() const {
    std::vector<std::string> sentences;
    for (const Paragraph& counted : counter_table(counter_rows(report)).after)
      if (!counted.verbatim) sentences.emplace_back(trimmed(counted.label + counted.text));
    if (data.exits_.cells.folded() != 0) {
      sentences.push_back(
          fmt::format("{} exits are in no selection: there are more combinations of values than "
                      "the page keeps.",
                      data.exits_.cells.folded()));
    }
    sentences.push_back(fmt::format(
        "What happened around an exit is kept for the {} longest and for the longest of each "
        "reason and device; the longest {} with up to {} events, the others with up to {}.",
        WorstExits::kMost, page::kFirst, page::kEventsOfFirst, page::kEvents));
    return sentences;
  }

  // Returns what session.json says about the recording.
  Table recorded() const {
    using Row = std::pair<std::string, std::string>;
    TableOf<Row> table({.key = "recorded", .packed = true}, pass.input().recorded, &Row::first);
    table.add({"name"}, &Row::first);
    table.add({"value"}, &Row::second);
    return table;
  }

  Table stalls() const {
    StallsFound found = data.stalls_.found(names, kStallRows);
    found.at_least_ns = PassOptions().stalls_ns;
    const auto kept = std::make_shared<const StallsFound>(std::move(found));
    Table table = stall_table(*kept);
    table.owned = kept;
    make_relative(table, "begin_ns", "start");
    table.columns.push_back(
        {{"name"}, [kept](std::size_t row) { return to_value(kept->rows[row].name); }});
    return table;
  }

  // Adds the tables of requests (groups, path, vhost), and one with the counters of the requests'
  // report and of the exits'.
  void add_requests(std::vector<Table>& tables) const {
    const auto requests = std::make_shared<const ReportData>(data.requests_.snapshot(names));
    Table groups = group_table(*requests);
    std::erase_if(groups.columns, [](const Column& column) { return column.key == "max_at_ns"; });
    groups.key = "requests";
    tables.push_back(std::move(groups));
    tables.push_back(request_path_table(*requests));
    if (!requests->vhost.empty()) tables.push_back(vhost_table(*requests));
    for (Table& table : tables)
      if (table.owned == nullptr) table.owned = requests;
    std::vector<CounterRow> counters = counter_rows(report);
    for (const CounterRow& other : counter_rows(*requests)) {
      const auto row = std::ranges::find(counters, other.key, &CounterRow::key);
      if (row == counters.end())
        counters.push_back(other);
      else if (row->count == 0u)
        row->count = other.count;
    }
    tables.push_back(counter_table(counters));
  }

  void make_fixed() {
    std::vector<Table> tables;
    add_requests(tables);
    tables.push_back(source_table(report.sources));
    for (const char* key : {"offset_ns", "error_ns"}) {
      Table::Described& column = *column_of(tables.back(), key);
      column.value = [value = column.value](std::size_t row) { return as_text(value(row)); };
    }
    tables.push_back(recorded());
    tables.push_back(losses());
    add_sets(tables);
    for (Table table : report.tables) {
      make_relative(table, "start_ns", "start");
      tables.push_back(std::move(table));
    }
    tables.push_back(page::guest_stack_table(names.pipeline));
    if (data.kernel_) tables.push_back(page::kernel_stack_table(*data.kernel_, names));
    if (data.guest_spans_explained_) {
      std::vector<Table> spans = page_tables(*data.guest_spans_explained_, kMostRows, start);
      std::ranges::move(spans, std::back_inserter(tables));
    }
    if (report.durations() && !report.model.cycles) tables.push_back(stalls());
    fixed = members_of(tables);
  }

  Facts head() const {
    const Report printed = make_report(report, {data.options_.recording, ""});
    std::vector<std::string> above;
    for (const Paragraph& one : printed.before)
      if (one.shown == Shown::kAlways && !one.verbatim)
        above.insert(above.end(), {one.label, one.text});
    Facts head = printed.head;
    for (Fact& fact : head)
      if (fact.key.starts_with("interval.")) fact.value = as_text(fact.value);
    std::vector<std::string> next;
    for (const NextStep& step : printed.next)
      next.insert(next.end(), {"trapline " + step.command, step.answers});
    head.push_back({"next", next});
    head.push_back({"tool", data.options_.tool});
    head.push_back({"words", data.options_.command});
    head.push_back({"duration_ns", report.end_ns - report.start_ns});
    head.push_back({"above", above});
    head.push_back({"time.origin", relative(bins.base() << bins.shift)});
    head.push_back({"time.bin_ns", std::uint64_t{1} << bins.shift});
    head.push_back({"time.bins", bins.bin(std::max(report.end_ns, report.start_ns)) + 1});
    head.push_back({"left_out", left_out()});
    std::vector<std::string> glosses;
    for (const GroupRow& row : report.rows)
      if (const ReasonKind* kind = kind_of(row.key))
        glosses.push_back(fmt::format("{}: {}", row.key, kind->meaning));
    head.push_back({"glosses", glosses});
    return head;
  }

  std::string print(std::size_t neighbourhoods) const {
    std::vector<Table> tables = data.exits_.cell_tables(names);
    tables.push_back(vcpus());
    for (Table picture : {data.faults_.table(names), host_cpu_time()})
      if (picture.rows != 0) tables.push_back(std::move(picture));
    for (std::vector<Table> more :
         {data.waits_.tables(names),
          page::worst_tables(data.worst_, {names, start}, neighbourhoods)})
      std::ranges::move(more, std::back_inserter(tables));
    return fmt::format(R"({{"version":{},"head":{},"tables":{{{},{}}},{})", Report::kVersion,
                       json_of(head()), fixed, members_of(tables),
                       json_of(Facts{{"notes", report.notes}}).substr(1));
  }
};

std::string without_markup(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json)
    if (c == '<' || c == '>' || c == '&')
      text += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      text += c;
  return text;
}

Result<std::string> PageData::recording(const PassEnd& pass, const ReportData& report) {
  const Pipeline& pipeline = pass.pipeline();
  if (guest_spans_) {
    if (auto found = check_guest_intervals(pass); !found)
      return tl::unexpected(std::move(found).error());
    guest_spans_explained_ = guest_spans_->explain(pass.naming());
  }
  Writer writer{*this, pass, report, pass.naming(), report.start_ns, {}, {}};
  writer.make_fixed();
  host_.finish(pipeline);
  const std::uint64_t first = pipeline.begin().value_or(Timestamp(writer.start)).ns();
  Cells& cells = exits_.cells;
  cells.begin_at(first);
  shares_.begin_at(first);
  host_.begin_at(first);
  // All tables get bins of one length, long enough that the cells are few.
  const auto few = [&] {
    return cells.size() <= kAimCells || cells.bins().bin(pipeline.end().ns()) + 1 < 2 * kFewestBins;
  };
  const auto fits = [&](const page::TimeBins& bins) {
    return bins.bin(writer.report.end_ns) < Cells::kMostBins;
  };
  while (!few()) cells.coarsen();
  while (!fits(cells.bins())) cells.coarsen();
  std::size_t neighbourhoods = WorstExits::kMost + WorstExits::kMostRows, before = 0;
  // If the rows of vCPUs alone are more than fits, smaller steps are not worth trying.
  constexpr std::size_t kLeastBytesOfVcpu = 500;
  if (report.vcpus.size() > kMostBytes / kLeastBytesOfVcpu) {
    neighbourhoods = 0;
    while (cells.bins().bin(report.end_ns) > 2) cells.coarsen();
  }
  while (true) {
    const unsigned shift = std::max({shares_.bins().shift, host_.bins().shift, cells.bins().shift,
                                     waits_.bins().shift, faults_.bins().shift});
    while (shares_.bins().shift < shift) shares_.coarsen();
    while (host_.bins().shift < shift) host_.coarsen();
    while (cells.bins().shift < shift) cells.coarsen();
    while (waits_.bins().shift < shift) waits_.coarsen();
    while (faults_.bins().shift < shift) faults_.coarsen();
    writer.bins = cells.bins();
    std::string json = without_markup(writer.print(neighbourhoods));
    if (json.size() <= kMostBytes) return json;
    if (neighbourhoods > 2 * page::kFirst) {
      neighbourhoods = 2 * page::kFirst;
    } else if (writer.bins.bin(writer.report.end_ns) > 2) {
      // Each attempt halves the number of bins. If saving as much as the last attempt did would not
      // be enough, the next attempt takes the fewest bins at once.
      const std::size_t saved = before > json.size() ? before - json.size() : 0;
      const bool helps = before == 0 || json.size() - saved <= kMostBytes;
      before = json.size();
      do {
        cells.coarsen();
      } while (!helps && cells.bins().bin(writer.report.end_ns) > 2);
    } else if (neighbourhoods != 0) {
      neighbourhoods = 0;
    } else {
      return json;
    }
  }
}

}  // namespace trapline
