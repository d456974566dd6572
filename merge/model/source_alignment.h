// The facts about a source's clock, and its conversion to the timeline's clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "merge/model/clock_map.h"

namespace trapline {

// The facts about a source's clock.
struct ClockFacts {
  std::string path;
  std::string clock;    // "mono", "local", "x86-tsc"
  bool cycles = false;  // the source's times are in cycles
  // True if TSC2NSEC or --tsc-khz converted the times, so that no other file has this clock.
  bool nanoseconds_of_tsc = false;
  // True if trace-cmd's TIME_SHIFT was applied: the times are on the clock of the host's recording,
  // whose trace_id is `peer_id`. `trace_id` is this recording's.
  bool shifted = false;
  std::uint64_t trace_id = 0, peer_id = 0;
};

struct SourceAlignment {
  std::string method;          // empty: source and timeline have the same clock
  ClockMap map;                // from the source's times to the timeline's
  std::int64_t offset_ns = 0;  // timeline minus source, at the source's first time
  // Guaranteed bound of the error of offset_ns. Nullopt if a user or trace-cmd stated the offset,
  // or if only an assumption says that the evidence is of this source's boot.
  std::optional<std::uint64_t> error_ns = 0;
  // Set if nothing shows that source and timeline are of one boot: the error bound if they are.
  std::optional<std::uint64_t> one_boot_error_ns;
  // The error bound assumes that the clocks' rates change by at most this much; nullopt: no
  // assumption.
  std::optional<double> rate_change_ppm;

  [[nodiscard]] bool is_same_clock() const { return method.empty(); }
  [[nodiscard]] std::string method_text() const { return is_same_clock() ? "same clock" : method; }
  // Formats the alignment with the assumption that it is based on.
  [[nodiscard]] std::string text() const {
    return method_text() + (one_boot_error_ns ? ", one boot assumed" : "");
  }
};

}  // namespace trapline
