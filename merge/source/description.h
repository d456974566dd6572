// What a source says of itself before it is read: enough to tell how it stands to other sources.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "merge/model/capabilities.h"

namespace trapline {

// Which machine a recording was made on, as far as it says; empty and 0: it does not.
struct Machine {
  std::string name;    // "host"; machines without one of their own ("localhost") have none
  std::string system;  // uname: "Linux host 6.1.0 #1 SMP … x86_64"
  std::uint32_t cpus = 0;
};

enum class Witness : std::uint8_t {
  kKernel,    // a kernel's events: of a host, or of a guest
  kFunctions  // functions of a program or a guest, or a program's own events
};

// A guest that was recorded together with its host: which thread of the host ran which of its CPUs.
struct RecordedGuest {
  std::uint64_t trace_id = 0;
  std::map<std::int32_t, std::int32_t> threads;  // by the guest's CPU
};

struct Description {
  std::string path;
  std::string clock;                // "mono", "local", "x86-tsc"
  bool cycles = false;              // its times are cycles
  bool nanoseconds_of_tsc = false;  // converted by TSC2NSEC or --tsc-khz
  Machine machine;
  Witness witness = Witness::kFunctions;
  Capabilities has;
  // The process that recorded it and left itself out, and the one whose threads' switches alone it
  // holds; 0: none.
  std::int32_t recorder = 0, selected = 0;
  // trace-cmd's TIME_SHIFT was applied: its times are on its host's clock. Ids of this recording,
  // of its host's and of its guests'.
  bool shifted = false;
  std::uint64_t trace_id = 0, peer_id = 0;
  std::vector<RecordedGuest> guests;
};

}  // namespace trapline
