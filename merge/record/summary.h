// The lines that the user reads when a recording begins and when it has ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "merge/record/ftrace_control.h"
#include "merge/record/recorder.h"
#include "merge/session/session_json.h"

namespace trapline::record {

struct Outcome {
  const Folder& folder;
  std::uint64_t written = 0;  // bytes of pages
  std::uint64_t went_by = 0;  // bytes of pages that were read
  bool whole = true;          // nothing cut the recording short
  std::uint64_t took_ns = 0;  // on a clock that nobody sets
  bool watched = true;        // no other process can have changed the instance unseen
};

// Returns what is recorded, where, and how to end it. `vms`: the number that run now; nullopt: not
// known.
[[nodiscard]] std::string beginning(const RecordOptions& options, std::optional<std::size_t> vms);
// Counts the VMs that run on this host. Nullopt if KVM's events of the whole host are not recorded,
// or if other users' processes cannot be read.
[[nodiscard]] std::optional<std::size_t> count_vms(const RecordOptions& options);

struct Ending {
  std::string next;     // the command that shows the session; empty if the session is empty
  std::string no_exit;  // a sentence if KVM's events were recorded and no kvm_exit came
};
[[nodiscard]] Ending ending_of(const SessionJson& session, const Outcome& outcome);

// Returns lines: how much was recorded, what was lost, what to type next.
[[nodiscard]] std::vector<std::string> summary(const SessionJson& session, const Outcome& outcome);
// Returns lines about the events that were taken out of somebody else's instance.
[[nodiscard]] std::vector<std::string> summary_of_held(const SessionJson& session,
                                                       const Outcome& outcome,
                                                       const FtraceControl& instance);

}  // namespace trapline::record
