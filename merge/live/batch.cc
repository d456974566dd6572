#include "merge/live/batch.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/pass/exit_text.h"
#include "merge/render/report_json.h"

namespace trapline::live {
namespace {

Json vcpu_json(const VcpuRow& row, std::uint64_t length, const States& known) {
  Json json = {{"vm", row.vm},
               {"vcpu", row.vcpu == kNoVcpu ? Json() : Json(row.vcpu)},
               {"tid", row.tid},
               {"exits", row.totals.exits}};
  add_states(json, row.totals, known);
  // With what came before the vCPU's time.
  const std::uint64_t seen = row.totals.time_ns() - row.totals.not_seen_ns;
  json["not_seen_ns"] = length > seen ? length - seen : 0;
  return json;
}

void add_distribution(Json& json, const Distribution& times) {
  json["min_ns"] = times.min();
  json["mean_ns"] = times.mean();
  json["p50_ns"] = value_or_null(times.percentile(500));
  json["p90_ns"] = value_or_null(times.percentile(900));
  json["p99_ns"] = value_or_null(times.percentile(990));
  json["p999_ns"] = value_or_null(times.percentile(999));
  json["max_ns"] = times.max();
}

// As in a report's JSON, and what began before the interval.
Json live_row_json(const LiveRow& row, const States& known) {
  Json json = {{"key", row.key}, {"count", row.total.count()}, {"total_ns", row.total.total()}};
  add_parts(json, row.parts, known);
  add_distribution(json, row.total);
  json["max_at_ns"] = row.max_at_ns;
  json["carried"] = row.carried;
  json["carried_ns"] = row.carried_ns;
  return json;
}

Json slow_json(const SlowExit& exit, const Engine& engine) {
  static const std::vector<Dimension> kReason = {Dimension::kReason},
                                      kDevice = {Dimension::kDevice};
  const Naming& names = engine.naming();
  GroupKey reason, device;
  reason.words[0] = exit.key.words[kReasonWord];
  device.words[0] = exit.key.words[kDeviceWord];
  Json json = {{"start_ns", exit.start.ns()}, {"total_ns", exit.total}};
  add_parts(json, exit.parts, engine.model().known_states());
  json["tid"] = static_cast<std::int32_t>(exit.thread);
  json["vcpu"] = engine.naming().vcpus.vcpu(exit.thread, false);
  json["reason"] = ExitKeys(kReason).text(reason, names);
  json["detail"] = detail_text(exit.detail);
  json["device"] = ExitKeys(kDevice).text(device, names);
  return json;
}

Json waits_json(const WaitRows& waits) {
  Json rows = Json::array();
  for (const WaitRow& row : waits.rows) {
    rows.push_back({{"culprit", row.culprit},
                    {"tid", row.tid < 0 ? Json() : Json(row.tid)},
                    {"ns", row.ns},
                    {"count", row.count},
                    {"max_ns", row.max_ns}});
  }
  return {{"total_ns", waits.total_ns}, {"rows", std::move(rows)}};
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
  const States known = engine.model().known_states();
  Json vcpus = Json::array();
  for (const VcpuRow& row : vcpus_of(frame, options.scope, engine)) {
    vcpus.push_back(vcpu_json(row, frame.length(), known));
  }
  line["vcpus"] = std::move(vcpus);
  line["by"] = options.by_text;
  Json rows = Json::array();
  std::size_t left_out = 0;
  for (const LiveRow& row : rows_of(frame, options.by, options.scope, options.sort, engine)) {
    if (options.top != 0 && rows.size() >= options.top) {
      ++left_out;
      continue;
    }
    rows.push_back(live_row_json(row, known));
  }
  line["rows"] = std::move(rows);
  line["rows_left_out"] = left_out;
  line["exits_folded"] = frame.folded;
  line["waits"] = {{"preempted", waits_json(frame.waits.preempted)},
                   {"blocked", waits_json(frame.waits.blocked)}};
  Json requests = Json::array();
  for (const Requests& row : frame.requests) {
    Json json = {{"key", row.key}, {"count", row.total.count()}, {"total_ns", row.total.total()}};
    add_distribution(json, row.total);
    requests.push_back(std::move(json));
  }
  line["requests"] = std::move(requests);
  Json slow = Json::array();
  for (const SlowExit& exit : slow_of(frame, options.scope, engine)) {
    if (slow.size() >= options.slow) break;
    slow.push_back(slow_json(exit, engine));
  }
  line["slow_exits"] = std::move(slow);
  // Texts were made printable where they came from; what is not UTF-8 must not stop the view.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace trapline::live
