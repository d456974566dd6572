#include "backend_ftrace/base/text.h"
#include "merge/render/render.h"
#include "merge/render/report_json.h"
#include "merge/render/request_way.h"
#include "merge/render/side_tables.h"

namespace trapline {
namespace {

Json source_json(const SourceRow& source) {
  return {{"path", printable(source.path)},
          {"kind", source.kind},
          {"clock", printable(source.clock)},
          {"events", source.events},
          {"lost", source.lost},
          {"method", source.method},
          {"offset_ns", source.offset_ns},
          {"error_ns", source.error_ns ? Json(*source.error_ns) : Json()},
          {"assumes",
           {{"one_boot", source.one_boot_error_ns.has_value()},
            {"rate_change_ppm", source.rate_change_ppm ? Json(*source.rate_change_ppm) : Json()}}}};
}

Json name_or_null(const std::string& name) { return name.empty() ? Json() : Json(name); }

Json overhead_json(const std::optional<Overhead>& overhead, const Report& report) {
  if (!overhead) return {};
  const auto share = [&](std::uint64_t ns) {
    return overhead->busy_ns() == 0
               ? Json()
               : Json(static_cast<double>(ns) / static_cast<double>(overhead->busy_ns()));
  };
  const bool knows_not_run = report.knows(State::kPreempted);
  return {{"guest_ns", overhead->guest_ns},
          {"exit_ns", overhead->exit_ns},
          {"not_run_ns", knows_not_run ? Json(overhead->not_run_ns) : Json()},
          {"share", share(overhead->exit_ns)},
          {"not_run_share", knows_not_run ? share(overhead->not_run_ns) : Json()}};
}

void add_distribution(Json& json, const Histogram& histogram) {
  const auto known = [&](std::uint64_t ns) { return histogram.count() == 0 ? Json() : Json(ns); };
  json["min_ns"] = known(histogram.min());
  json["mean_ns"] = known(histogram.mean());
  json["p50_ns"] = value_or_null(histogram.percentile(500));
  json["p90_ns"] = value_or_null(histogram.percentile(900));
  json["p99_ns"] = value_or_null(histogram.percentile(990));
  json["p999_ns"] = value_or_null(histogram.percentile(999));
  json["max_ns"] = known(histogram.max());
}

}  // namespace

Json vcpu_json(const VcpuRow& row, const Report& report) {
  const VcpuTotals& totals = row.totals;
  Json json = {{"vm", row.vm},
               {"vm_name", name_or_null(row.vm_name)},
               {"vcpu", row.vcpu == kNoVcpu ? Json() : Json(row.vcpu)},
               {"tid", row.tid},
               {report.rows_of == RowsOf::kCalls ? "calls" : "exits", totals.exits}};
  add_states(json, totals, report.known_states());
  if (report.rows_of == RowsOf::kCalls) return json;
  json["start_ns"] = totals.begin.ns();
  json["end_ns"] = totals.end.ns();
  json["open"] = totals.open ? Json({{"state", kStateKeys[static_cast<std::size_t>(*totals.open)]},
                                     {"ns", totals.open_ns}})
                             : Json();
  std::optional<Overhead> overhead;
  if (report.knows(State::kGuest)) overhead.emplace().add(totals);
  json["overhead"] = overhead_json(overhead, report);
  return json;
}

void add_parts(Json& json, const Parts& parts, const States& known) {
  for (std::size_t i = 0; i < kParts; ++i)
    json[std::string(kPartNames[i]) + "_ns"] = value_or_null(told(known, i, parts));
}

void add_states(Json& json, VcpuTotals totals, const States& known) {
  json["time_ns"] = totals.time_ns();
  const auto guest = static_cast<std::size_t>(State::kGuest);
  json["guest_ns"] = known[guest] ? Json(totals.guest_ns) : Json();
  add_parts(json, totals.parts, known);
  for (const State state : {State::kPaused, State::kOffline, State::kNotSeen})
    json[std::string(kStateKeys[static_cast<std::size_t>(state)]) + "_ns"] = totals.of(state);
}

Json row_json(const GroupRow& row, const Report& report) {
  Json json = {{"key", row.key}, {"count", row.total.count()}, {"total_ns", row.total.total()}};
  if (report.rows_of == RowsOf::kExits) json["halts"] = row.halts;
  if (report.rows_of == RowsOf::kCalls) {
    json["guest_ns"] = row.guest_ns();
    json["devices_at_most_ns"] = row.devices_at_most_ns;
  }
  const bool parts = report.rows_of != RowsOf::kRequests;
  add_parts(json, row.parts, parts ? report.known_states() : States());
  add_distribution(json, row.total);
  json["max_at_ns"] = row.max_at_ns;
  if (report.durations()) return json;
  for (const char* key : {"total_ns", "min_ns", "mean_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns",
                          "max_ns", "max_at_ns"})
    json[key] = nullptr;
  return json;
}

Json distribution_json(const Histogram& histogram) {
  Json json = {{"count", histogram.count()}, {"total_ns", histogram.total()}};
  add_distribution(json, histogram);
  return json;
}

Json exit_json(const ExitRow& row, const States& known) {
  Json json = {{"start_ns", row.span.start.ns()}, {"total_ns", row.span.total()}};
  add_parts(json, row.span.parts, known);
  json["vcpu"] = row.span.vcpu == kNoVcpu ? Json() : Json(row.span.vcpu);
  json["tid"] = static_cast<std::int32_t>(row.span.thread);
  json["reason"] = row.reason;
  json["detail"] = row.detail;
  json["device"] = row.device;
  json["function"] = row.function;
  json["preempted_by"] = row.preempted_by;
  json["qemu_events"] = row.span.vmm_events;
  if (row.span.injected != kNoVector) json["injected_vector"] = row.span.injected;
  return json;
}

namespace {

Json counters_json(const ReportCounters& counters) {
  const ExitCounters& exits = counters.exits;
  return {{"exits", exits.exits},
          {"exit_without_entry", exits.exit_without_entry},
          {"entry_without_exit", exits.entry_without_exit},
          {"closed_by_loss", exits.closed_by_loss},
          {"exits_stopped", exits.exits_stopped},
          {"lost_events", counters.lost_events},
          {"gaps", counters.gaps},
          {"gaps_uncounted", counters.gaps_uncounted},
          {"left_out_events", counters.left_out_events},
          {"left_out_pieces", counters.left_out_pieces},
          {"qemu_events", exits.vmm_events},
          {"qemu_events_in_exits", exits.vmm_events_in_exits},
          {"guest_records", counters.guest_records},
          {"user_without_end", exits.user_without_end},
          {"clock_went_back", exits.clock_went_back},
          {"threads_left_out", exits.threads_left_out},
          {"damaged_events", counters.damaged_events},
          {"requests_restarted", counters.requests_restarted},
          {"requests_end_only", counters.requests_end_only},
          {"requests_open", counters.requests_open},
          {"notifies_ambiguous", counters.notifies_ambiguous},
          {"interrupts_ambiguous", counters.interrupts_ambiguous},
          {"calls", counters.calls.calls},
          {"calls_without_return", counters.calls.without_return},
          {"calls_cut_by_loss", counters.calls.cut_by_loss},
          {"groups_folded", counters.groups_folded}};
}

Json irqs_json(const Report& report) {
  Json rows = Json::array();
  for (const IrqRow& row : *report.irqs) {
    rows.push_back({{"vector", row.vector},
                    {"pin", row.pin},
                    {"raised", row.raised},
                    {"injected", row.injected},
                    {"raise_to_inject", distribution_json(row.to_inject)},
                    {"raise_to_entry", distribution_json(row.to_entry)},
                    {"inject_to_eoi", distribution_json(row.to_eoi)}});
  }
  return {{"coalesced", report.irqs_coalesced}, {"rows", std::move(rows)}};
}

Json guest_functions_json(const Report& report) {
  Json rows = Json::array();
  for (const GuestFunctionRow& row : *report.guest_functions) {
    Json json = {{"name", row.name},
                 {"calls", row.times.calls},
                 {"exits", row.times.exits},
                 {"own_ns", row.times.own_ns()},
                 {"guest_ns", report.knows(State::kGuest) ? Json(row.times.guest_ns) : Json()}};
    if (report.rows_of == RowsOf::kCalls) {
      json["qemu_events"] = row.times.vmm_events;
      json["devices_at_most_ns"] = row.times.devices_at_most_ns;
    }
    add_parts(json, row.times.parts, report.known_states());
    rows.push_back(std::move(json));
  }
  return rows;
}

Json request_paths_json(const Report& report) {
  Json rows = Json::array();
  for (const RequestPathRow& row : report.request_paths) {
    rows.push_back({{"key", row.key},
                    {"requests", row.requests},
                    {"notify_to_start", distribution_json(row.from_notify)},
                    {"end_to_injection", distribution_json(row.to_injection)},
                    {"notify_to_injection", distribution_json(row.whole)}});
    add_request_way(rows.back(), row);
  }
  return rows;
}

Json wait_rows_json(const WaitRows& waits) {
  Json rows = Json::array();
  for (const WaitRow& row : waits.rows) {
    rows.push_back({{"culprit", row.culprit},
                    {"tid", row.tid < 0 ? Json() : Json(row.tid)},
                    {"process", row.process.empty() ? Json() : Json(std::stoi(row.process))},
                    {"vm", name_or_null(row.vm)},
                    {"vm_name", name_or_null(row.vm_name)},
                    {"ns", row.ns},
                    {"count", row.count},
                    {"max_ns", row.max_ns}});
  }
  Json json = {{"total_ns", waits.total_ns}, {"rows", std::move(rows)}};
  if (waits.rows_left_out != 0) json["rows_left_out"] = waits.rows_left_out;
  return json;
}

Json steal_json(const Report& report) {
  Json rows = Json::array();
  for (const StealRow& row : *report.steal) {
    Json json = {{"vm", row.vm},
                 {"vm_name", name_or_null(row.vm_name)},
                 {"vcpu", row.vcpu == kNoVcpu ? Json() : Json(row.vcpu)},
                 {"tid", row.tid},
                 {"waits", row.waits}};
    json.update(wait_rows_json(row.by));
    rows.push_back(std::move(json));
  }
  return rows;
}

}  // namespace

Json halt_json(const HaltRow& row) {
  return {{"vm", row.vm},
          {"vm_name", name_or_null(row.vm_name)},
          {"vcpu", row.vcpu == kNoVcpu ? Json() : Json(row.vcpu)},
          {"polls_won", distribution_json(row.polls_won)},
          {"slept", distribution_json(row.slept)},
          {"wake_to_run", distribution_json(row.wake_to_run)},
          {"invalid", row.invalid}};
}

Json report_json(const Report& report, VcpuRows vcpus) {
  Json json = {{"version", 2}};
  for (const SourceRow& source : report.sources) json["sources"].push_back(source_json(source));
  json["interval"] = {{"start_ns", report.start_ns}, {"end_ns", report.end_ns}};
  json["time_unit"] = report.cycles ? "cycles" : "ns";
  json["user_end"] = name_of(report.model.user_end);
  json["from_userspace_exit"] = report.model.from_userspace_exit;
  json["vcpus"] = Json::array();
  const bool inside = vcpus == VcpuRows::kInside;
  if (inside)
    for (const VcpuRow& row : report.vcpus) json["vcpus"].push_back(vcpu_json(row, report));
  json["overhead"] = overhead_json(report.overhead, report);
  Json rows = Json::array();
  for (const GroupRow& row : report.rows) rows.push_back(row_json(row, report));
  json["groups"] = {{"by", report.by}, {"of", name_of(report.rows_of)}, {"rows", std::move(rows)}};
  if (report.rows_left_out != 0) json["groups"]["rows_left_out"] = report.rows_left_out;
  json["qemu_events"] = Json::array();
  for (const VmmEventRow& row : report.vmm_events) {
    json["qemu_events"].push_back(
        {{"name", row.name}, {"count", row.count.count}, {"in_exits", row.count.in_exits}});
  }
  if (report.slow_exits) {
    Json exits = Json::array();
    for (const ExitRow& row : *report.slow_exits)
      exits.push_back(exit_json(row, report.known_states()));
    json["slow_exits"] = {{"slower_than_ns", report.slower_than_ns},
                          {"left_out", report.slow_left_out},
                          {"exits", std::move(exits)}};
  }
  if (report.rows_of == RowsOf::kRequests) json["request_paths"] = request_paths_json(report);
  if (!report.vhost.empty()) json["vhost"] = vhost_json(report);
  if (report.irqs) json["irqs"] = irqs_json(report);
  if (report.halts) json["halts"] = Json::array();
  if (report.halts && inside)
    for (const HaltRow& row : *report.halts) json["halts"].push_back(halt_json(row));
  if (report.waits) {
    json["waits"] = {{"preempted", wait_rows_json(report.waits->preempted)},
                     {"blocked", wait_rows_json(report.waits->blocked)},
                     {"halted", wait_rows_json(report.waits->halted)}};
  }
  if (report.steal) json["steal"] = steal_json(report);
  if (report.guest_functions) json["guest_functions"] = guest_functions_json(report);
  if (report.guest_functions_left_out != 0) {
    json["guest_functions_left_out"] = report.guest_functions_left_out;
  }
  json["counters"] = counters_json(report.counters);
  if (report.counters.bios_ambiguous != 0) {
    json["counters"]["bios_ambiguous"] = report.counters.bios_ambiguous;
  }
  json["notes"] = report.notes;
  if (report.halt_costs) json["halt_costs"] = Json::array();
  if (report.halt_costs && inside)
    for (const HaltCostRow& row : *report.halt_costs)
      json["halt_costs"].push_back(halt_cost_json(row, report.cycles));
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
    add_rows(key, value, [](const Json& row) -> const Json& { return row; });
  }
  template <typename Rows, typename ToJson>
  void add_rows(const std::string& key, const Rows& rows, const ToJson& to_json) {
    begin(key);
    const char* separator = "\n    ";
    out_ << '[';
    for (const auto& row : rows) {
      out_ << std::exchange(separator, ",\n    ");
      print(to_json(row), 4);
    }
    out_ << (rows.empty() ? "]" : "\n  ]");
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
  const Json json = report_json(report, VcpuRows::kApart);
  for (const auto& [key, value] : json.items()) {
    if (key == "vcpus") {
      object.add_rows(key, report.vcpus,
                      [&](const VcpuRow& row) { return vcpu_json(row, report); });
    } else if (key == "halts") {
      object.add_rows(key, *report.halts, [](const HaltRow& row) { return halt_json(row); });
    } else if (key == "halt_costs") {
      object.add_rows(key, *report.halt_costs,
                      [&](const HaltCostRow& row) { return halt_cost_json(row, report.cycles); });
    } else {
      object.add(key, value);
    }
  }
  object.end();
}

}  // namespace trapline
