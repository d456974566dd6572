// Functions that the event library's parts call in each other. They need no C++ library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trapline {

// Opens what a group's backends need, as the environment says; once per backend. `switched_on`: the
// environment switched an event of the group on, so the simple backend needs a file.
void prepare_outputs(std::uint32_t backends, bool switched_on);

// Reports on standard error the parts of TRAPLINE_EVENTS that cannot be applied, and lists the
// events for `help`. Called after each group that registers, without the catalogue's lock.
void check_environment_events();

// Opens the trace file that the environment or the monitor names, in the layout chosen last.
// nullptr for `path` means trace-PID. Returns 0, or -1 with the reason in `error`; then the present
// file stays open.
int open_trace_file(const char* path, char* error, std::size_t error_size);
// Sets "qemu" or "rfc" as the layout of files opened from now on; false for any other name.
bool set_trace_layout(const char* name);

// The trace file: if one is open, if events are now written to it, and if its layout is
// "rfc" (else "qemu").
struct TraceFileState {
  bool open;
  bool enabled;
  bool rfc;
};
TraceFileState trace_file_state(char* path, std::size_t path_size);

}  // namespace trapline
