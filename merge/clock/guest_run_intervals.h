// Refines and checks a relation of clocks by a rule: a guest does not run while its vCPU is in the
// host, so no record of the guest can be inside [kvm_exit, kvm_entry] of its vCPU. Pure.
//
//   recording      entry      exit        entry     exit
//   ────────────────┤  guest   ├───────────┤  guest  ├──────────
//   a record, placed with its error:   [────?─────]           touches one gap: it is in there
//                               [─?─]                         touches none: the relation is wrong
//                        [──────?────────]                    touches two: it says nothing
//
// A gap is a time between two exits, in which the guest runs. Each record that touches only one gap
// gives a bound; the shorter the guest ran, the narrower the bound.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "merge/clock/guest_bounds.h"
#include "merge/model/event.h"

namespace trapline {

// A guest record's time on its own clock, and the range in which a relation places it.
struct PlacedRecord {
  std::uint64_t source = 0;
  std::uint64_t target = 0;
  std::uint64_t error = 0;
};

struct GuestRunCounters {
  std::uint64_t records = 0;     // records with gaps on both sides
  std::uint64_t decided = 0;     // records that touch one gap
  std::uint64_t intervals = 0;   // gaps that contain these records
  std::uint64_t impossible = 0;  // records that touch no gap
  // How far into the host's time the relation may place a record at worst, in ns: the error that
  // remains.
  std::uint64_t residual_ns = 0;
};

// A record that the relation places inside an exit, wherever in its error range it was.
struct ImpossibleRecord {
  PlacedRecord record;
  std::uint64_t exit = 0, entry = 0;
};

class GuestRunIntervals {
 public:
  // `records` are those of one vCPU, in order of time.
  explicit GuestRunIntervals(std::vector<PlacedRecord> records) : records_(std::move(records)) {}

  // Take the exits and entries of the vCPU's thread, and losses, in order of time.
  void on_exit(std::uint64_t at);
  void on_entry(std::uint64_t at);
  void on_hole();  // forgets what was seen before

  // Return the results; call these after the end of the recording.
  [[nodiscard]] const std::vector<ClockBound>& bounds() const { return bounds_; }
  [[nodiscard]] const GuestRunCounters& counters() const { return counters_; }
  [[nodiscard]] const std::optional<ImpossibleRecord>& first_impossible() const {
    return impossible_;
  }

 private:
  struct Open {
    PlacedRecord record;
    std::uint64_t from = 0, to = 0;  // the gap that the record touches
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
  std::uint64_t last_exit_ = 0;    // 0: no exit seen
  std::uint64_t decided_for_ = 0;  // start of the gap that the last decided record is in
  std::vector<ClockBound> bounds_;
  GuestRunCounters counters_;
  std::optional<ImpossibleRecord> impossible_;
};

// Stores when a recording's vCPU threads left and entered their guest, for rules that must know
// more before they can check these times. Pure.
//
// Bounded: after kMost entries, whole stretches of entries are left out at even distances. replay()
// treats these stretches as losses.
class RunLog {
 public:
  void on_event(const Event& event);

  // Replays a thread's steps in their order.
  void replay(ThreadId thread, GuestRunIntervals& into) const;

 private:
  static constexpr std::size_t kMost = 2u << 20;  // 16 bytes each
  enum class Step : std::uint8_t { kExit, kEntry, kLoss };
  struct Entry {
    std::uint64_t at;
    Step step;
  };
  static constexpr std::size_t kStretch = 4096;
  struct Log {
    std::uint64_t seen = 0;
    std::map<std::uint64_t, std::vector<Entry>> stretches;  // by number of the stretch
  };
  void add(Log& log, Entry entry);
  void thin_out();

  std::map<ThreadId, Log> threads_;
  std::uint64_t every_ = 1;  // one stretch in this many is stored
  std::size_t kept_ = 0;
};

}  // namespace trapline
