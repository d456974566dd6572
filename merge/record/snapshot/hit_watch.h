// Finds the exits that a trigger waits for, from the events of a recording that is being made. The
// pairing is the report's own (ExitTracker), so that what hits here is what the report shows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/sync.h"
#include "merge/correlate/exit_tracker.h"
#include "merge/record/snapshot/trigger.h"
#include "merge/source/trace_dat/formats.h"

namespace trapline::record {

struct Hit {
  std::uint64_t start = 0, end = 0;  // on the recording's clock
  ThreadId thread{};
  std::int32_t vcpu = kNoVcpu;
  std::string reason;
  bool open = false;  // it had not ended when the recording did
};

// A sync record's marker, with the stamp that the kernel gave it.
struct SyncStamp {
  std::uint64_t series = 0;
  std::uint32_t index = 0;
  std::uint64_t stamp = 0;
};

// Guarantees: state for each vCPU thread, nothing that grows with the recording; no exit is paired
// across a hole that could hide one of its events.
//
// Until the first kvm_exit an exit is the time in user space, from kvm_userspace_exit on, as in the
// report of a recording that has no kvm_exit.
class HitWatch {
 public:
  // Errors (kUsage): the formats have no event that tells an exit, or not the trigger's reason.
  [[nodiscard]] static Result<HitWatch> open(Trigger trigger, trace_dat::Formats formats);
  HitWatch(HitWatch&&) noexcept;
  HitWatch& operator=(HitWatch&&) = delete;
  ~HitWatch();

  // Whether events of this type change anything.
  [[nodiscard]] bool wants(std::uint16_t type) const {
    return type < wanted_.size() && wanted_[type] != 0;
  }
  // In order of time.
  void on(const trace_dat::RecordedEvent& recorded, std::uint32_t cpu);
  void on_lost(std::uint32_t cpu, std::uint64_t from, std::uint64_t to);
  // After the last event, of the time `now`: what is still open is a hit too where its thread is
  // alive (a vCPU that was ended leaves its last exit open).
  void finish(std::uint64_t now, const std::function<bool(ThreadId)>& alive);

  // The start of the earliest exit that may yet be a hit.
  [[nodiscard]] std::optional<std::uint64_t> earliest_open() const;
  // What was found since the last call.
  [[nodiscard]] std::vector<Hit> take_hits() { return std::exchange(hits_, {}); }
  [[nodiscard]] std::vector<SyncStamp> take_stamps() { return std::exchange(stamps_, {}); }

 private:
  struct Tracking;
  HitWatch(Trigger trigger, trace_dat::Formats formats);
  void look_up_types();
  void start_tracking(bool kvm_exit);
  [[nodiscard]] std::string reason_of(const ExitReason& reason) const;
  [[nodiscard]] bool may_hit(const ExitReason& reason) const;
  void check(const ExitSpan* span);

  Trigger trigger_;
  trace_dat::Formats formats_;
  std::vector<std::uint8_t> wanted_;  // by type
  std::unique_ptr<Tracking> tracking_;
  std::vector<Hit> hits_;
  std::vector<SyncStamp> stamps_;
};

}  // namespace trapline::record
