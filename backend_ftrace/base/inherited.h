// The descriptors and signals that a program inherits when it is executed.
#pragma once

namespace trapline {

// Opens /dev/null, in the opposite direction, for each of the descriptors 0, 1 and 2 that is
// closed. Otherwise the next file that the program opens would get that number and messages would
// be written into the file. Reading and writing these descriptors fails as before.
void fill_standard_descriptors();

// Remembers which signals the caller ignores and sets three. SIGPIPE ends this process, so that a
// command whose reader has gone ends silently. SIGCHLD keeps a child's exit status, which the
// kernel drops when the signal is ignored. A write beyond the limit of file sizes is an error
// instead of SIGXFSZ. Call this first, while the process has one thread.
void take_over_signals();
// Returns whether the caller ignores the signal, as nohup does with SIGHUP; false before
// take_over_signals().
[[nodiscard]] bool is_ignored_by_caller(int signal);
// Restores the caller's signals in a child before it executes a program, with none blocked. SIGINT,
// SIGQUIT and SIGTERM get their default action: the recorder passes them on to end the child, and a
// shell's background job ignores the first two.
void restore_signals();

}  // namespace trapline
