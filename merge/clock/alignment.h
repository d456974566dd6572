// Relates the clocks of several sources: chooses the timeline's clock and finds how each source's
// times become times of that clock. Pure: session/ reads the data.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/clock/relation.h"
#include "merge/clock/sync_points.h"
#include "merge/model/source_alignment.h"

namespace trapline::clocks {

// The boot of a machine that a recording was made in, as far as it is known. Clocks start anew with
// each boot.
struct Boot {
  std::string id;       // the kernel's boot_id
  std::string session;  // the session folder, whose parts are of one boot
  friend bool operator==(const Boot&, const Boot&) = default;
};

// The clock's name for a guest's recording whose times trace-cmd moved to its host's clock, if the
// host's recording is not given.
inline constexpr const char* kHostsClock = "its host's";

// The facts about a source that align() uses.
struct SourceClock : ClockFacts {
  // Sources of one machine share its clocks; an empty name matches any machine.
  std::string machine;
  Boot boot;
  // For a kernel's recording: uname and the number of CPUs; empty and 0 if the recording does not
  // have them.
  std::string system;
  std::uint32_t cpus = 0;
  // The conversion applied while reading, for the report: "TSC2NSEC", "time shift".
  std::string applied;
  // For a shifted source, the facts above are those of the host's recording, and `owner` is the
  // host's path if no other file has its clock. Without that recording, `clock` is kHostsClock.
  std::string owner;
  std::optional<Interval> interval;    // the source's first and last time, if known
  std::vector<SyncEntry> syncs;        // stamps are on this source's clock
  std::optional<std::int64_t> offset;  // --offset: added to the source's times, ns
};

struct AlignedSource : SourceAlignment {
  // Sentences for the report about this alignment.
  std::vector<std::string> notes;
};

struct Alignment {
  std::string clock;                   // the timeline's clock
  std::vector<AlignedSource> sources;  // in the order given
};

// Aligns all sources. The timeline's clock is the first source's if every other one can be related
// to it; else mono, else any other source's. Errors name both clocks, both files and --offset: two
// clocks cannot be related; two sources have a clock of one name, but their machines or intervals
// show that it is not the same clock; two sources are known to be of different boots; or a clock
// was set, slewed or suspended further than assumed. `rate_change_ppm`: the change of rates to
// assume, instead of what assumed_change() finds.
[[nodiscard]] Result<Alignment> align(std::span<const SourceClock> sources,
                                      std::optional<double> rate_change_ppm = std::nullopt);

// Returns whether align() needs no sync records, because every source has the same clock or an
// offset.
[[nodiscard]] bool same_clocks(std::span<const SourceClock> sources);

// The value of --offset SOURCE=NS. SOURCE is the path as given, the path's end after a '/', or the
// source's number from 1.
struct OffsetOption {
  std::string source;
  std::int64_t ns = 0;
};
[[nodiscard]] Result<OffsetOption> parse_offset(std::string_view text);
[[nodiscard]] Result<void> apply_offsets(std::span<const OffsetOption> options,
                                         std::span<SourceClock> sources);

}  // namespace trapline::clocks
