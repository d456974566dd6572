// The part of a recording that --from and --to name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"
#include "merge/model/time_spec.h"
#include "merge/source/timeline.h"

namespace trapline {

// An option and its time, for messages.
struct NamedTime {
  std::string_view option;
  std::optional<TimeSpec> time;
};
[[nodiscard]] Result<TimeSpec> parse_time_spec(std::string_view option, std::string_view text);
// The same; without text there is no time.
[[nodiscard]] Result<NamedTime> parse_named_time(std::string_view option, std::string_view text);

// Call before the timeline is read. Errors (kUsage): `from` is after `to`; `from` is after the
// recording's end or `to` before its start: these print the recording's interval. Where a source
// does not know its interval beforehand, only the order of two times of one kind is looked at.
[[nodiscard]] Result<void> check_window(const Timeline& timeline, const NamedTime& from,
                                        const NamedTime& to);

// Where the timeline was read and no event lies in the window.
[[nodiscard]] Error empty_window(const Timeline& timeline);
// The same as a sentence, for `timeline`: its options may have left out what lies there.
[[nodiscard]] std::string nothing_in_window(const Timeline& timeline);

}  // namespace trapline
