#include <tuple>

#include "backend_ftrace/base/text.h"
#include "merge/render/render.h"
#include "merge/render/report_json.h"
#include "merge/render/tables.h"
#include "merge/report/tables.h"

namespace trapline {
namespace {

Json wait_rows_json(const WaitRows& waits, bool told) {
  Json json = {{"total_ns", told ? Json(waits.total_ns) : Json()},
               {"rows", rows_json(wait_table(waits, {}, -1))}};
  if (waits.rows_left_out != 0) json["rows_left_out"] = waits.rows_left_out;
  return json;
}

Json steal_json(const Report& report) {
  Json rows = rows_json(steal_table(report));
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i].update(wait_rows_json((*report.steal)[i].by, report.model.sched_switch));
  return rows;
}

Json kernel_json(const Report& report, const KernelReport& kernel) {
  Json json = {
      {"total_ns", value_or_null(told(report.known_states(), State::kKernel, kernel.total_ns))},
      {"rows", rows_json(kernel_table(kernel))}};
  if (kernel.rows_left_out != 0) json["rows_left_out"] = kernel.rows_left_out;
  return json;
}

}  // namespace

Json halt_cost_json(const Table& table, std::size_t row, const Report& report) {
  Json json = row_json(table, row);
  if (report.cycles) return json;
  const HaltCostRow& costs = (*report.halt_costs)[row];
  json["replay"] = {{"halts", costs.halts},
                    {"wakes_unknown", costs.wakes_unknown},
                    {"late_ns", costs.late_ns},
                    {"shrink", costs.halves ? 2 : 0},
                    {"shrink_recorded", costs.saw_shrinking},
                    {"settings", Json::array()}};
  // Without a halt every setting reads the same.
  if (costs.halts != 0) json["replay"]["settings"] = rows_json(replay_table(replay_rows(costs)));
  return json;
}

Json phases_json(const PhaseReport& phases, const Report& report) {
  Json rows = rows_json(phase_table(phases.rows, report));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PhaseRow& row = phases.rows[i];
    for (const auto& [key, what, shares] : {std::tuple("devices", "device", &row.devices),
                                            std::tuple("functions", "function", &row.functions)})
      rows[i][key] = rows_json(phase_share_table(share_rows(row, what, *shares), report));
  }
  return {{"rows", std::move(rows)}, {"never", phases.never}};
}

Json counters_json(std::span<const CounterRow> rows) {
  Json json;
  for (const CounterRow& row : rows) json[std::string(row.key)] = value_or_null(row.count);
  return json;
}

Json filter_json(const VcpuFilter& vcpus, const ExitFilter& exits) {
  Json filter = Json::object();
  if (!vcpus.vm.empty()) filter["vm"] = printable(vcpus.vm);
  if (vcpus.vcpu) filter["vcpu"] = *vcpus.vcpu;
  for (const auto& [option, pattern] : exits.options())
    filter[std::string(option.substr(2))] = printable(pattern);
  return filter;
}

Json report_json(const Report& report) {
  Json json = {{"version", 2}};
  json["sources"] = rows_json(source_table(report));
  json["interval"] = {{"start_ns", report.start_ns}, {"end_ns", report.end_ns}};
  json["time_unit"] = report.cycles ? "cycles" : "ns";
  json["user_end"] = name_of(report.model.user_end);
  json["from_userspace_exit"] = report.model.from_userspace_exit;
  if (const Json filter = filter_json(report.vcpus_asked, report.exits_asked); !filter.empty())
    json["filter"] = filter;
  if (!report.exits_asked.empty())
    json["all_exits"] = {{"count", report.all_exits}, {"cost_ns", report.all_cost_ns}};
  json["vcpus"] = Json::array();
  json["overhead"] = row_json(overhead_table(report), 0)["overhead"];
  json["groups"] = {{"by", report.by},
                    {"of", name_of(report.rows_of)},
                    {"rows", rows_json(group_table(report.rows, report))}};
  if (report.rows_of == RowsOf::kExits)
    json["groups"]["total"] =
        report.lacks_entries ? Json() : row_json(group_table({&report.total, 1}, report), 0);
  if (report.rows_left_out != 0) json["groups"]["rows_left_out"] = report.rows_left_out;
  json["qemu_events"] = rows_json(vmm_event_table(report));
  if (report.slow_exits) {
    json["slow_exits"] = {
        {"slower_than_ns", report.slower_than_ns},
        {"left_out", report.slow_left_out},
        {"exits", rows_json(slow_exit_table(*report.slow_exits, report.known_states(),
                                            report.counters.exits.vmm_events != 0))}};
  }
  if (report.rows_of == RowsOf::kRequests)
    json["request_paths"] = rows_json(request_path_table(report));
  if (!report.vhost.empty()) json["vhost"] = rows_json(vhost_table(report));
  if (report.irqs)
    json["irqs"] = {{"coalesced", report.irq_events.empty() ? Json() : Json(report.irqs_coalesced)},
                    {"rows", rows_json(irq_table(report))}};
  if (report.halts) json["halts"] = Json::array();
  if (report.waits) {
    const bool told = report.knows(State::kPreempted);
    json["waits"] = {
        {"preempted", wait_rows_json(report.waits->preempted, told)},
        {"blocked", wait_rows_json(report.waits->blocked, told)},
        {"halted", wait_rows_json(report.waits->halted, told && report.knows(State::kHalted))}};
  }
  if (report.kernel) json["kernel"] = kernel_json(report, *report.kernel);
  if (report.steal) json["steal"] = steal_json(report);
  if (report.guest_functions) json["guest_functions"] = rows_json(guest_function_table(report));
  if (report.guest_functions_left_out != 0)
    json["guest_functions_left_out"] = report.guest_functions_left_out;
  json["counters"] = counters_json(counter_rows(report));
  json["notes"] = report.notes;
  if (report.halt_costs) json["halt_costs"] = Json::array();
  if (report.phases) json["phases"] = phases_json(*report.phases, report);
  return json;
}

namespace {

// An object, member by member and row by row: of ten thousands of vCPUs all rows would take
// hundreds of megabytes as one tree, and again as one text.
class ObjectWriter {
 public:
  explicit ObjectWriter(std::ostream& out) : out_(out) {}
  void add(const std::string& key, const Json& value) {
    if (!value.is_array()) return begin(key), print(value, 2);
    add_rows(key, value.size(), [&](std::size_t row) -> const Json& { return value[row]; });
  }
  template <typename ToJson>
  void add_rows(const std::string& key, std::size_t rows, const ToJson& to_json) {
    begin(key);
    out_ << '[';
    for (std::size_t row = 0; row < rows; ++row) {
      out_ << (row == 0 ? "\n    " : ",\n    ");
      print(to_json(row), 4);
    }
    out_ << (rows == 0 ? "]" : "\n  ]");
  }
  void end() { out_ << "\n}\n"; }

 private:
  void begin(const std::string& key) {
    out_ << std::exchange(separator_, ",\n  ") << Json(key).dump() << ": ";
  }
  // No text in it has a line's end: that is written as an escape.
  void print(const Json& value, std::size_t indent) {
    std::string_view text = text_ = value.dump(2, ' ', false, Json::error_handler_t::replace);
    for (auto end = text.find('\n'); end != text.npos; end = text.find('\n')) {
      out_ << text.substr(0, end + 1) << std::string_view("    ").substr(0, indent);
      text.remove_prefix(end + 1);
    }
    out_ << text;
  }
  std::ostream& out_;
  const char* separator_ = "{\n  ";
  std::string text_;
};

}  // namespace

void print_json(const Report& report, std::ostream& out) {
  ObjectWriter object(out);
  const Json json = report_json(report);
  const auto add_rows = [&object](const std::string& key, const Table& table, const auto& to_json) {
    object.add_rows(key, table.rows, [&](std::size_t row) { return to_json(table, row); });
  };
  for (const auto& [key, value] : json.items()) {
    if (key == "vcpus")
      add_rows(key, vcpu_table(report.vcpus, report), row_json);
    else if (key == "halts")
      add_rows(key, halt_table(report), row_json);
    else if (key == "halt_costs")
      add_rows(key, halt_cost_table(report), [&report](const Table& table, std::size_t row) {
        return halt_cost_json(table, row, report);
      });
    else
      object.add(key, value);
  }
  object.end();
}

}  // namespace trapline
