// Steps of a recording's start, each for one interface of the kernel.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/unique_fd.h"
#include "merge/record/command.h"
#include "merge/record/instance.h"
#include "merge/record/recorder.h"
#include "merge/record/session_writer.h"
#include "merge/record/trigger_matcher.h"
#include "merge/source/trace_dat/unfinished.h"

namespace trapline::record {

// An instance of our own that records after switch_on(): its clock, buffer size and events are set,
// and the recorder's own threads are left out.
struct ReadyInstance {
  Instance instance;
  std::vector<EventName> events;
  std::optional<TriggerMatcher> watch;  // from --snapshot-on
};
// Makes the instance. First removes what killed recorders left, and says so; also raises the limit
// on open files for all CPUs. Errors: those of Instance::create, choose_events and
// TriggerMatcher::open; a clock that this kernel lacks, or that does not count nanoseconds although
// --snapshot-on needs them.
[[nodiscard]] Result<ReadyInstance> make_instance(const RecordOptions& options);
// Returns the instance of --from-instance, which nobody may be recording with, and all events of
// this kernel: the pages may contain events that are disabled by now.
[[nodiscard]] Result<ReadyInstance> attach_instance(const RecordOptions& options);

// Returns the kernel's formats of these events and of markers.
[[nodiscard]] Result<kernel_events::FormatTexts> formats_of(const Instance& instance,
                                                            std::vector<EventName> events);

// Opens the instance's marker at a descriptor that the command can inherit, and lets the user's
// group open the file.
[[nodiscard]] Result<UniqueFd> open_marker(const Instance& instance,
                                           const std::optional<User>& user);

// Limits the events to a process's threads, their children, and kernel threads that work for it.
[[nodiscard]] Result<void> follow_process(const Instance& instance, pid_t pid);

// Returns a warning for each process, or for `pid` only, that writes into the top-level marker, if
// this kernel cannot copy that into an instance (options/copy_trace_marker, since Linux 6.16).
[[nodiscard]] std::vector<std::string> unseen_marker_writers(const Instance& instance,
                                                             pid_t pid = 0);

// Opens the session's files for the pages of these events, with the head of its trace.dat.
[[nodiscard]] Result<void> open_page_files(SessionWriter& session, const Instance& instance,
                                           const RecordOptions& options,
                                           const std::vector<EventName>& events);

// Reserves disk space, which closing the session frees and uses if the disk is full.
[[nodiscard]] Result<void> reserve(const Folder& session);

// Returns what trace.dat says about an instance's pages: their size, the CPUs, clock and kernel.
[[nodiscard]] Result<trace_dat::StartFacts> start_facts(const Instance& instance);

// Returns whether the trace clock's stamps are not nanoseconds.
[[nodiscard]] bool counts_cycles(std::string_view clock);

// Returns the page size of the instance's buffers, in bytes.
[[nodiscard]] std::size_t page_size_of(const Instance& instance);
[[nodiscard]] Result<unsigned> count_cpus(const Instance& instance);

// Blocks SIGINT, SIGTERM and SIGQUIT, SIGHUP unless the caller ignores it (nohup), and `more` if it
// is not 0. Returns a descriptor that reports them.
// SIGPIPE and SIGXFSZ (a file reaches its size limit) are ignored for good.
[[nodiscard]] Result<UniqueFd> open_signals(int more = 0);
// Returns poll()'s timeout in ms until the earliest of these times of CLOCK_MONOTONIC; -1 if all
// are 0, which means that nothing is due.
[[nodiscard]] int wait_ms(std::initializer_list<std::uint64_t> times);

}  // namespace trapline::record
