// The part of a recording that a command looks at: which vCPUs, which exits, which time. Every
// command has the same options for this (merge/cli/selection.h).
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

// The part of a recording that --from and --to select.

// An option and its time, for messages.
struct NamedTime {
  std::string_view option{};
  std::optional<TimeSpec> time{};
  std::string text{};  // as the user typed it
};
[[nodiscard]] Result<TimeSpec> parse_time_spec(std::string_view option, std::string_view text);

// Checks an interval; call it before the timeline is read. Errors (kUsage): `from` is after `to`;
// `from` is after the recording's end, or `to` before its beginning. The Errors print the
// recording's interval. If a source does not know its interval before it is read, only the order of
// the two times is checked, and only if both or neither are relative.
[[nodiscard]] Result<void> check_window(const Timeline& timeline, const NamedTime& from,
                                        const NamedTime& to);

// Returns the Error for a timeline that was read and has no event in the window.
[[nodiscard]] Error empty_window(const Timeline& timeline);
// Returns the sentence that `trapline timeline` prints if it shows no line: other options may have
// left out the window's events.
[[nodiscard]] std::string nothing_in_window(const Timeline& timeline);

// Selects vCPUs. The names of VMs and vCPUs are known for certain only after the recording was
// read.
struct VcpuFilter {
  std::optional<std::int32_t> vcpu;
  std::string vm;  // the VM's name, its process id, or both as reports print them
  [[nodiscard]] bool empty() const { return !vcpu && vm.empty(); }
  [[nodiscard]] bool holds(const Vm& of, std::int32_t number) const;
  [[nodiscard]] std::string text() const;  // "--vm web01 and --vcpu 1", printable
  // Returns an Error (kUsage) if the filter selects none of these vCPUs; the Error says which ones
  // exist, or `none`.
  [[nodiscard]] Result<void> check(const std::vector<VcpuThread>& threads,
                                   const std::vector<Vm>& vms,
                                   std::string_view none = "the recording has no vCPU") const;
};

// Selects the exits that have all of these names. A name is the key of a row of a report with --by,
// or a pattern for keys (with * and ?). An empty name selects all exits.
struct ExitFilter {
  std::string reason{}, detail{}, device{}, function{};
  [[nodiscard]] bool empty() const { return options().empty(); }
  // Returns the options that are set: {"--reason", "io"}.
  [[nodiscard]] std::vector<std::pair<std::string_view, std::string>> options() const;
  // Returns "--reason io and --device rtc", printable.
  [[nodiscard]] std::string text() const;
};

struct Selection {
  VcpuFilter vcpus;
  ExitFilter exits;
  NamedTime from, to;  // events before and after are ignored
  [[nodiscard]] bool empty() const { return words().empty(); }
  // Return the options as the user typed them: {"--vm", "web01"}; all of them, or a part.
  [[nodiscard]] std::vector<std::string> words() const;
  [[nodiscard]] std::vector<std::string> vcpu_and_exit_words() const;
  [[nodiscard]] std::vector<std::string> time_words() const;
};

// Returns "--device rtcc: no exit has this device; there are rtc, vga", with the names most like
// `wanted` first. `nothing` replaces the names if there are none.
[[nodiscard]] Error unknown_name(std::string_view option, std::string_view wanted,
                                 std::string_view fault, const std::set<std::string>& names,
                                 std::string_view nothing);

}  // namespace trapline
