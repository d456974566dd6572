#include "merge/report/phases.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <variant>

#include "backend_ftrace/base/text.h"
#include "merge/pass/naming.h"
#include "merge/report/common_columns.h"
#include "merge/report/grouping.h"
#include "merge/report/options.h"
#include "merge/report/vcpus.h"

namespace trapline {

namespace {

bool parse_address(std::string_view text, std::uint64_t& value) {
  const auto number = text.starts_with("0x") ? parse_number(text) : std::nullopt;
  value = number.value_or(0);
  return number.has_value();
}

}  // namespace

Result<PhaseSpec> parse_phase_spec(std::string_view text) {
  constexpr std::string_view kFunction = "function:";
  const auto equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || equals + 1 == text.size()) {
    return fail(ErrorKind::kUsage,
                "--phase: '{}' is not NAME=PATTERN; use init='Run /init', "
                "kernel=function:start_kernel or kernel=0xffffffff80000000..0xffffffffffffffff",
                text);
  }
  PhaseSpec spec;
  spec.name = text.substr(0, equals);
  const std::string_view pattern = text.substr(equals + 1);
  spec.pattern = pattern;
  const auto dots = pattern.find("..");
  if (dots != std::string_view::npos && parse_address(pattern.substr(0, dots), spec.first) &&
      parse_address(pattern.substr(dots + 2), spec.last)) {
    spec.kind = PhaseSpec::Kind::kAddresses;
    if (spec.last < spec.first)
      return fail(ErrorKind::kUsage, "--phase: '{}' ends before it begins", pattern);
  } else if (pattern.starts_with(kFunction)) {
    spec.kind = PhaseSpec::Kind::kFunction;
    spec.text = pattern.substr(kFunction.size());
  } else {
    spec.text = pattern;
  }
  return spec;
}

std::vector<PhaseSpec> default_phases() {
  std::vector<PhaseSpec> specs = {
      *parse_phase_spec("kernel=0xffff000000000000..0xffffffffffffffff"),
      *parse_phase_spec("init=Run * as init process")};
  specs[0].pattern = "an address of the upper half";
  return specs;
}

namespace {

bool has_wildcard(std::string_view text) {
  return text.find_first_of("*?") != std::string_view::npos;
}

// Returns whether a line contains the pattern. Patterns with wildcards are tried on whole lines
// only, plain text also on the part of a line that is there.
bool matches_text(const PhaseSpec& spec, std::string_view line, bool whole) {
  if (!has_wildcard(spec.text)) return line.find(spec.text) != std::string_view::npos;
  if (!whole) return false;
  return ::fnmatch(("*" + spec.text + "*").c_str(), std::string(line).c_str(), 0) == 0;
}

bool matches_name(const PhaseSpec& spec, std::string_view name) {
  if (!has_wildcard(spec.text)) return name == spec.text;
  return ::fnmatch(spec.text.c_str(), std::string(name).c_str(), 0) == 0;
}

}  // namespace

std::string_view ConsoleLines::add(const KvmDetail& detail, bool& ended) {
  constexpr std::uint64_t kLastByte = 0xff;
  ended = false;
  if (!detail.is_device_write() || detail.data > kLastByte) return {};
  const auto key = std::pair(detail.kind, detail.value);
  auto found = lines_.find(key);
  if (found == lines_.end()) {
    if (lines_.size() >= kMostConsoles) return {};
    found = lines_.emplace(key, Line()).first;
  }
  Line& line = found->second;
  if (line.ended || line.text.size() >= kMostLength) line = Line();
  const char byte = static_cast<char>(detail.data);
  if (byte == '\n') {
    line.ended = ended = true;
  } else if (byte != '\r' && byte != '\0') {
    line.text += byte;
  }
  return line.text;
}

PhaseTable::Phase& PhaseTable::phase_at(Timestamp at) {
  auto phase = phases_.rbegin();
  while (phase + 1 != phases_.rend() && phase->begin > at) ++phase;
  return *phase;
}

template <typename Matches>
void PhaseTable::begin_first(PhaseSpec::Kind kind, Timestamp at, const Matches& matches) {
  for (std::size_t i = next_; i < specs_.size(); ++i) {
    if (specs_[i].kind != kind || !matches(specs_[i])) continue;
    Phase phase;
    phase.spec = &specs_[i];
    phase.begin = std::max(at, phases_.back().begin);
    phases_.push_back(std::move(phase));
    next_ = i + 1;
    return;
  }
}

void PhaseTable::match_text(std::string_view text, Timestamp at, bool whole) {
  begin_first(PhaseSpec::Kind::kText, at,
              [&](const PhaseSpec& spec) { return matches_text(spec, text, whole); });
}

void PhaseTable::match_function(std::string_view function, Timestamp at) {
  begin_first(PhaseSpec::Kind::kFunction, at,
              [&](const PhaseSpec& spec) { return matches_name(spec, function); });
}

void PhaseTable::event(const Event& event, const Pipeline& pipeline) {
  if (phases_.empty()) phases_.emplace_back().begin = pipeline.begin().value_or(event.at);
  if (const GuestRun* run = pipeline.exits().guest_run(); run && pipeline.counts(run->thread))
    phase_at(run->begin).totals.guest_ns += elapsed(run->begin, run->end);
  if (next_ >= specs_.size()) return;
  if (const auto* detail = std::get_if<KvmDetail>(&event.payload);
      detail && !is_guest(event.machine)) {
    bool ended = false;
    const std::string_view line = console_.add(*detail, ended);
    if (!line.empty()) match_text(line, event.at, ended);
  } else if (const auto* marker = std::get_if<Marker>(&event.payload)) {
    match_text(marker->text, event.at, true);
  } else if (const auto* call = std::get_if<GuestCall>(&event.payload)) {
    if (call->entry && !call->off_cpu) match_function(call->name, event.at);
  }
}

void PhaseTable::add(Sums& sums, NameId name, std::uint64_t ns) {
  PhaseShare& sum = bounded(sums, name, kMostKeys, Names::kOther);
  ++sum.exits;
  sum.ns += ns;
}

void PhaseTable::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  if (phases_.empty()) phases_.emplace_back().begin = exit.start;
  const NameId function = pipeline.stacks().innermost(pipeline.stack_of(exit));
  if (next_ < specs_.size()) {
    if (function != kNoName) match_function(pipeline.names()[function], exit.start);
    begin_first(PhaseSpec::Kind::kAddresses, exit.start, [&exit](const PhaseSpec& spec) {
      return exit.rip >= spec.first && exit.rip <= spec.last;
    });
  }
  Phase& phase = phase_at(exit.start);
  ++phase.totals.exits;
  for (std::size_t i = 0; i < kParts; ++i) phase.totals.parts[i] += exit.parts[i];
  if (exit.halt) return;
  if (exit.device != kNoName) add(phase.devices, exit.device, exit.total());
  add(phase.functions, function, exit.total());
}

void PhaseTable::states(std::span<const StateRun> runs, const Pipeline& pipeline) {
  for (const StateRun& run : runs) {
    const bool is_away =
        run.state == State::kPaused || run.state == State::kOffline || run.state == State::kNotSeen;
    if (!is_away || !pipeline.counts(run.thread)) continue;
    if (phases_.empty()) phases_.emplace_back().begin = pipeline.begin().value_or(run.begin);
    Timestamp until = run.end;
    for (auto phase = phases_.rbegin(); phase != phases_.rend() && run.begin < until; ++phase) {
      const bool is_first = phase + 1 == phases_.rend();
      const Timestamp from = is_first ? run.begin : std::max(run.begin, phase->begin);
      if (from >= until) continue;
      phase->away[run.thread].of(run.state) += elapsed(from, until);
      until = from;
    }
  }
}

std::vector<PhaseRow> PhaseTable::rows(const Pipeline& pipeline, std::uint64_t end_ns) const {
  std::vector<PhaseRow> rows;
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    const Phase& phase = phases_[i];
    const std::uint64_t until =
        i + 1 < phases_.size() ? phases_[i + 1].begin.ns() : std::max(end_ns, phase.begin.ns());
    PhaseRow& row = rows.emplace_back();
    row.totals = phase.totals;
    row.name = phase.spec != nullptr ? phase.spec->name
               : phases_.size() == 1 ? "all"
                                     : "before " + phases_[1].spec->name;
    if (phase.spec != nullptr) row.pattern = phase.spec->pattern;
    row.start_ns = phase.begin.ns();
    row.ns = until - row.start_ns;
    for (const auto& [thread, away] : phase.away) {
      if (!pipeline.exits().state(thread)) continue;  // the thread runs no vCPU
      row.totals.add(away);
    }
    std::uint64_t whole = 0;
    for (const auto& [name, sum] : phase.functions) whole += sum.ns;
    const auto add = [&](std::vector<PhaseShare>& shares, const Sums& sums, const char* what) {
      for (const auto& [id, sum] : sums) {
        const std::string name = name_or_dash(pipeline.names(), id);
        shares.push_back(
            {name, fmt::format("{}: {} {}", row.name, what, name), sum.exits, sum.ns, whole});
      }
      std::ranges::stable_sort(shares, std::greater(), &PhaseShare::ns);
    };
    add(row.devices, phase.devices, "device");
    add(row.functions, phase.functions, "function");
  }
  return rows;
}

std::vector<std::string> PhaseTable::never() const {
  std::vector<std::string> never;
  for (const PhaseSpec& spec : specs_) {
    const bool began = std::any_of(phases_.begin(), phases_.end(),
                                   [&](const Phase& phase) { return phase.spec == &spec; });
    if (!began) never.push_back(spec.name + ": " + spec.pattern);
  }
  return never;
}

TableOf<PhaseRow> phase_table(std::vector<PhaseRow> phases, const ReportData& report) {
  using Row = PhaseRow;
  const std::uint64_t begin = phases.empty() ? 0 : phases.front().start_ns;
  const std::string of(report.vcpus_time());
  // Returns what a phase's shares are of: its time, once for each vCPU.
  const auto whole = [vcpus = std::max<std::size_t>(report.vcpus.size(), 1)](const Row& row) {
    return row.ns * vcpus;
  };
  TableOf<Row> table({}, std::move(phases), &Row::name);
  table.add({"name"}, &Row::name);
  table.add({"pattern"}, [](const Row& row) { return text_or_null(row.pattern); });
  table.add({"start_ns"}, &Row::start_ns);
  table.add({"", "from", Unit::kDuration},
            [begin](const Row& row) { return row.start_ns - begin; });
  table.add({"ns", "time", Unit::kDuration}, &Row::ns);
  table.add({"exits", "exits"}, [](const Row& row) { return row.totals.exits; });
  add_states(table, report.known_states(), state_titles(report.known_states()), of, 0, &Row::totals,
             whole);
  return table;
}

namespace {

Table phase_share_table(const char* key, std::vector<PhaseShare> rows, bool durations) {
  using Row = PhaseShare;
  const auto ns = [durations](const Row& row) {
    return durations ? std::optional(row.ns) : std::nullopt;
  };
  TableOf<Row> table({.key = key}, std::move(rows), &Row::title);
  table.add({"name"}, [](const Row& row) { return name_or_null(row.name); });
  table.add({"exits", "exits"}, &Row::exits);
  table.add({"total_ns", "time", Unit::kDuration}, ns);
  table.add({.title = "share", .unit = Unit::kShare, .whole = "the phase's exits"},
            [ns](const Row& row) {
              return Share{ns(row), row.whole};
            });
  return table;
}

constexpr std::size_t kShown = 3;  // number of devices, and of functions, per phase

// Returns text's table: the first devices and functions of all phases.
Table first_shares(std::span<const PhaseRow> phases, bool durations) {
  std::vector<PhaseShare> rows;
  const auto add = [&rows](const std::vector<PhaseShare>& shares) {
    rows.insert(rows.end(), shares.begin(),
                shares.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, shares.size())));
  };
  for (const PhaseRow& row : phases) {
    add(row.devices);
    if (std::ranges::any_of(row.functions, [](const auto& share) { return share.name != "-"; }))
      add(row.functions);
  }
  Table table = phase_share_table("", std::move(rows), durations);
  table.json = false;
  table.titles = {"Their exits without halts"};
  return table;
}

// Says that a phase did not begin. `phase` is a text such as "init: Run /init".
std::string phase_text(std::string_view phase) {
  const std::size_t colon = phase.find(": ");
  if (colon == phase.npos) return fmt::format("Phase {} did not begin.", phase);
  return fmt::format("Phase {} did not begin: nothing matched '{}'.", phase.substr(0, colon),
                     phase.substr(colon + 2));
}

}  // namespace

std::vector<Table> PhaseTable::tables(const ReportData& report, const Naming& names) const {
  const bool durations = report.durations();
  TableOf<PhaseRow> table = phase_table(rows(names.pipeline, names.pipeline.end().ns()), report);
  const std::vector<std::string> not_begun = never();
  table.key = "phases";
  table.csv = true;
  table.csv_children = true;
  table.facts = {{"never", not_begun}};
  table.children = [all = table.all(), durations](std::size_t row) {
    return std::vector<Table>{phase_share_table("devices", all[row].devices, durations),
                              phase_share_table("functions", all[row].functions, durations)};
  };
  Table shares = first_shares(table.all(), durations);
  if (table.rows != 0) {
    table.titles = {"Phases"};
    for (const std::string& phase : not_begun) table.after.push_back({.text = phase_text(phase)});
  }
  return {std::move(table), std::move(shares)};
}

namespace {

Result<std::unique_ptr<TableSink>> make_phases(const ReportOptions& options, const std::string&) {
  std::vector<PhaseSpec> specs;
  for (const std::string& text : options.phases) {
    auto spec = parse_phase_spec(text);
    if (!spec) return tl::unexpected(std::move(spec).error());
    specs.push_back(std::move(*spec));
  }
  if (specs.empty()) specs = default_phases();
  return std::make_unique<PhaseTable>(std::move(specs));
}

}  // namespace

const TableKind kPhaseTable = {
    .option = "--phases", .help = "Phases of the boot: time, exits, devices", .make = make_phases};

}  // namespace trapline
