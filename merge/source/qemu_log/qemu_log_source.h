// Reads a QEMU log with timestamps as a source: the lines that `-trace … -D FILE -msg timestamp=on`
// (or the log backend's `-d trace:…`) writes,
//
//   THREAD@SECONDS.MICROSECONDS:EVENT ARGUMENTS
//
// Each is a Marker "EVENT ARGUMENTS" of its thread, on CLOCK_REALTIME. Other lines (-d in_asm,
// guest errors) are skipped. Threads take the time before they write, so lines can be slightly out
// of order: the source sorts within a window and counts a line that comes even later as damaged.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"
#include "merge/source/file.h"
#include "merge/source/source.h"

namespace trapline {

struct QemuLogLine {
  std::uint64_t at = 0;  // ns
  std::int32_t thread = 0;
  std::string_view text;
};
[[nodiscard]] std::optional<QemuLogLine> parse_qemu_log_line(std::string_view line);

[[nodiscard]] Result<std::unique_ptr<Source>> open_qemu_log(File file);

}  // namespace trapline
