// The part of a recording that a command looks at: which vCPUs, which exits, which time. Every
// command takes the same (merge/cli/selection.h has their options).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/model/processes.h"
#include "merge/model/wall_clock.h"
#include "merge/source/timeline.h"

namespace trapline {

// The part of a recording that --from and --to name.

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

// Which vCPUs count. Both are known for certain only when the recording was read.
struct VcpuFilter {
  std::optional<std::int32_t> vcpu;
  std::string vm;  // its name, its process id, or both as reports print them
  [[nodiscard]] bool empty() const { return !vcpu && vm.empty(); }
  [[nodiscard]] bool holds(const Vm& of, std::int32_t number) const;
  [[nodiscard]] std::string text() const;  // "--vm web01 and --vcpu 1", printable
  // An Error (kUsage) where none of these vCPUs is held: says which there are, or `none`.
  [[nodiscard]] Result<void> check(const std::vector<VcpuThread>& threads,
                                   const std::vector<Vm>& vms,
                                   std::string_view none = "the recording has no vCPU") const;
};

// Which exits count: those that have all of these names, which are the keys of the rows of --by, or
// patterns of them (* and ? match). An empty one is not asked for.
struct ExitFilter {
  std::string reason{}, detail{}, device{}, function{};
  [[nodiscard]] bool empty() const { return options().empty(); }
  // Those that are asked for: {"--reason", "io"}.
  [[nodiscard]] std::vector<std::pair<std::string_view, std::string>> options() const;
  // "--reason io and --device rtc", printable.
  [[nodiscard]] std::string text() const;
};

struct Selection {
  VcpuFilter vcpus;
  ExitFilter exits;
  NamedTime from, to;  // nothing before and after is looked at
};

// "--device rtcc: no exit has this device; there are rtc, vga": those that are near come first.
// `nothing` stands in the place of names where there are none.
[[nodiscard]] Error unknown_name(std::string_view option, std::string_view wanted,
                                 std::string_view fault, const std::set<std::string>& names,
                                 std::string_view nothing);

}  // namespace trapline
