// How the clock of a source became the timeline's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trapline {

struct SourceAlignment {
  std::string method;          // empty: the two are one clock
  std::int64_t offset_ns = 0;  // timeline less source, at the source's first time
  // Guaranteed; nothing where a user or trace-cmd said the offset, and where only an assumption
  // says that the evidence is of this source's boot.
  std::optional<std::uint64_t> error_ns = 0;
  // Nothing shows that it is of the timeline's boot: the error if it is.
  std::optional<std::uint64_t> one_boot_error_ns;
  // The error assumes that the clocks' rates change by at most this; nothing: it assumes nothing.
  std::optional<double> rate_change_ppm;

  [[nodiscard]] bool is_same_clock() const { return method.empty(); }
  [[nodiscard]] std::string method_text() const { return is_same_clock() ? "same clock" : method; }
  // With the assumption that it rests on.
  [[nodiscard]] std::string text() const {
    return method_text() + (one_boot_error_ns ? ", one boot assumed" : "");
  }
};

}  // namespace trapline
