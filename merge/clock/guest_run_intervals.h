// The rule that refines and checks a relation: a guest does not run while its vCPU is in the host,
// so no record of the guest's lies inside [kvm_exit, kvm_entry] of its vCPU. Pure.
//
//   recording      entry      exit        entry     exit
//   ────────────────┤  guest   ├───────────┤  guest  ├──────────
//   a record, placed with its error:   [────?─────]           touches one gap: it is in there
//                               [─?─]                         touches none: the relation is wrong
//                        [──────?────────]                    touches two: it says nothing
//
// Each record that touches one gap only gives a bound, narrower where the guest runs shortly.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "merge/clock/guest_bounds.h"
#include "merge/model/event.h"

namespace trapline {

// A guest record's time on its own clock, and where a relation puts it.
struct PlacedRecord {
  std::uint64_t source = 0;
  std::uint64_t target = 0;
  std::uint64_t error = 0;
};

struct GuestRunCounters {
  std::uint64_t records = 0;     // with gaps on both sides
  std::uint64_t decided = 0;     // those that touch one gap
  std::uint64_t intervals = 0;   // that those lie in
  std::uint64_t impossible = 0;  // those that touch none
  // How far the relation puts a record into the host's time, at worst: what is left of its error.
  std::uint64_t residual_ns = 0;
};

// A record that the relation puts into an exit, wherever in its error it may be.
struct ImpossibleRecord {
  PlacedRecord record;
  std::uint64_t exit = 0, entry = 0;
};

class GuestRunIntervals {
 public:
  // Records of one vCPU, in order of time.
  explicit GuestRunIntervals(std::vector<PlacedRecord> records) : records_(std::move(records)) {}

  // The vCPU's thread, in order of time.
  void on_exit(std::uint64_t at);
  void on_entry(std::uint64_t at);
  void on_hole();  // what was seen before says nothing about what comes

  // After the recording's end.
  [[nodiscard]] const std::vector<ClockBound>& bounds() const { return bounds_; }
  [[nodiscard]] const GuestRunCounters& counters() const { return counters_; }
  [[nodiscard]] const std::optional<ImpossibleRecord>& first_impossible() const {
    return impossible_;
  }

 private:
  struct Open {
    PlacedRecord record;
    std::uint64_t from = 0, to = 0;  // the gap it touches
    unsigned touched = 0;
  };
  [[nodiscard]] static std::uint64_t low(const PlacedRecord& record) {
    return record.target > record.error ? record.target - record.error : 0;
  }
  void gap(std::uint64_t from, std::uint64_t to);
  void decide(const Open& open, std::uint64_t next_gap);

  std::vector<PlacedRecord> records_;
  std::size_t next_ = 0;
  std::vector<Open> open_;
  std::uint64_t entry_ = 0;        // 0: not known to run
  std::uint64_t last_exit_ = 0;    // 0: nothing known before
  std::uint64_t decided_for_ = 0;  // the beginning of the gap decided for last
  std::vector<ClockBound> bounds_;
  GuestRunCounters counters_;
  std::optional<ImpossibleRecord> impossible_;
};

// When a recording's vCPU threads left their guest and went back in, kept for rules that need to
// know more before they can look. Pure.
//
// Bounded: from kMost entries on whole stretches are left out, evenly. What is missing is a loss to
// whoever replays it.
class RunLog {
 public:
  explicit RunLog(std::size_t most = kMost) : most_(most) {}

  void on_exit(ThreadId thread, std::uint64_t at) { add(threads_[thread], {at, Step::kExit}); }
  void on_entry(ThreadId thread, std::uint64_t at) { add(threads_[thread], {at, Step::kEntry}); }
  void on_loss() {
    for (auto& [thread, log] : threads_) add(log, {0, Step::kLoss});
  }
  void on_event(const Event& event);

  // A thread's steps, in their order.
  void replay(ThreadId thread, GuestRunIntervals& into) const;

  static constexpr std::size_t kMost = 2u << 20;  // 16 bytes each

 private:
  enum class Step : std::uint8_t { kExit, kEntry, kLoss };
  struct Entry {
    std::uint64_t at;
    Step step;
  };
  static constexpr std::size_t kStretch = 4096;
  struct Log {
    std::uint64_t seen = 0;
    std::map<std::uint64_t, std::vector<Entry>> stretches;  // by number
  };
  void add(Log& log, Entry entry);
  void thin_out();

  std::map<ThreadId, Log> threads_;
  std::uint64_t every_ = 1;  // of so many stretches one is kept
  std::size_t kept_ = 0, most_;
};

}  // namespace trapline
