// Finds the exits or stalls that a trigger waits for, from the events of a recording in progress.
// Uses the report's own pairing (Pipeline), so that a hit here is also in the report.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/analyze/pipeline.h"
#include "merge/record/trigger.h"
#include "merge/session/session_json.h"
#include "merge/source/kernel_events/formats.h"

namespace trapline::record {

// When each thread's open exit began, in ns of the recording's clock.
using OpenExits = std::map<ThreadId, std::uint64_t>;

// Returns whether a thread is alive; nullopt if that cannot be known.
using Alive = std::function<std::optional<bool>(ThreadId)>;

// Guarantees: the memory depends on the number of vCPU threads, not on the recording's length.
// Every exit of the report that is long enough is a hit or is inside one.
//
// A loss by the kernel is known only when the next page of its CPU comes, later than in the report.
// So an exit that was open at the loss, or that begins before the loss's end, counts until its
// thread's next kvm_entry, although it may contain the loss (near_loss).
//
// A stall becomes a hit when it ends; while it lasts it is in certain(). A stall that a loss ends
// is no hit, except for the exit that was open then.
//
// Until the first kvm_exit an exit is the time in user space, from kvm_userspace_exit on, as in the
// report of a recording that has no kvm_exit.
class TriggerMatcher {
 public:
  // Errors (kUsage): the formats have no event that shows an exit, or do not have the trigger's
  // reason.
  [[nodiscard]] static Result<TriggerMatcher> open(Trigger trigger, kernel_events::Formats formats);
  TriggerMatcher(TriggerMatcher&&) noexcept;
  TriggerMatcher& operator=(TriggerMatcher&&) = delete;
  ~TriggerMatcher();

  // Returns whether events of this type have any effect.
  [[nodiscard]] bool wants(std::uint16_t type) const {
    return type < wanted_.size() && wanted_[type] != 0;
  }
  // Takes an event; events come in order of time.
  void on(const kernel_events::RecordedEvent& recorded, std::uint32_t cpu);
  void on_lost(std::uint32_t cpu, std::uint64_t from, std::uint64_t to);
  // Call it from time to time; all events up to `now` must have been passed. Forgets the open exits
  // of dead threads, and stops waiting for the end of exits that are certain to be hits.
  void look_after_open(std::uint64_t now, const Alive& alive);
  // Call it after the last event, with its time: exits that are still open are hits too if their
  // thread is alive (a vCPU that was ended leaves its last exit open).
  void finish(std::uint64_t now, const Alive& alive);

  // Returns the beginning of the earliest exit that may still become a hit, except those in
  // certain().
  [[nodiscard]] std::optional<std::uint64_t> earliest_open() const;
  // Returns the beginnings of open exits that are hits whenever they end.
  [[nodiscard]] const OpenExits& certain() const { return certain_; }
  // Returns the hits since the last call. A hit is `open` if its exit had not ended when the
  // recording ended or its thread died; near_loss: the kernel lost events meanwhile, so that the
  // hit may be several exits.
  [[nodiscard]] std::vector<SessionHit> take_hits() { return std::exchange(hits_, {}); }

 private:
  struct Tracking;
  struct Doubtful {
    std::uint64_t start = 0;
    std::int32_t vcpu = kNoVcpu;
    ExitReason reason;
  };
  TriggerMatcher(Trigger trigger, kernel_events::Formats formats);
  void want(const KernelEvent& event, bool wanted);
  void start_tracking(bool kvm_exit);
  [[nodiscard]] bool may_hit(const ExitReason& reason) const;
  [[nodiscard]] static bool is_in(const OpenExits& exits, ThreadId thread, std::uint64_t start);
  void add_hit(std::uint64_t start, std::uint64_t end, ThreadId thread, std::int32_t vcpu,
               std::string reason, bool open = false, bool near_loss = false);
  void check_ended();
  void look_after_stalls(std::uint64_t now, const Alive& alive);
  void look_near_loss(const Event& event, const ExitSpan* span);
  void doubt(const VcpuState& exit);

  Trigger trigger_;
  kernel_events::Formats formats_;
  std::vector<std::uint8_t> wanted_ = std::vector<std::uint8_t>(1u << 16);  // by type
  std::unique_ptr<Tracking> tracking_;
  std::vector<SessionHit> hits_;
  OpenExits certain_, forgotten_;
  std::map<ThreadId, Doubtful> doubtful_;
  std::uint64_t now_ = 0;       // of the last look_after_open()
  std::uint64_t loss_end_ = 0;  // of the latest loss
};

}  // namespace trapline::record
