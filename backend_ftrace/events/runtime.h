// What the parts of the event library need of each other. Nothing here needs the C++ library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trapline {

// Opens what a group's backends need, from the environment; once per backend. `switched_on`: the
// environment switched an event of the group on, so that the simple backend needs a file.
void prepare_outputs(std::uint32_t backends, bool switched_on);

// Tells on standard error what in TRAPLINE_EVENTS cannot be followed, and lists the events for
// `help`; called after each group that registers, without the catalogue's lock.
void check_environment_events();

// The trace file that the environment or the monitor names, in the layout chosen last. `path` may
// be nullptr: trace-PID. A file that cannot be opened leaves the present one open.
int open_trace_file(const char* path, char* error, std::size_t error_size);
// "qemu" or "rfc", for the files opened from now on; false for any other name.
bool set_trace_layout(const char* name);

// What the writer has open.
struct TraceFileState {
  bool open;
  bool enabled;
  bool rfc;
};
TraceFileState trace_file_state(char* path, std::size_t path_size);

}  // namespace trapline
