// --phases: a boot cut into phases, and what each one's time went to.
//
//   first event        pattern of phase 1       pattern of phase 3          end
//   ─────┼─ firmware and loader ─┼─ phase 1 ──────────┼─ phase 3 ─────────────┼──
//
// A phase begins where its pattern comes first while an earlier phase of the list lasts; one that
// was passed over begins no more. An exit, and a run of the guest, belongs to the phase in which it
// began: the phases' exits are all exits of the report. A time in which a vCPU was paused, offline
// or not seen is divided among the phases that it lies in.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/report/phase_report.h"

namespace trapline {

// What the guest writes byte by byte to one port or address: the line so far.
class ConsoleLines {
 public:
  // Addresses that are written to, most of them registers of devices.
  static constexpr std::size_t kMostConsoles = 4096, kMostLength = 512;
  // The line that the write continues, without its end; empty for other accesses. `ended`: the
  // write ended it, and the next one begins another.
  [[nodiscard]] std::string_view add(const KvmDetail& detail, bool& ended);

 private:
  struct Line {
    std::string text;
    bool ended = false;
  };
  std::map<std::pair<DetailKind, std::uint64_t>, Line> lines_;
};

class PhaseTable {
 public:
  static constexpr std::size_t kMostKeys = 4096;  // devices, and functions, of a phase

  explicit PhaseTable(std::vector<PhaseSpec> specs) : specs_(std::move(specs)) {}

  // Every event, after the pipeline took it; an exit after the events that it holds.
  void event(const Event& event, const Pipeline& pipeline);
  void exit(const ExitSpan& exit, const Pipeline& pipeline);
  // Before the event that settled them.
  void states(std::span<const StateRun> runs, const Pipeline& pipeline);

  // The names of devices and functions are `names`'.
  [[nodiscard]] PhaseReport report(const Pipeline& pipeline, std::uint64_t end_ns) const;

 private:
  struct Sum {
    std::uint64_t exits = 0, ns = 0;
  };
  using Sums = std::map<NameId, Sum>;
  using Away = std::array<std::uint64_t, kStates>;  // ns: paused, offline, not seen
  struct Phase {
    const PhaseSpec* spec = nullptr;  // nullptr: the one before any began
    Timestamp begin;
    std::uint64_t exits = 0, guest_ns = 0;
    Parts parts{};
    Sums devices, functions;
    std::map<ThreadId, Away> away;  // of threads that may yet turn out to run a vCPU
  };
  [[nodiscard]] Phase& phase_at(Timestamp at);
  // The next phase whose pattern `matches`, where one does.
  template <typename Matches>
  void begin_first(PhaseSpec::Kind kind, Timestamp at, const Matches& matches);
  void match_text(std::string_view text, Timestamp at, bool whole);
  void match_function(std::string_view function, Timestamp at);
  static void add(Sums& sums, NameId name, std::uint64_t ns);
  [[nodiscard]] static std::vector<PhaseShare> shares(const Sums& sums, const Names& names);

  std::vector<PhaseSpec> specs_;
  std::size_t next_ = 0;  // the first spec that may still begin
  std::vector<Phase> phases_;
  ConsoleLines console_;
};

}  // namespace trapline
