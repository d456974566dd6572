// Counts the exits of a recording for the page.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/model/flat_index.h"
#include "merge/pass/naming.h"
#include "merge/report/dimensions.h"
#include "merge/report/grouping.h"
#include "merge/report/groups.h"
#include "merge/report/table.h"

namespace trapline::page {

// The combination that stands for all those beyond the first kMostGroups.
inline constexpr std::uint32_t kOtherCombos = kMostGroups;

// The exits of a recording as the page keeps them: counts and times by the exits' values, by when
// they began and by how long they took.
//
//   combination of values x time bin x latency bin -> count, total, user, preempted, blocked
//
// Sums are exact: whatever a reader of the page selects, counts and totals are those of the exits.
// Memory is bounded: the length of time bins doubles when the recording outgrows them or when there
// are too many cells.

// There are four bins for each power of two: bin b contains [low(b), low(b + 1)) with low(b) = 2^(b
// / 4) * (1 + (b % 4) / 4). Bin 0 contains 0 and 1.
inline constexpr unsigned kLatencyBins = 256;
[[nodiscard]] constexpr unsigned latency_bin(std::uint64_t ns) {
  if (ns < 2) return 0;
  const auto octave = static_cast<unsigned>(std::bit_width(ns)) - 1;
  const auto quarter =
      static_cast<unsigned>(octave >= 2 ? ns >> (octave - 2) : ns << (2 - octave)) & 3;
  return octave * 4 + quarter;
}

// Time in bins of 2^shift ns. Bins begin at multiples of their length, so that two can be merged
// exactly.
struct TimeBins {
  std::uint64_t first = 0;  // beginning of the recording
  unsigned shift = 10;
  bool started = false;  // start() has set `first`
  [[nodiscard]] std::uint64_t base() const { return first >> shift; }
  // Returns the bin of a time; times before the first are in the first bin.
  [[nodiscard]] std::uint64_t bin(std::uint64_t ns) const {
    return ns < first ? 0 : (ns >> shift) - base();
  }
  // Returns the end of the bin of `at`, or `end`, which must be after `at`, if that is earlier. The
  // very last bin ends after the greatest time.
  [[nodiscard]] std::uint64_t until(std::uint64_t at, std::uint64_t end) const {
    const std::uint64_t edge = (base() + bin(at) + 1) << shift;
    return edge > at ? std::min(end, edge) : end;
  }
  // Returns the new number of bin `bin` when the length of bins doubles.
  [[nodiscard]] std::uint64_t doubled(std::uint64_t bin) const {
    return ((base() + bin) >> 1) - (base() >> 1);
  }
  // Returns the sums for bins of twice the length; `add` adds one sum to another.
  template <typename Sum, typename Add>
  [[nodiscard]] std::vector<Sum> doubled(const std::vector<Sum>& sums, const Add& add) const {
    std::vector<Sum> longer;
    for (std::size_t bin = 0; bin < sums.size(); ++bin) {
      const auto to = static_cast<std::size_t>(doubled(bin));
      if (longer.size() <= to) longer.resize(to + 1);
      add(longer[to], sums[bin]);
    }
    return longer;
  }
  // Calls `take` for each bin that the interval overlaps, with the length of the overlap.
  void each(Timestamp begin, Timestamp end, const auto& take) const {
    for (std::uint64_t at = begin.ns(); at < end.ns();) {
      const std::uint64_t to = until(at, end.ns());
      take(static_cast<std::size_t>(bin(at)), to - at);
      at = to;
    }
  }
  // Sets the time at which bins begin. Call it when the first time is put into a bin.
  void start(Timestamp at) { first = at.ns(), started = true; }
  // Sets where bins begin if start() was not called.
  void begin_at(std::uint64_t ns) {
    if (!started) first = ns;
  }
};

class Cells {
 public:
  static constexpr std::size_t kMostCells = 1u << 17, kMostBins = 256;

  // `combo`: the number of the exit's combination.
  void add(std::uint32_t combo, const ExitSpan& exit, const Pipeline& pipeline);

  struct Cell {
    std::uint64_t key = 0;  // combination, time bin, latency bin
    std::uint64_t count = 0, total = 0;
    std::array<std::uint64_t, kParts - 1> parts{};  // without the first part, the kernel's
    [[nodiscard]] std::uint32_t combo() const { return static_cast<std::uint32_t>(key >> 32) - 1; }
    void set_combo(std::size_t combo) {
      key = (std::uint64_t{combo} + 1) << 32 | static_cast<std::uint32_t>(key);
    }
    [[nodiscard]] std::uint32_t time() const { return static_cast<std::uint32_t>(key) >> 8; }
    [[nodiscard]] std::uint32_t latency() const { return static_cast<std::uint32_t>(key) & 0xff; }
    // Adds everything but the key.
    void add(const Cell& other);
  };
  // Returns how many exits have the combination kOtherCombos for lack of room.
  [[nodiscard]] std::uint64_t folded() const { return folded_; }
  [[nodiscard]] const TimeBins& bins() const { return bins_; }
  [[nodiscard]] std::size_t size() const { return cells_.size(); }
  // Returns the cells in the order in which their keys came.
  [[nodiscard]] const std::vector<Cell>& all() const { return cells_; }
  // Doubles the length of time bins.
  void coarsen();
  void begin_at(std::uint64_t ns) { bins_.begin_at(ns); }

 private:
  // Returns the index of the cell with this key; FlatIndex::kNone if there is none.
  [[nodiscard]] std::uint32_t find(std::uint64_t key) const;
  [[nodiscard]] Cell& get(std::uint64_t key);

  TimeBins bins_;
  std::vector<Cell> cells_;
  FlatIndex index_;  // of cells_, by key
  std::uint64_t folded_ = 0;
};

// The page's tables, with the same figures as the report by the same dimensions.
//
//   exit ──> row of its combination ─────────────────── sum ──> rows by reason, device, …
//        └─> groups of the table: exits of combinations ┘
//            that found no room
//
// A combination's row is counted once for all tables, which are sums of such rows, made at the end.

class Exits {
 public:
  Exits();

  void exit(const ExitSpan& exit, const Pipeline& pipeline) {
    cells.add(add(exit, pipeline), exit, pipeline);
  }
  // Adds an exit without a known end: to the tables, but not to the cells.
  void unended(const ExitSpan& exit, const Pipeline& pipeline) { add(exit, pipeline); }

  // Returns "combos" and "cells": docs/formats/page.md.
  [[nodiscard]] std::vector<trapline::Table> cell_tables(const Naming& names) const;
  struct Table {
    std::string by;
    std::vector<GroupRow> rows;
  };
  // Returns the tables in the report's order, the largest first: by total if `durations`, else by
  // count.
  [[nodiscard]] std::vector<Table> tables(const Naming& names, bool durations) const;

  Cells cells;

 private:
  struct Own {
    explicit Own(std::string_view text);
    std::string text;
    std::vector<Dimension> by;
    ExitKeys keys;
    Grouping<ExitGroup> groups;
  };
  std::uint32_t add(const ExitSpan& exit, const Pipeline& pipeline);
  [[nodiscard]] std::vector<GroupRow> rows(const Own& own, const Naming& names,
                                           bool durations) const;

  ExitKeys keys_;
  Grouping<ExitGroup> combos_;
  std::deque<Own> own_;
};

}  // namespace trapline::page
