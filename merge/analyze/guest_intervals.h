// Finds intervals in a guest's recording, and what the host did during each of them.
//
//   guest     sched_waking pid 12 ─────────────────────────────> sched_switch next_pid 12
//   its vCPU  guest │ kernel │ preempted by qemu (tid 7) │ kernel │ guest
//
// The host's time is that of the vCPU on which the interval ended. The guest's alignment places the
// interval on the host's clock: its ends may be off by the error bound, but its parts always sum to
// its length. An interval is returned once its vCPU's time is known up to the interval's end.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/analyze/culprit.h"
#include "merge/analyze/exit_tracker.h"
#include "merge/model/event.h"

namespace trapline {

// A piece of a vCPU's time: the guest ran, or a part of an exit, with the culprit of a wait.
// VcpuHistory keeps the recent pieces of each thread, which follow one another.
//
//   ── guest ─┬─ kernel ─┬─ user ─┬─ preempted by A ─┬─ preempted by B ─┬─ kernel ─┬─ guest ──
//          kvm_exit                                                        kvm_entry
//
// Time without a piece is not known: losses, the time before the thread's first exit, and times
// before its latest VcpuHistory::kMost pieces.
struct VcpuPiece {
  std::optional<Part> part;  // nullopt: the guest ran
  Culprit culprit;           // for kPreempted, kBlocked, and sleeps in kHalted
  Timestamp begin, end;
  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
  [[nodiscard]] bool has_culprit() const {
    return part == Part::kPreempted || part == Part::kBlocked ||
           (part == Part::kHalted && culprit != Culprit());
  }
};

class VcpuHistory {
 public:
  static constexpr std::size_t kMost = 1u << 14;

  void add(const GuestRun& run);
  // Adds an exit, which must have its intervals. `waits` are from WaitTracker::shares(), `halts`
  // are the sleeps in its halted time. Halted time outside the sleeps has no culprit.
  void add(const ExitSpan& exit, std::span<const WaitShare> waits,
           std::span<const WaitShare> halts = {});

  // Returns the time up to which the thread's pieces are known; nullopt without a piece.
  [[nodiscard]] std::optional<Timestamp> known_until(ThreadId thread) const;
  // Returns the greatest number of pieces that between() can return for these times.
  [[nodiscard]] std::size_t count(ThreadId thread, Timestamp begin, Timestamp end) const;
  // Returns the pieces between the two times, cut to them, in order of time.
  [[nodiscard]] std::vector<VcpuPiece> between(ThreadId thread, Timestamp begin,
                                               Timestamp end) const;

 private:
  void push(ThreadId thread, const VcpuPiece& piece);
  std::map<ThreadId, std::deque<VcpuPiece>> threads_;
};

// A specification of intervals: START[:FIELD]..END[:FIELD] of the guest kernel's events,
// function:NAME, or marker:TEXT.
struct GuestSpanSpec {
  std::string text;
  std::string start, start_field, end, end_field;
  std::string function;  // calls of this guest function; then the other fields are empty
  // Intervals that end at a marker with this text. Their length is the first number after the text:
  // µs, or with a unit (ns, us, ms, s).
  std::string marker;
};
[[nodiscard]] Result<GuestSpanSpec> parse_guest_span(std::string_view text);
// Returns a specification as an example for messages.
[[nodiscard]] std::string example_guest_span();
// Returns the length that a marker gives after `text`, in ns; nullopt if no number is there.
[[nodiscard]] std::optional<std::uint64_t> told_length(std::string_view marker,
                                                       std::string_view text);

struct GuestInterval {
  ThreadId thread{};  // thread of the vCPU on which the interval ended
  Timestamp begin, end;
  std::string what;               // the end event's value, "next_pid=12"; empty: no FIELD
  std::vector<VcpuPiece> pieces;  // known pieces of the vCPU's time
  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
};

class GuestIntervals {
 public:
  static constexpr std::size_t kMostOpen = 1u << 16, kMostPending = 1u << 14;
  // Limits for the pieces of all intervals together: kFreePieces, and kTimesEach more for each
  // interval and each piece of history. Overlapping intervals contain the same pieces.
  static constexpr std::size_t kFreePieces = 1u << 18, kTimesEach = 16;

  // Returns an event's name ("irq:irq_handler_entry") or text ("irq=24 name=ata_piix").
  using TextOf = std::function<std::string(const Event&)>;
  GuestIntervals(GuestSpanSpec spec, TextOf event_name, TextOf event_text);

  // Take events, the guest's runs between them, and exits with their waits and the sleeps in their
  // halted time, in order of time.
  void on(const Event& event);
  void on(const GuestRun& run);
  void on(const ExitSpan& exit, std::span<const WaitShare> waits, std::span<const WaitShare> halts);
  // Releases the intervals that still wait for their vCPU's next events; call it at the end.
  void finish();

  // Returns the next interval that ended with the last call; nullopt when there are no more.
  // Intervals come one at a time, because many may have the same pieces.
  [[nodiscard]] std::optional<GuestInterval> take_ended();

  struct Counters {
    std::uint64_t intervals = 0, restarted = 0, end_only = 0, unplaced = 0;
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::size_t open() const { return open_.size(); }
  [[nodiscard]] const GuestSpanSpec& spec() const { return spec_; }

 private:
  using Key = std::tuple<MachineId, std::int64_t, std::string>;
  void on_call(const Event& event, const GuestCall& call);
  void on_marker(const Event& event, std::string_view text);
  void on_guest(const Event& event);
  void begin_span(Key key, Timestamp at);
  void end(const Key& key, const Event& event, std::string what);
  void take(GuestInterval interval);
  void settle(ThreadId thread);

  GuestSpanSpec spec_;
  TextOf event_name_, event_text_;
  VcpuHistory history_;
  std::map<Key, Timestamp> open_;
  // Intervals that wait until their vCPU's time is known up to their end.
  std::map<ThreadId, std::deque<GuestInterval>> pending_;
  std::deque<GuestInterval> ended_;  // without their pieces
  std::size_t room_ = kFreePieces;   // number of pieces that may still be stored
  Counters counters_;
};

}  // namespace trapline
