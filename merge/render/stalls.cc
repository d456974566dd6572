#include "merge/render/stalls.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend_ftrace/base/text.h"
#include "merge/render/tables.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

std::string limits_text(const StallRow& row) {
  std::string text;
  for (const StallLimit& limit : row.limits) {
    text += fmt::format("{}{} after {} ({})", text.empty() ? "A guest may notice: " : "; ",
                        limit.what, duration_text(limit.ns, false), limit.source);
  }
  return text.empty() ? text : text + '.';
}

std::string sentence_of(const StallRow& row) {
  const Stall& stall = row.stall;
  std::string text =
      fmt::format("{} made no progress for {}{}", row.name, duration_text(stall.length(), false),
                  stall.open ? ", and had not ended when the recording did" : "");
  if (text.starts_with("all ")) text.front() = 'A';
  if (stall.vcpus != 0 && stall.not_halted != stall.vcpus)
    text += ", and no other vCPU ran the guest meanwhile";
  text += '.';
  if (stall.faults * 2 > stall.exits) {
    text += fmt::format(" The same page fault (0x{:x}) came {} times at the same instruction.",
                        stall.fault_address, stall.faults);
  } else if (stall.exits > 1) {
    text += fmt::format(" These are {} exits, between which the guest ran for {}.", stall.exits,
                        duration_text(row.guest_ns, false));
  }
  if (!row.exit.empty())
    text += fmt::format(" {} exit was {}.", stall.exits > 1 ? "The longest" : "The", row.exit);
  std::uint64_t told = 0;
  constexpr std::size_t kMostTold = 3;
  for (std::size_t i = 0; i < std::min(kMostTold, row.causes.size()); ++i) {
    const StallRow::Cause& cause = row.causes[i];
    if (i != 0 && cause.ns * 20 < stall.length()) break;
    told += cause.ns;
    const double share = 100 * static_cast<double>(cause.ns) / static_cast<double>(stall.length());
    text += fmt::format("{} {} ({:.1f}%) {}",
                        i != 0             ? ", for"
                        : stall.vcpus != 0 ? " The vCPU that was stopped longest: for"
                                           : " For",
                        duration_text(cause.ns, false), share, cause.text);
  }
  if (told * 20 < stall.length() * 19)
    text += fmt::format(", and other causes took {}", duration_text(stall.length() - told, false));
  return text + '.';
}

// The command that explains the longest exit of the longest one that has any: no command explains
// one that no exit ended.
void print_next(const StallsFound& found, std::ostream& out, const TextStyle& style) {
  const auto row = std::ranges::find_if(
      found.rows, [](const StallRow& one) { return one.stall.longest.has_value(); });
  if (row == found.rows.end() || found.recording.empty()) return;
  std::string command = fmt::format("trapline explain {} --around {}", found.recording,
                                    seconds_text(row->stall.longest->start.ns()));
  // Of several VMs the name says whose it is.
  if (row->name.starts_with("VM ") && !row->vm.empty()) command += " --vm " + shell_text({row->vm});
  if (row->vcpu != kNoVcpu) command += fmt::format(" --vcpu {}", row->vcpu);
  const std::string answers =
      row == found.rows.begin()
          ? "# why its longest exit took so long"
          : fmt::format("# why the longest exit of the stall of {} took so long",
                        duration_text(row->stall.length(), false));
  const bool fits = 6 + text_width(command) + 2 + text_width(answers) <= style.width;
  out << "\nnext: " << command << (fits ? "  " : "\n      ") << answers << '\n';
}

std::vector<std::string> notes_of(const StallsFound& found) {
  std::vector<std::string> notes = found.notes;
  for (const OpenHalt& halt : found.open_halts) {
    notes.push_back(fmt::format("{} was halted at the end, for {}: idle, as far as the events tell",
                                halt.vcpu, duration_text(halt.ns, false)));
  }
  return notes;
}

}  // namespace

void print_text(const StallsFound& found, std::ostream& out, const TextStyle& style) {
  const std::string least = duration_text(found.at_least_ns, false);
  if (found.rows.empty()) {
    out << fmt::format("No stall of {} or more.\n", least);
  } else {
    const StallRow& longest = found.rows.front();
    print_wrapped("", sentence_of(longest), out, style);
    if (const std::string limits = limits_text(longest); !limits.empty())
      print_wrapped("", limits, out, style);
    out << fmt::format("\n{} {} of {} and more, {} together\n", grouped(found.count),
                       found.count == 1 ? "stall" : "stalls", least,
                       duration_text(found.total_ns, false));
    Table table = stall_table(found.rows);
    table.left_out = found.count - found.rows.size();
    print_table(table, "stall", false, out, style);
  }
  for (const std::string& note : notes_of(found)) print_wrapped("note:", note, out, style);
  print_next(found, out, style);
}

Json stalls_json(const std::vector<StallRow>& rows) {
  const Table table = stall_table(rows);
  Json json = Json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const StallRow& row = rows[i];
    Json one = row_json(table, i);
    one["causes"] = Json::array();
    for (const StallRow::Cause& cause : row.causes) {
      one["causes"].push_back({{"cause", cause.key},
                               {"culprit", cause.culprit.empty() ? Json() : Json(cause.culprit)},
                               {"phase", cause.phase.empty() ? Json() : Json(cause.phase)},
                               {"text", cause.text},
                               {"ns", cause.ns}});
    }
    one["noticed"] = Json::array();
    for (const StallLimit& limit : row.limits) {
      one["noticed"].push_back(
          {{"what", limit.what}, {"after_ns", limit.ns}, {"source", limit.source}});
    }
    one["finding"] = sentence_of(row);
    json.push_back(std::move(one));
  }
  return json;
}

void print_json(const StallsFound& found, std::ostream& out) {
  const Json json = {{"version", 1},
                     {"time_unit", "ns"},
                     {"min_ns", found.at_least_ns},
                     {"count", found.count},
                     {"total_ns", found.total_ns},
                     {"stalls", stalls_json(found.rows)},
                     {"stalls_left_out", found.count - found.rows.size()},
                     {"notes", notes_of(found)}};
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void print_csv(const StallsFound& found, std::ostream& out) {
  print_csv(stall_table(found.rows), out);
}

}  // namespace trapline
