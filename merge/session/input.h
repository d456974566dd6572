// Opens what the user named: recordings, guest directories, logs, or session folders
// (docs/recording.md), on one timeline, with the facts about them.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/tracetool/declarations.h"
#include "merge/model/capabilities.h"
#include "merge/model/processes.h"
#include "merge/source/source.h"
#include "plugin/format/symbol_table.h"

namespace trapline {

// Sees the host's recording before it is read for the result: in the pass that gathers evidence of
// clocks if there is one, else in a separate pass. Times are the recording's own.
class EvidenceObserver {
 public:
  virtual ~EvidenceObserver() = default;
  // `known`: what is known of the host's threads beside the events.
  virtual void begin(const Source& host, const Capabilities& has, Processes known) = 0;
  virtual void on(const Event& event) = 0;
  // Called after the last event, while the source that begin() got still exists; `status` is an
  // Error if the source ended early.
  virtual void end(const Result<void>& status) = 0;
};

struct InputOptions {
  std::vector<std::string> paths;
  std::vector<std::string> symbols;      // FILE[@OFFSET]
  std::string trace_events;              // empty: the session's, else the installed one
  std::optional<std::uint64_t> tsc_khz;  // for trace.dat files
  std::string unit;                      // "ns", "cycles": for a text whose times are whole numbers
  std::vector<std::string> offsets;      // SOURCE=NS, see clock/alignment.h
  std::vector<std::string> without;      // parts of a session to leave out, by name
  // How much the rates of clocks are assumed to change, in ppm; replaces the figures of
  // assumption.h.
  std::optional<double> rate_change_ppm = std::nullopt;
  EvidenceObserver* observer = nullptr;
  // Says on stderr which reader reads each recording, which evidence placed it on the timeline's
  // clock, what is known about it, and what was left out.
  bool verbose = false;
};

struct Input {
  std::vector<std::unique_ptr<Source>> sources;
  Capabilities capabilities;
  // Threads and names of virtual machines, from session.json.
  Processes processes;
  bool records_file_pages = false;  // session.json says that the recording has them
  std::set<std::uint32_t> swaps;    // the kernel's numbers of swap devices
  SymbolTable symbols;
  // How the recording was made, from session.json: {"Host", "x86_64 6.1.0, 2 CPUs"}, {"Command",
  // "…"}.
  std::vector<std::pair<std::string, std::string>> recorded;
  std::vector<std::string> notes;    // notes about the sources that a reader of the report needs
  std::vector<std::string> missing;  // SessionJson::missing() of the sessions
  tracetool::Declarations declared;  // from trace-events-all; none without such a file
  std::string trace_events;          // the trace-events-all that the user named; else empty
  // True if the observer saw everything that sources[0] will return, on the timeline's clock, and
  // no other source returns events of the host's kernel. What it found then holds for the timeline.
  bool observed = false;
};

[[nodiscard]] Result<Input> open_input(const InputOptions& options);
// Adds what is known beside the recordings: the guest's symbols, and the declarations of its VMM's
// events.
[[nodiscard]] Result<void> add_companions(const InputOptions& options, Input& input);

// Returns the Error for two recordings of the same run, which would count twice.
[[nodiscard]] tl::unexpected<Error> given_twice(const std::string& first,
                                                const std::string& second);

}  // namespace trapline
