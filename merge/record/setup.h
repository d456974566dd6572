// Small steps of a recording's start, each one thing of the kernel's.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/unique_fd.h"
#include "merge/record/command.h"
#include "merge/record/instance.h"
#include "merge/record/page_files.h"
#include "merge/record/recorder.h"
#include "merge/record/snapshot/trigger_matcher.h"
#include "merge/source/trace_dat/unfinished.h"

namespace trapline::record {

// Clock, buffer size, events, the recorder's own threads left out; files enough for all CPUs.
[[nodiscard]] Result<void> set_up(const Instance& instance, const RecordOptions& options,
                                  const std::vector<EventName>& events);

// What --snapshot-on needs to know of the events that are recorded. Errors: those of
// TriggerMatcher::open, a clock that does not count nanoseconds.
[[nodiscard]] Result<TriggerMatcher> open_watch(const Instance& instance,
                                                const RecordOptions& options,
                                                const std::vector<EventName>& events);

// The instance's marker, at a descriptor that the command can inherit; the user's group may open
// it.
[[nodiscard]] Result<UniqueFd> open_marker(const Instance& instance,
                                           const std::optional<User>& user);

// Only the events of this process, its threads and those that they will make.
[[nodiscard]] Result<void> follow_process(const Instance& instance, pid_t pid);

// A warning for each process, or for this one, that writes into the top-level marker, where this
// kernel cannot copy that into an instance (options/copy_trace_marker, since Linux 6.16).
[[nodiscard]] std::vector<std::string> unseen_marker_writers(const Instance& instance,
                                                             pid_t pid = 0);

// The files of a recording of these events, with the head of its trace.dat.
[[nodiscard]] Result<PageFiles> make_page_files(const Instance& instance, const Folder& session,
                                                const RecordOptions& options,
                                                const std::vector<EventName>& events);

// Room that is given back when the disk is full, so that the session can be closed.
[[nodiscard]] Result<void> reserve(const Folder& session);

// Of the instance's buffers.
[[nodiscard]] std::size_t page_size_of(const Instance& instance);
[[nodiscard]] Result<unsigned> count_cpus(const Instance& instance);

// Blocks SIGINT, SIGTERM, SIGHUP, SIGQUIT and those of `more`, and SIGPIPE for good; a descriptor
// that tells them.
[[nodiscard]] Result<UniqueFd> open_signals(std::initializer_list<int> more = {});
[[nodiscard]] UniqueFd open_ticks(std::uint64_t period_ns);  // readable once in it

}  // namespace trapline::record
