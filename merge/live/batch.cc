#include "merge/live/batch.h"

#include <vector>

#include "merge/pass/naming.h"
#include "merge/render/report_json.h"
#include "merge/render/tables.h"
#include "merge/report/common_columns.h"
#include "merge/report/tables.h"
#include "merge/report/top_rows.h"

namespace trapline::live {
namespace {

// The columns of rows that have a key and a histogram of totals.
template <typename Row, typename AddParts>
TableOf<Row> table_of_totals(std::span<const Row> rows, AddParts add_parts_to) {
  TableOf<Row> table(rows, &Row::key);
  table.add({"key"}, &Row::key);
  table.add({"count"}, [](const Row& row) { return row.total.count(); });
  table.add({"total_ns"}, [](const Row& row) { return row.total.total(); });
  add_parts_to(table);
  add_percentiles(table, "", {}, [](const Row& row) { return &row.total; });
  return table;
}

// As in a report's JSON, and what began before the interval.
Table live_table(std::span<const LiveRow> rows, const States& known) {
  auto table = table_of_totals(rows, [&known](TableOf<LiveRow>& made) {
    add_parts(made, known, kNoParts, 0, [](const LiveRow& row) {
      return PartsOf{row.parts, row.total.total(), row.halts};
    });
  });
  table.add({"max_at_ns"}, &LiveRow::max_at_ns);
  table.add({"carried"}, &LiveRow::carried);
  table.add({"carried_ns"}, &LiveRow::carried_ns);
  return table;
}

Table request_table(std::span<const RequestTotals> rows) {
  return table_of_totals(rows, [](TableOf<RequestTotals>&) {});
}

Table live_vcpu_table(std::span<const VcpuRow> rows, const ExitTracker& exits) {
  TableOf<VcpuRow> table(rows, &VcpuRow::vm);
  table.add({"vm"}, &VcpuRow::vm);
  table.add({"vcpu"}, [](const VcpuRow& row) { return number_or_null(row.vcpu, kNoVcpu); });
  table.add({"tid"}, &VcpuRow::tid);
  table.add({"exits"}, [lacks_entries = exits.lacks_entries()](const VcpuRow& row) {
    return lacks_entries ? CellValue() : to_value(row.totals.exits);
  });
  table.add({"time_ns"}, [](const VcpuRow& row) { return row.totals.time_ns(); });
  add_states(table, rows, exits.known_states());
  return table;
}

Table slow_table(std::span<const SlowExit> exits, const Engine& engine) {
  const Naming& names = engine.naming();
  const auto word = [&names](std::size_t place, Dimension dimension) {
    return [&names, place, dimension](const SlowExit& exit) {
      const std::vector<Dimension> by = {dimension};
      GroupKey key;
      key.words[0] = exit.key.words[place];
      return ExitKeys(by).text(key, names);
    };
  };
  TableOf<SlowExit> table(exits, word(kReasonWord, Dimension::kReason));
  table.add({"start_ns"}, [](const SlowExit& exit) { return exit.start.ns(); });
  table.add({"total_ns"}, [known = engine.model().durations()](const SlowExit& exit) {
    return known ? to_value(exit.total) : CellValue();
  });
  add_parts(table, engine.model().known_states(), kNoParts, 0, [](const SlowExit& exit) {
    return PartsOf{exit.parts, exit.total, exit.halt};
  });
  table.add({"tid"}, [](const SlowExit& exit) { return static_cast<std::int32_t>(exit.thread); });
  table.add({"vcpu"}, [&names](const SlowExit& exit) {
    return number_or_null(names.vcpus.number(exit.thread), kNoVcpu);
  });
  table.add({"reason"}, word(kReasonWord, Dimension::kReason));
  table.add({"detail"},
            [](const SlowExit& exit) { return name_or_null(detail_text(exit.detail)); });
  table.add({"device"}, [device = word(kDeviceWord, Dimension::kDevice)](const SlowExit& exit) {
    return name_or_null(device(exit));
  });
  return table;
}

// Most intervals of a quiet recording have no such row: a table for it is not even described.
template <typename Row, typename MakeTable>
Json rows_or_none(const std::vector<Row>& rows, MakeTable make_table) {
  return rows.empty() ? Json::array() : rows_json(make_table(rows));
}

Json waits_json(const WaitRows& waits, bool told) {
  Json rows = rows_or_none(waits.rows, [&](const auto&) { return wait_table(waits, {}, -1); });
  for (Json& row : rows)
    for (const char* key : {"process", "vm", "vm_name"}) row.erase(key);
  return {{"total_ns", told ? Json(waits.total_ns) : Json()}, {"rows", std::move(rows)}};
}

Json stall_json(const std::optional<SeenStall>& stall, const Naming& names) {
  if (!stall) return nullptr;
  const std::int32_t vcpu = names.vcpus.number(stall->thread);
  return {{"begin_ns", stall->begin.ns()},
          {"ns", stall->length()},
          {"open", stall->open},
          {"vcpu", vcpu == kNoVcpu ? Json() : Json(vcpu)},
          {"tid", static_cast<std::int32_t>(stall->thread)}};
}

}  // namespace

std::string batch_line(const Frame& frame, const BatchOptions& options, const Engine& engine) {
  Json line = {{"version", 2},
               {"start_ns", frame.begin.ns()},
               {"end_ns", frame.end.ns()},
               {"events", frame.events},
               {"lost_events", frame.lost_events},
               {"gaps", frame.gaps},
               {"gaps_uncounted", frame.gaps_uncounted}};
  const States known = engine.pipeline().exits().known_states();
  const bool durations = engine.model().durations();
  const std::vector<VcpuRow> vcpus = vcpus_of(frame, options.scope, engine);
  line["vcpus"] = rows_json(live_vcpu_table(vcpus, engine.pipeline().exits()));
  for (std::size_t i = 0; i < vcpus.size(); ++i) {
    // With what came before the vCPU's time.
    const std::uint64_t seen = vcpus[i].totals.time_ns() - vcpus[i].totals.not_seen_ns;
    line["vcpus"][i]["not_seen_ns"] = frame.length() > seen ? frame.length() - seen : 0;
  }
  if (Json filter = filter_json(options.scope.vcpus, options.exits); !filter.empty())
    line["filter"] = std::move(filter);
  line["by"] = options.by_text;
  std::vector<LiveRow> rows = rows_of(frame, options.by, options.scope, options.sort, engine);
  const std::size_t left_out = keep_first(rows, options.top);
  line["rows"] = rows_or_none(rows, [&](const auto& shown) {
    Table table = live_table(shown, known);
    if (!durations)
      for (const char* time : {"total_ns", "min_ns", "mean_ns", "p", "max_ns", "carried_ns"})
        forget(table, time);
    return table;
  });
  line["rows_left_out"] = left_out;
  line["exits_folded"] = frame.folded;
  const bool told = known[static_cast<std::size_t>(State::kPreempted)];
  line["waits"] = {{"preempted", waits_json(frame.waits.preempted, told)},
                   {"blocked", waits_json(frame.waits.blocked, told)}};
  line["requests"] = rows_or_none(frame.requests, request_table);
  std::vector<SlowExit> slow = slow_of(frame, options.scope, engine);
  if (slow.size() > options.slow) slow.resize(options.slow);
  line["longest_stall"] = stall_json(frame.longest_stall, engine.naming());
  line["slow_exits"] =
      rows_or_none(slow, [&](const auto& exits) { return slow_table(exits, engine); });
  // Texts were made printable where they came from; what is not UTF-8 must not stop the view.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace trapline::live
