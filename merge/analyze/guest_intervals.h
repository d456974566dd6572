// Intervals that a guest recorded, and what its host did in each of them.
//
//   guest     sched_waking pid 12 ─────────────────────────────> sched_switch next_pid 12
//   its vCPU  guest │ kernel │ preempted by qemu (tid 7) │ kernel │ guest
//
// The host's time is that of the vCPU on which the interval ended. It is placed on the host's clock
// by the guest's alignment: the interval's ends may be off by its error bound, its parts still sum
// to it. An interval is told once its vCPU is known up to its end.
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

// What each vCPU's thread did lately: the guest ran, or the parts of its exits with who kept it
// waiting, in pieces that follow each other.
//
//   ── guest ──┬── kernel ──┬── user ──┬── preempted by A ──┬── preempted by B ──┬── kernel ──┬── guest ──
//          kvm_exit                                                           kvm_entry
//
// The latest kMost pieces of a thread are kept. What no piece covers is not known: losses, the time
// before its first exit, and what was longer ago.
struct VcpuPiece {
  std::optional<Part> part;  // nothing: the guest ran
  Culprit culprit;           // kPreempted, kBlocked, sleeps of kHalted
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
  // `waits` are the exit's, by WaitTracker::shares(), and `halts` the sleeps in its halted time; it
  // needs its intervals. Halted time outside of the sleeps has no culprit.
  void add(const ExitSpan& exit, std::span<const WaitShare> waits,
           std::span<const WaitShare> halts = {});

  // Up to when the thread is known; nothing of one without a piece.
  [[nodiscard]] std::optional<Timestamp> known_until(ThreadId thread) const;
  // How many pieces between() returns at most.
  [[nodiscard]] std::size_t count(ThreadId thread, Timestamp begin, Timestamp end) const;
  // What is known between those two times, cut to them, in order of time.
  [[nodiscard]] std::vector<VcpuPiece> between(ThreadId thread, Timestamp begin,
                                               Timestamp end) const;

 private:
  void push(ThreadId thread, const VcpuPiece& piece);
  std::map<ThreadId, std::deque<VcpuPiece>> threads_;
};

// START[:FIELD]..END[:FIELD] of the guest kernel's events, function:NAME, or marker:TEXT.
struct GuestSpanSpec {
  std::string text;
  std::string start, start_field, end, end_field;
  std::string function;  // a guest function's calls; the others are empty
  // Intervals that end at a marker with this text, as long as the first number after it says: µs,
  // or with a unit (ns, us, ms, s).
  std::string marker;
};
[[nodiscard]] Result<GuestSpanSpec> parse_guest_span(std::string_view text);
// A specification for messages.
[[nodiscard]] std::string example_guest_span();
// The length that a marker tells after that text; nothing where it has no number there.
[[nodiscard]] std::optional<std::uint64_t> told_length(std::string_view marker,
                                                       std::string_view text);

struct GuestInterval {
  ThreadId thread{};  // of the vCPU on which it ended
  Timestamp begin, end;
  std::string what;               // "next_pid=12"; empty: intervals have no value
  std::vector<VcpuPiece> pieces;  // what is known of its vCPU in that time
  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
};

class GuestIntervals {
 public:
  static constexpr std::size_t kMostOpen = 1u << 16, kMostPending = 1u << 14;
  // Pieces of all intervals together, and for each piece and interval that there is: intervals that
  // overlap have the same pieces.
  static constexpr std::size_t kFreePieces = 1u << 18, kTimesEach = 16;

  // An event's name ("irq:irq_handler_entry") and text ("irq=24 name=ata_piix").
  using TextOf = std::function<std::string(const Event&)>;
  GuestIntervals(GuestSpanSpec spec, TextOf event_name, TextOf event_text);

  // Events, the guest's runs between them and exits with their waits and the sleeps in their halted
  // time, in order of time.
  void on(const Event& event);
  void on(const GuestRun& run);
  void on(const ExitSpan& exit, std::span<const WaitShare> waits, std::span<const WaitShare> halts);
  // The end: what still waited for its vCPU's next events is told.
  void finish();

  // The next of those that ended with the last of these calls, until there is none: one at a time,
  // as many may have the same pieces.
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
  std::map<ThreadId, std::deque<GuestInterval>> pending_;  // until their vCPU is known to their end
  std::deque<GuestInterval> ended_;                        // without their pieces
  std::size_t room_ = kFreePieces;                         // for pieces
  Counters counters_;
};

}  // namespace trapline
