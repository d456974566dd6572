// What a uftrace data directory tells of itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "merge/model/event.h"

namespace trapline {

// The value of --clock in a command line, empty without one.
[[nodiscard]] std::string clock_option(std::string_view cmdline);

// Data that uftrace replays and this does not.
[[nodiscard]] std::string left_out(const std::string& path, bool with_kernel);

// The time of a task's last record, where the last 16 bytes of its file are one.
[[nodiscard]] std::optional<std::uint64_t> last_record_time(const std::string& path);

// The vCPU of a task of the plugin's (contexts=vcpu or privilege), kNoVcpu for others.
[[nodiscard]] std::int32_t vcpu_of_task(std::uint32_t tid);

}  // namespace trapline
