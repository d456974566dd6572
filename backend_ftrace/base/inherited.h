// The descriptors and signals that a program finds when it is executed.
#pragma once

namespace trapline {

// Opens /dev/null, for the other direction, at each of the descriptors 0, 1 and 2 that is closed:
// the next file of ours would get its number, and messages would be written into it. Reading and
// writing them fail as before.
void fill_standard_descriptors();

// First of all, in a process of one thread: remembers which signals the caller ignores, then has
// SIGPIPE end this process (a reader that has gone ends a command without a word), SIGCHLD keep
// a child's exit status (an ignored one has the kernel drop it), and a write beyond the limit of
// file sizes be an error instead of SIGXFSZ.
void take_over_signals();
// Whether the caller ignores it, as nohup does with SIGHUP; false before take_over_signals().
[[nodiscard]] bool is_ignored_by_caller(int signal);
// In a child, before it executes a program: the caller's signals, none blocked, but SIGINT, SIGQUIT
// and SIGTERM by default, which the recorder passes on to end it: a shell's job in the background
// ignores the former two.
void restore_signals();

}  // namespace trapline
