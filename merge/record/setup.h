// Small steps of a recording's start, each one thing of the kernel's.
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

// An instance of our own that records from switch_on() on: with its clock, buffer size and events,
// the recorder's own threads left out.
struct ReadyInstance {
  Instance instance;
  std::vector<EventName> events;
  std::optional<TriggerMatcher> watch;  // of --snapshot-on
};
// Removes what killed recorders left, and says so; this process may open files enough for all CPUs
// then. Errors: those of Instance::create, choose_events and TriggerMatcher::open; a clock that
// this kernel lacks, or that does not count nanoseconds where --snapshot-on needs them.
[[nodiscard]] Result<ReadyInstance> make_instance(const RecordOptions& options);

// What this kernel says of these events and of markers.
[[nodiscard]] Result<kernel_events::FormatTexts> formats_of(const Instance& instance,
                                                            std::vector<EventName> events);

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

// Opens the session's files for the pages of these events, with the head of its trace.dat.
[[nodiscard]] Result<void> open_page_files(SessionWriter& session, const Instance& instance,
                                           const RecordOptions& options,
                                           const std::vector<EventName>& events);

// Room that is given back when the disk is full, so that the session can be closed.
[[nodiscard]] Result<void> reserve(const Folder& session);

// "Linux HOST 6.18.0 … x86_64" of this kernel, as trace.dat has it.
[[nodiscard]] std::string uname_text();

// True for a trace clock whose stamps are no nanoseconds.
[[nodiscard]] bool counts_cycles(std::string_view clock);

// Of the instance's buffers.
[[nodiscard]] std::size_t page_size_of(const Instance& instance);
[[nodiscard]] Result<unsigned> count_cpus(const Instance& instance);

// Blocks SIGINT, SIGTERM, SIGQUIT, SIGHUP where the caller does not ignore it (nohup), and `more`,
// where that is not 0; a descriptor that tells them.
// SIGPIPE and SIGXFSZ (a file as large as its limit) are ignored for good.
[[nodiscard]] Result<UniqueFd> open_signals(int more = 0);
[[nodiscard]] UniqueFd open_ticks(std::uint64_t period_ns);  // readable once in it
// For poll(): until the first of these times of CLOCK_MONOTONIC, of which 0 is none.
[[nodiscard]] int wait_ms(std::initializer_list<std::uint64_t> times);

}  // namespace trapline::record
