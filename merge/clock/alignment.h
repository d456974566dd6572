// Relates the clocks of several sources: which clock the timeline has, and how each source's times
// become times of it. Pure: session/ reads what this needs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/clock/clock_map.h"
#include "merge/clock/relation.h"
#include "merge/clock/sync_points.h"
#include "merge/model/source_alignment.h"

namespace trapline::clocks {

// Which boot of a machine a recording was made in, as far as that is known. Clocks begin anew with
// each boot.
struct Boot {
  std::string id;       // the kernel's boot_id
  std::string session;  // the session folder: its parts are of one boot
  friend bool operator==(const Boot&, const Boot&) = default;
};

// What a source tells of its clock.
struct SourceClock {
  std::string path;
  std::string clock;                // "mono", "local", "x86-tsc"
  bool cycles = false;              // its times are cycles
  bool nanoseconds_of_tsc = false;  // converted by TSC2NSEC or --tsc-khz: on no other file's clock
  // Sources of one machine share its clocks; empty counts as the same as any.
  std::string machine;
  Boot boot;
  // Of a kernel's recording: uname, and how many CPUs; empty and 0 where it does not say.
  std::string system;
  std::uint32_t cpus = 0;
  // What was applied while reading, for the report: "TSC2NSEC", "time shift".
  std::string applied;
  // trace-cmd's TIME_SHIFT: its times are on the clock of its host's recording, which has this
  // trace id, or names this one's among its guests'.
  bool shifted = false;
  std::uint64_t trace_id = 0, peer_id = 0;
  std::vector<std::uint64_t> guest_trace_ids;
  std::string owner;                   // of a shifted one: the host whose clock no other file has
  std::optional<Interval> interval;    // its times, where known
  std::vector<SyncEntry> syncs;        // stamps are on this source's clock
  std::optional<std::int64_t> offset;  // --offset: added to its times, ns
};

struct AlignedSource : SourceAlignment {
  ClockMap map;
  double drift_ppm = 0;
  // Sentences for the report.
  std::vector<std::string> notes;
};

struct Alignment {
  std::string clock;                   // the timeline's
  std::vector<AlignedSource> sources;  // as they were given
};

struct AlignOptions {
  std::optional<double> rate_change_ppm = std::nullopt;  // in place of what is assumed without it
};

// The timeline's clock is the first source's where every other one can be related to it; else mono,
// else any other source's. An Error names both clocks, both files and --offset.
// So it does where two sources are on a clock of one name, and their machines or their intervals
// say that it is not one clock, where two are known to be of different boots, and where a clock was
// set, slewed or suspended further than is assumed.
[[nodiscard]] Result<Alignment> align(std::span<const SourceClock> sources,
                                      const AlignOptions& options = {});

// Whether align() needs no sync records: every clock is the same or has its offset.
[[nodiscard]] bool same_clocks(std::span<const SourceClock> sources);

// Gives sources with a time shift the clock of their host's recording; one whose host is not among
// them is on a clock of its own.
void take_peers_clocks(std::span<SourceClock> sources);

// --offset SOURCE=NS: the source is the path as given, its end after a '/', or its number from 1.
struct OffsetOption {
  std::string source;
  std::int64_t ns = 0;
};
[[nodiscard]] Result<OffsetOption> parse_offset(std::string_view text);
[[nodiscard]] Result<void> apply_offsets(std::span<const OffsetOption> options,
                                         std::span<SourceClock> sources);

}  // namespace trapline::clocks
