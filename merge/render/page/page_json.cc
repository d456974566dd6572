// From what was gathered to the page's JSON, version 3: docs/formats/page.md.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "merge/render/explanation.h"
#include "merge/render/page/cells_json.h"
#include "merge/render/page/page_data.h"
#include "merge/render/page/worst_json.h"
#include "merge/render/render.h"
#include "merge/render/report_json.h"
#include "merge/render/report_text.h"
#include "merge/render/stalls.h"
#include "merge/render/tables.h"
#include "merge/report/tables.h"

namespace trapline {
namespace {

using page::Cells;
using page::Shares;
using page::WorstExits;

constexpr std::string_view kPlace = "@place@";
constexpr std::size_t kAimCells = 10'000, kFewestBins = 64;

}  // namespace

struct PageData::Writer {
  const PageData& data;
  const Report& report;
  const Naming names;
  std::uint64_t start = 0;
  page::TimeBins bins{};
  Json sets_json{};  // they do not depend on the bins

  [[nodiscard]] std::int64_t relative(std::uint64_t ns) const {
    return static_cast<std::int64_t>(ns - start);
  }

  Json sets() const {
    Json sets = Json::array();
    for (const auto& table :
         data.exits_.tables.tables(data.exits_.combos, names, report.model.durations())) {
      const std::span rows = std::span(table.rows).first(std::min(kMostRows, table.rows.size()));
      Table groups = group_table(rows, report);
      std::erase_if(groups.columns, [](const Column& column) {
        return column.key == "max_at_ns" || column.key == "halts" ||
               column.key.starts_with("largest");
      });
      const bool durations = report.durations();
      groups.columns.push_back({{"max_at"}, [=, this](std::size_t row) {
                                  return durations ? to_value(relative(rows[row].max_at_ns))
                                                   : CellValue();
                                }});
      groups.columns.push_back(
          {{"halt"}, [=](std::size_t row) { return to_value(rows[row].halts ? 1 : 0); }});
      Json set = {{"by", table.by}, {"rows_left_out", table.rows.size() - rows.size()}};
      set.update(packed_json(groups));
      sets.push_back(std::move(set));
    }
    return sets;
  }

  Json vcpu_row(const Table& table, std::size_t i) const {
    const ThreadId thread{report.vcpus[i].tid};
    Json row = row_json(table, i);
    row["name"] = names.vcpus.vcpu(thread, true);
    const std::vector<Shares::Bin>* shares = data.shares_.of(thread);
    for (std::size_t state = 0; state < kStates; ++state) {
      Json values = Json::array();
      for (std::size_t bin = 0; shares != nullptr && bin < shares->size(); ++bin) {
        values.push_back((*shares)[bin][state]);
      }
      row["shares"][std::string(kStateKeys[state])] = std::move(values);
    }
    return row;
  }

  // One by one: there may be ten thousands of vCPUs.
  template <typename ToJson>
  static std::string rows_text(const Table& table, const ToJson& to_json) {
    std::string text = "[";
    for (std::size_t row = 0; row < table.rows; ++row) {
      if (row != 0) text += ',';
      text += to_json(table, row).dump(-1, ' ', true, Json::error_handler_t::replace);
    }
    return text += ']';
  }

  // No name can look like it: the quotes of a text are escaped.
  static void put(std::string& text, std::string_view key, const std::string& value) {
    const std::string place = fmt::format("\"{}\":\"{}\"", key, kPlace);
    text.replace(text.find(place) + key.size() + 3, kPlace.size() + 2, value);
  }

  Json losses() const {
    Json json = Json::array();
    for (const Loss& loss : data.losses_) {
      json.push_back({{"cpu", loss.cpu},
                      {"from", relative(std::max(start, loss.from.ns()))},
                      {"to", relative(std::max(start, loss.to.ns()))},
                      {"count", loss.count}});
    }
    return json;
  }

  Json left_out() const {
    Json sentences = Json::array();
    if (data.exits_.cells.folded() != 0) {
      sentences.push_back(
          fmt::format("{} exits are in no selection: there are more combinations of values than "
                      "the page keeps.",
                      data.exits_.cells.folded()));
    }
    sentences.push_back(
        "Page faults are kept together in selections, not by address; the table by detail has the "
        "addresses.");
    sentences.push_back(fmt::format(
        "What happened around an exit is kept for the {} longest and for the longest of each "
        "reason and device; the longest {} with up to {} events, the others with up to {}.",
        WorstExits::kMost, page::kFirst, page::kEventsOfFirst, page::kEvents));
    return sentences;
  }

  // Numbers of any size survive a reader with 53 bits only as text.
  static Json sources(Json sources) {
    for (Json& source : sources) {
      source["offset_ns"] = std::to_string(source["offset_ns"].get<std::int64_t>());
      if (!source["error_ns"].is_null()) {
        source["error_ns"] = std::to_string(source["error_ns"].get<std::uint64_t>());
      }
    }
    return sources;
  }

  Json phases() const {
    Json json = phases_json(data.phases_->report(names.pipeline, report.end_ns), report);
    for (Json& row : json["rows"]) {
      row["start"] = relative(row["start_ns"].get<std::uint64_t>());
      row.erase("start_ns");
    }
    return json;
  }

  Json requests() const {
    const Report table = data.requests_.snapshot(names);
    const Json all = report_json(table);
    Json rows = all["groups"]["rows"];
    for (Json& row : rows) row.erase("max_at_ns");
    Json counters = all["counters"];
    return {{"rows", std::move(rows)},
            {"paths", all.value("request_paths", Json::array())},
            {"vhost", all.value("vhost", Json::array())},
            {"counters", std::move(counters)}};
  }

  Json kernel() const {
    Json json = described_json(kernel_table(*report.kernel), "reason: event", kMostRows);
    json["total_ns"] =
        value_or_null(told(report.known_states(), State::kKernel, report.kernel->total_ns));
    json["whose"] = whose_kernel();
    return json;
  }

  [[nodiscard]] std::string_view whose_kernel() const {
    return report.knows(State::kUser) ? "the kernel's" : "the kernel's or QEMU's";
  }

  void add_kernel(Json& json) const {
    if (report.kernel) json["kernel"] = kernel();
  }
  void add_kernel_stacks(Json& json) const {
    if (data.kernel_) json["kernel_stacks"] = page::kernel_stacks_json(*data.kernel_, names);
  }

  Json guest_spans() const {
    Json json = guest_spans_json(*data.guest_spans_explained_, kMostRows);
    for (Json& span : json["worst"]) {
      span["start"] = relative(span["start_ns"].get<std::uint64_t>());
      span.erase("start_ns");
    }
    return json;
  }

  Json stalls() const {
    const StallsFound found = data.stalls_.found(names, kStallRows);
    Json rows = stalls_json(found.rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i]["name"] = found.rows[i].name;
      rows[i]["start"] = relative(rows[i]["begin_ns"].get<std::uint64_t>());
      rows[i].erase("begin_ns");
    }
    return {{"min_ns", PassOptions().stalls_ns},
            {"count", found.count},
            {"total_ns", found.total_ns},
            {"rows", std::move(rows)}};
  }

  std::string print(std::size_t neighbourhoods) {
    const Json base = report_json(report);
    Json json;
    json["recorded"] = data.pass_.input().recorded;
    json["tool"] = data.options_.tool;
    json["command"] = data.options_.command;
    json["sources"] = sources(base["sources"]);
    json["interval"] = {{"start_ns", std::to_string(report.start_ns)},
                        {"end_ns", std::to_string(report.end_ns)}};
    json["duration_ns"] = report.end_ns - report.start_ns;
    for (const char* key : {"time_unit", "user_end", "from_userspace_exit"}) json[key] = base[key];
    Json asked = requests();
    json["counters"] = base["counters"];
    for (const char* key : {"requests_restarted", "requests_end_only", "requests_open",
                            "notifies_ambiguous", "interrupts_ambiguous", "bios_ambiguous"}) {
      json["counters"][key] = asked["counters"][key];
    }
    json["finding"] = finding_text(report);
    json["notes"] = base["notes"];
    json["missing"] = report.missing;
    json["time"] = {{"origin", relative(bins.base() << bins.shift)},
                    {"bin_ns", std::uint64_t{1} << bins.shift},
                    {"bins", bins.bin(std::max(report.end_ns, report.start_ns)) + 1}};
    json["latency"] = {{"per_octave", 4}};
    json["vcpus"] = kPlace;
    json["overhead"] = base["overhead"];
    json["lost"] = losses();
    json["lost_left_out"] = data.losses_left_out_;
    page::CellsJson cells = page::cells_json(data.exits_, names);
    json["values"] = std::move(cells.values);
    json["combos"] = std::move(cells.combos);
    json["cells"] = kPlace;
    if (sets_json.is_null()) sets_json = sets();
    json["sets"] = sets_json;
    json["requests"] = std::move(asked["rows"]);
    json["request_paths"] = std::move(asked["paths"]);
    json["vhost"] = std::move(asked["vhost"]);
    add_kernel(json);
    json["irqs"] = base["irqs"];
    json["halts"] = report.halts ? Json(kPlace) : Json();
    json["guest_functions"] = base.value("guest_functions", Json::array());
    json["guest_stacks"] = data.guest_.json(names.pipeline);
    if (data.phases_) json["phases"] = phases();
    add_kernel_stacks(json);
    if (data.guest_spans_explained_) json["guest_spans"] = guest_spans();
    if (report.durations() && !report.model.cycles) json["stalls"] = stalls();
    page::NumberedTexts texts;
    page::add_worst(json, data.worst_, {names, start}, neighbourhoods, texts);
    json["texts"] = texts.all();
    json["waits"] = data.waits_.json(names);
    json["left_out"] = left_out();
    std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
    put(text, "vcpus",
        rows_text(vcpu_table(report.vcpus, report),
                  [this](const Table& table, std::size_t row) { return vcpu_row(table, row); }));
    put(text, "cells", cells.cells);
    if (report.halts) put(text, "halts", rows_text(halt_table(report), row_json));
    return text;
  }
};

std::string without_markup(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  std::size_t from = 0;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (c != '<' && c != '>' && c != '&') continue;
    text.append(json, from, at - from)
        .append(c == '<'   ? "\\u003c"
                : c == '>' ? "\\u003e"
                           : "\\u0026");
    from = at + 1;
  }
  return text.append(json, from);
}

Result<std::string> PageData::recording(const Report& report) {
  const Pipeline& pipeline = pass_.pipeline();
  if (guest_spans_) {
    if (auto found = check_guest_intervals(pass_); !found)
      return tl::unexpected(std::move(found).error());
    guest_spans_explained_ = guest_spans_->explain(pass_.naming());
  }
  Writer writer{*this, report, pass_.naming(), report.start_ns, {}, {}};
  const std::uint64_t first = pipeline.begin().value_or(Timestamp(writer.start)).ns();
  Cells& cells = exits_.cells;
  cells.begin_at(first);
  shares_.begin_at(first);
  // One length of bins for all, and few enough cells.
  const auto few = [&] {
    return cells.size() <= kAimCells || cells.bins().bin(pipeline.end().ns()) + 1 < 2 * kFewestBins;
  };
  const auto fits = [&](const page::TimeBins& bins) {
    return bins.bin(writer.report.end_ns) < Cells::kMostBins;
  };
  while (!few()) cells.coarsen();
  while (!fits(cells.bins())) cells.coarsen();
  std::size_t neighbourhoods = WorstExits::kMost + WorstExits::kMostRows, before = 0;
  // Where the rows of vCPUs alone are more than fits, nothing is left to be tried.
  constexpr std::size_t kLeastBytesOfVcpu = 500;
  if (report.vcpus.size() > PageOptions::kMostBytes / kLeastBytesOfVcpu) {
    neighbourhoods = 0;
    while (cells.bins().bin(report.end_ns) > 2) cells.coarsen();
  }
  while (true) {
    const unsigned shift =
        std::max({shares_.bins().shift, cells.bins().shift, waits_.bins().shift});
    while (shares_.bins().shift < shift) shares_.coarsen();
    while (cells.bins().shift < shift) cells.coarsen();
    while (waits_.bins().shift < shift) waits_.coarsen();
    writer.bins = cells.bins();
    std::string json = without_markup(writer.print(neighbourhoods));
    if (json.size() <= PageOptions::kMostBytes) return json;
    if (neighbourhoods > 2 * page::kFirst) {
      neighbourhoods = 2 * page::kFirst;
    } else if (writer.bins.bin(writer.report.end_ns) > 2) {
      // What depends on the bins is halved each time: where as much again as was saved is not
      // enough, only the fewest bins are worth another attempt.
      const std::size_t saved = before > json.size() ? before - json.size() : 0;
      const bool helps = before == 0 || json.size() - saved <= PageOptions::kMostBytes;
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
