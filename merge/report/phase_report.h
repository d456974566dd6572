// What --phases reports: plain data. docs/formats/report.md, "Phases".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "merge/model/exit_span.h"

namespace trapline {

// How a phase's begin is found.
struct PhaseSpec {
  enum class Kind : std::uint8_t {
    kText,       // in a line that the guest wrote to its console, or in a line of trace_marker
    kFunction,   // an exit in, or a recorded call of, that guest function
    kAddresses,  // an exit from there
  };
  std::string name, pattern;
  Kind kind = Kind::kText;
  std::string text;                   // kText, kFunction; * and ? stand for any characters
  std::uint64_t first = 0, last = 0;  // kAddresses
};

struct PhaseShare {
  std::string name;
  std::uint64_t exits = 0, ns = 0;
};

struct PhaseRow {
  std::string name;
  std::string pattern;  // empty: from the recording's begin
  std::uint64_t start_ns = 0, ns = 0;
  std::uint64_t exits = 0, guest_ns = 0;
  Parts parts{};  // of the exits that began in the phase
  std::uint64_t paused_ns = 0, offline_ns = 0, not_seen_ns = 0;
  // Their times by device and by guest function, the largest first; without halts.
  std::vector<PhaseShare> devices, functions;
};

struct PhaseReport {
  std::vector<PhaseRow> rows;      // in order of time
  std::vector<std::string> never;  // phases that did not begin, "init: Run /init"
};

}  // namespace trapline
