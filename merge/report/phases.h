// --phases: divides a boot into phases and shows where each phase's time went.
//
//   first event        pattern of phase 1       pattern of phase 3          end
//   ─────┼─ firmware and loader ─┼─ phase 1 ──────────┼─ phase 3 ─────────────┼──
//
// A phase begins at the first match of its pattern while an earlier phase of the list lasts; phases
// that were skipped do not begin later. An exit or a run of the guest belongs to the phase in which
// it began, so the phases contain all exits of the report. A time in which a vCPU was paused,
// offline or not seen is divided among the phases that it overlaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/analyze/pipeline.h"
#include "merge/report/report_data.h"
#include "merge/report/table_kinds.h"

namespace trapline {

// The pattern at which a phase begins.
struct PhaseSpec {
  enum class Kind : std::uint8_t {
    kText,       // a line that the guest wrote to its console, or a line of trace_marker
    kFunction,   // an exit in that guest function, or a recorded call of it
    kAddresses,  // an exit whose rip is from `first` to `last`
  };
  std::string name, pattern;
  Kind kind = Kind::kText;
  std::string text;                   // for kText and kFunction; * and ? stand for any characters
  std::uint64_t first = 0, last = 0;  // for kAddresses
};

// Parses NAME=PATTERN. PATTERN is a text of the console, function:NAME, or 0xFIRST..0xLAST.
[[nodiscard]] Result<PhaseSpec> parse_phase_spec(std::string_view text);

// Returns the phases of a Linux kernel, recognised by its addresses, and of its init, recognised by
// what it prints.
[[nodiscard]] std::vector<PhaseSpec> default_phases();

// A device or a guest function in a phase.
struct PhaseShare {
  std::string name, title;  // "rtc"; "init: device rtc"
  std::uint64_t exits = 0, ns = 0;
  std::uint64_t whole = 0;  // time of all functions in the phase
};

struct PhaseRow {
  std::string name;
  std::string pattern;  // empty: begins with the recording
  std::uint64_t start_ns = 0, ns = 0;
  VcpuTotals totals;  // of all vCPUs, without their beginnings and ends
  // The time of exits by device and by guest function, the largest first, without halts.
  std::vector<PhaseShare> devices, functions;
};

[[nodiscard]] TableOf<PhaseRow> phase_table(std::vector<PhaseRow> rows, const ReportData& report);

// Collects what the guest writes byte by byte to one port or address into lines.
class ConsoleLines {
 public:
  // Limits of the addresses that are tracked, most of which are registers, and of a line's length.
  static constexpr std::size_t kMostConsoles = 4096, kMostLength = 512;
  // Returns the line that the write continues, without its end; empty for other accesses. `ended`:
  // the write ended the line, so the next one begins another.
  [[nodiscard]] std::string_view add(const KvmDetail& detail, bool& ended);

 private:
  struct Line {
    std::string text;
    bool ended = false;
  };
  std::map<std::pair<DetailKind, std::uint64_t>, Line> lines_;
};

class PhaseTable : public TableSink {
 public:
  static constexpr std::size_t kMostKeys = 4096;  // number of devices, and of functions, per phase

  explicit PhaseTable(std::vector<PhaseSpec> specs) : specs_(std::move(specs)) {}

  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kExits | SpanClass::kEvents | SpanClass::kAllEvents | SpanClass::kStateRuns;
  }
  // Called for each event, after the pipeline has taken it. exit() comes after the exit's events.
  void event(const Event& event, const Pipeline& pipeline) override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  // Called before event() gets the event that completed these times.
  void states(std::span<const StateRun> runs, const Pipeline& pipeline) override;

  // Returns the phases in order of time; the last one lasts until `end_ns`.
  [[nodiscard]] std::vector<PhaseRow> rows(const Pipeline& pipeline, std::uint64_t end_ns) const;
  // Returns the phases that did not begin, such as "init: Run /init".
  [[nodiscard]] std::vector<std::string> never() const;
  [[nodiscard]] std::vector<Table> tables(const ReportData& data,
                                          const Naming& names) const override;

 private:
  using Sums = std::map<NameId, PhaseShare>;  // without names
  struct Phase {
    VcpuTotals totals;                // the guest's runs, and the exits, that began in the phase
    const PhaseSpec* spec = nullptr;  // nullptr: the time before the first phase
    Timestamp begin;
    Sums devices, functions;
    // Times paused, offline or not seen, by thread; some may turn out to run no vCPU.
    std::map<ThreadId, VcpuTotals> away;
  };
  [[nodiscard]] Phase& phase_at(Timestamp at);
  // Begins the first possible phase whose pattern `matches`, if there is one.
  template <typename Matches>
  void begin_first(PhaseSpec::Kind kind, Timestamp at, const Matches& matches);
  void match_text(std::string_view text, Timestamp at, bool whole);
  void match_function(std::string_view function, Timestamp at);
  static void add(Sums& sums, NameId name, std::uint64_t ns);

  std::vector<PhaseSpec> specs_;
  std::size_t next_ = 0;  // the first phase that may still begin
  std::vector<Phase> phases_;
  ConsoleLines console_;
};

}  // namespace trapline
