// What the user named, opened: recordings, guest directories, logs, or session folders
// (docs/recording.md), on one timeline, and what they tell of themselves.
#pragma once

#include <functional>
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

// Sees the host's recording before it is read for the result, in the pass that gathers evidence of
// clocks where one is needed, else in a pass for it alone. Times are the recording's own.
class EvidenceObserver {
 public:
  virtual ~EvidenceObserver() = default;
  virtual void begin(const Source& host, const Capabilities& has) = 0;
  virtual void on(const Event& event) = 0;
  // After the last event, while `host` is still there; an error where it ended early.
  virtual void end(const Result<void>& status) = 0;
};

struct InputOptions {
  std::vector<std::string> paths;
  std::vector<std::string> symbols;  // FILE[@OFFSET]
  std::string trace_events;          // empty: the session's, else the installed one
  std::optional<std::uint64_t> tsc_khz;
  std::string unit;                  // of a text's times, SourceOptions
  std::vector<std::string> offsets;  // SOURCE=NS, clock/alignment.h
  std::vector<std::string> without;  // parts of a session that are left out, by their names
  // By how many ppm the rates of clocks are assumed to change, in place of assumption.h's figures.
  std::optional<double> rate_change_ppm = std::nullopt;
  EvidenceObserver* observer = nullptr;
  // Takes what --verbose prints, line by line: which reader reads each recording, which evidence
  // put it on the timeline's clock, what is known of it and what was left out.
  std::function<void(const std::string&)> verbose;
};

struct Input {
  std::vector<std::unique_ptr<Source>> sources;
  Capabilities capabilities;
  // What session.json tells: threads, and the virtual machines' names.
  Processes processes;
  bool records_file_pages = false;  // and that it holds them
  std::set<std::uint32_t> swaps;    // the kernel's numbers of swap devices
  SymbolTable symbols;
  // And of how it was recorded: {"Host", "x86_64 6.1.0, 2 CPUs"}, {"Command", "…"}.
  std::vector<std::pair<std::string, std::string>> recorded;
  std::vector<std::string> notes;    // what a reader of the report has to know of the sources
  std::vector<std::string> missing;  // SessionJson::missing() of the sessions
  tracetool::Declarations declared;  // of trace-events-all; none when there is no such file
  std::string trace_events;          // that file, where the user named it
  // Whether the observer saw all that sources[0] will yield, in the timeline's time, and no other
  // source yields events of the host's kernel: what it found holds for the timeline.
  bool observed = false;
};

[[nodiscard]] Result<Input> open_input(const InputOptions& options);

// What is said of two recordings that hold the same run, which would count twice.
[[nodiscard]] tl::unexpected<Error> given_twice(const std::string& first,
                                                const std::string& second);

}  // namespace trapline
