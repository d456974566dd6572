// How the clock of a source was converted to the timeline's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "merge/model/clock_map.h"

namespace trapline {

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
