// From what was gathered to the page's JSON, version 1: docs/formats/page.md.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "merge/render/page/page_data.h"
#include "merge/render/page/worst_json.h"
#include "merge/render/report_json.h"

namespace trapline {
namespace {

using page::Cells;
using page::Shares;
using page::WorstExits;

constexpr std::string_view kCellsPlace = "@cells@";
constexpr std::size_t kAimCells = 12'000, kFewestBins = 64;

}  // namespace

struct PageData::Writer {
  const PageData& data;
  const Pipeline& pipeline;
  const Timeline& timeline;
  Report report;
  VcpuNames vcpus;
  std::uint64_t start = 0;
  page::TimeBins bins;
  std::string cells_text;

  [[nodiscard]] std::int64_t relative(std::uint64_t ns) const {
    return static_cast<std::int64_t>(ns - start);
  }
  [[nodiscard]] ExitKeys::Namer namer() const {
    return {pipeline.names(), pipeline.stacks(), timeline, vcpus, pipeline.processes()};
  }

  Json rows(const Report& table) const {
    Json rows = Json::array();
    for (const GroupRow& row : table.rows) {
      if (rows.size() >= kMostRows) break;
      Json json = row_json(row);
      json.erase("max_at_ns");
      json["max_at"] = relative(row.max_at_ns);
      json["halt"] = row.halts;
      rows.push_back(std::move(json));
    }
    return rows;
  }

  Json sets() const {
    Json sets = Json::array();
    for (std::size_t i = 0; i + 1 < data.tables_.size(); ++i) {
      const Report table = data.tables_[i]->snapshot(pipeline);
      Json rows_of = rows(table);
      const std::size_t left = table.rows.size() - rows_of.size();
      sets.push_back({{"by", table.by}, {"rows", std::move(rows_of)}, {"rows_left_out", left}});
    }
    return sets;
  }

  Json vcpu_rows(Json json) const {
    for (std::size_t i = 0; i < report.vcpus.size(); ++i) {
      const ThreadId thread{report.vcpus[i].tid};
      Json& row = json[i];
      row["name"] = vcpus.vcpu(thread, true);
      const std::vector<Shares::Bin>* shares = data.shares_.of(thread);
      for (std::size_t state = 0; state < page::kStates; ++state) {
        Json values = Json::array();
        for (std::size_t bin = 0; shares != nullptr && bin < shares->size(); ++bin) {
          values.push_back((*shares)[bin][state]);
        }
        row["shares"][std::string(page::kStateNames[state])] = std::move(values);
      }
    }
    return json;
  }

  // values, combos, and cells_text: as a tree of values they would be most of the work.
  void cells(Json& json) {
    const std::vector<Dimension>& dimensions = Cells::dimensions();
    constexpr std::string_view kNames[] = {"reason",     "detail", "device",
                                           "qemu-event", "stack",  "vcpu"};
    std::vector<std::map<std::string, std::size_t>> numbers(dimensions.size());
    std::vector<std::vector<std::string>> values(dimensions.size());
    const auto number = [&](std::size_t dimension, std::string text) {
      const auto [place, is_new] = numbers[dimension].emplace(text, values[dimension].size());
      if (is_new) values[dimension].push_back(std::move(text));
      return place->second;
    };
    // Two keys may have one text; they are one combination then.
    std::map<std::vector<std::size_t>, std::size_t> merged;
    std::vector<std::size_t> combo_of;
    const auto add = [&](const std::vector<std::size_t>& combo) {
      combo_of.push_back(merged.emplace(combo, merged.size()).first->second);
    };
    for (const GroupKey& key : data.cells_.combos()) {
      std::vector<std::size_t> combo;
      std::size_t word = 0;
      for (std::size_t i = 0; i < dimensions.size(); ++i) {
        const std::vector<Dimension> one = {dimensions[i]};
        const bool is_detail = one[0] == Dimension::kDetail;
        GroupKey part;
        part.words[0] = key.words[word++];
        if (is_detail) part.words[1] = key.words[word++];
        std::string text = ExitKeys(one).text(part, namer());
        if (is_detail && text.starts_with("page-fault")) text = "page-fault";
        combo.push_back(number(i, std::move(text)));
      }
      add(combo);
    }
    std::vector<std::size_t> other;
    if (data.cells_.folded() != 0) {
      for (std::size_t i = 0; i < dimensions.size(); ++i) {
        other.push_back(number(i, std::string(Report::kFoldedKey)));
      }
      add(other);
    }
    std::map<std::tuple<std::size_t, std::uint32_t, std::uint32_t>, Cells::Cell> sums;
    for (const Cells::Cell& cell : data.cells_.sorted()) {
      const std::size_t combo = combo_of[std::min<std::size_t>(cell.combo(), combo_of.size() - 1)];
      Cells::Cell& sum = sums[{combo, cell.time(), cell.latency()}];
      sum.count += cell.count;
      sum.total += cell.total;
      sum.user += cell.user;
      sum.preempted += cell.preempted;
      sum.blocked += cell.blocked;
    }
    std::vector<std::string> flat(merged.size());
    std::vector<std::uint32_t> last(merged.size());
    for (const auto& [key, cell] : sums) {
      const auto& [combo, time, latency] = key;
      std::string& text = flat[combo];
      fmt::format_to(std::back_inserter(text), "{}{},{},{},{},{},{},{}", text.empty() ? "" : ",",
                     time - last[combo], latency, cell.count, cell.total, cell.user, cell.preempted,
                     cell.blocked);
      last[combo] = time;
    }
    cells_text = '[';
    for (const std::string& text : flat)
      cells_text += (cells_text.size() > 1 ? ",[" : "[") + text + ']';
    cells_text += ']';
    Json combos = Json::array();
    combos.get_ref<Json::array_t&>().resize(merged.size());
    for (const auto& [combo, at] : merged) combos[at] = combo;
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      json["values"][std::string(kNames[i])] = values[i];
    }
    json["combos"] = std::move(combos);
    json["cells"] = kCellsPlace;
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
    if (data.cells_.folded() != 0) {
      sentences.push_back(
          fmt::format("{} exits are in no selection: there are more combinations of values than "
                      "the page keeps.",
                      data.cells_.folded()));
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

  Json requests() const {
    const Report table = data.tables_.back()->snapshot(pipeline);
    const Json all = report_json(table);
    Json rows = Json::array();
    for (const GroupRow& row : table.rows) {
      Json json = row_json(row);
      json.erase("max_at_ns");
      rows.push_back(std::move(json));
    }
    Json counters = all["counters"];
    return {{"rows", std::move(rows)},
            {"paths", all.value("request_paths", Json::array())},
            {"counters", std::move(counters)}};
  }

  std::string print(std::size_t neighbourhoods) {
    const Json base = report_json(report);
    Json json;
    json["recorded"] = data.options_.recorded;
    json["tool"] = data.options_.tool;
    json["command"] = data.options_.command;
    json["sources"] = sources(base["sources"]);
    json["interval"] = {{"start_ns", std::to_string(report.start_ns)},
                        {"end_ns", std::to_string(report.end_ns)}};
    json["duration_ns"] = report.end_ns - report.start_ns;
    json["time_unit"] = base["time_unit"];
    json["user_end"] = base["user_end"];
    json["from_userspace_exit"] = base["from_userspace_exit"];
    Json asked = requests();
    json["counters"] = base["counters"];
    for (const char* key : {"requests_restarted", "requests_end_only", "requests_open",
                            "notifies_ambiguous", "interrupts_ambiguous"}) {
      json["counters"][key] = asked["counters"][key];
    }
    json["notes"] = base["notes"];
    json["time"] = {{"origin", relative(bins.base() << bins.shift)},
                    {"bin_ns", std::uint64_t{1} << bins.shift},
                    {"bins", bins.bin(std::max(report.end_ns, report.start_ns)) + 1}};
    json["latency"] = {{"per_octave", 4}};
    json["vcpus"] = vcpu_rows(base["vcpus"]);
    json["lost"] = losses();
    json["lost_left_out"] = data.losses_left_out_;
    cells(json);
    json["sets"] = sets();
    json["requests"] = std::move(asked["rows"]);
    json["request_paths"] = std::move(asked["paths"]);
    json["irqs"] = base["irqs"];
    json["halts"] = base["halts"];
    json["guest_functions"] = base.value("guest_functions", Json::array());
    page::add_worst(json, data.worst_, {pipeline, timeline, vcpus, start}, neighbourhoods);
    json["left_out"] = left_out();
    const Json page = {{"format", "trapline-page"},
                       {"version", 1},
                       {"recordings", Json::array({std::move(json)})}};
    std::string text = page.dump(-1, ' ', true, Json::error_handler_t::replace);
    // No name can look like it: the quotes of a text are escaped.
    const std::string place = fmt::format("\"cells\":\"{}\"", kCellsPlace);
    text.replace(text.find(place) + 8, place.size() - 8, cells_text);
    return text;
  }
};

namespace {

// What would end a script element, or begin a comment in one, is written as an escape.
std::string without_markup(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else if (c == '>') {
      text += "\\u003e";
    } else if (c == '&') {
      text += "\\u0026";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

void PageData::finish(const Pipeline& pipeline) {
  Writer writer{*this, pipeline, *timeline_, tables_.front()->snapshot(pipeline), {}, 0, {}, {}};
  const std::vector<VcpuThread> threads = vcpu_threads(pipeline.exits().vcpus(), *timeline_);
  writer.vcpus = VcpuNames(threads, find_vms(threads, pipeline.processes()));
  writer.start = writer.report.start_ns;
  const std::uint64_t first = pipeline.begin().value_or(Timestamp(writer.start)).ns();
  cells_.begin_at(first);
  shares_.begin_at(first);
  // One length of bins for all, and few enough cells.
  const auto few = [&] {
    return cells_.size() <= kAimCells ||
           cells_.bins().bin(pipeline.end().ns()) + 1 < 2 * kFewestBins;
  };
  const auto fits = [&](const page::TimeBins& bins) {
    return bins.bin(writer.report.end_ns) < Cells::kMostBins;
  };
  while (!few()) cells_.coarsen();
  while (!fits(cells_.bins())) cells_.coarsen();
  std::size_t neighbourhoods = WorstExits::kMost + WorstExits::kMostRows;
  while (true) {
    while (shares_.bins().shift < cells_.bins().shift) shares_.coarsen();
    while (cells_.bins().shift < shares_.bins().shift) cells_.coarsen();
    writer.bins = cells_.bins();
    json_ = without_markup(writer.print(neighbourhoods));
    if (json_.size() <= kMostBytes) return;
    if (neighbourhoods > 2 * page::kFirst) {
      neighbourhoods = 2 * page::kFirst;
    } else if (writer.bins.bin(writer.report.end_ns) > 2) {
      cells_.coarsen();
    } else if (neighbourhoods != 0) {
      neighbourhoods = 0;
    } else {
      return;
    }
  }
}

}  // namespace trapline
