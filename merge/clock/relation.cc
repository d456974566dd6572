#include "merge/clock/relation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trapline::clocks {
namespace {

// Of brackets, so that differences fit in 63 bits.
constexpr std::uint64_t kMostTime = kLastTime / 2;

using Groups = std::vector<std::span<const ClockBound>>;

// Neighbours of one group. A group that no line meets (a clock was set while it was taken) is taken
// apart.
Groups groups_of(std::span<const ClockBound> brackets, RateWindow rates) {
  const auto one_sided = [](std::span<const ClockBound> group) {
    return std::ranges::none_of(group, &ClockBound::has_low) ||
           std::ranges::none_of(group, &ClockBound::has_high);
  };
  Groups groups;
  for (std::size_t i = 0; i < brackets.size();) {
    std::size_t end = i + 1;
    while (end < brackets.size() && brackets[end].group == brackets[i].group) ++end;
    const auto group = brackets.subspan(i, end - i);
    if (one_sided(group) || FeasibleLines::of(group, rates)) {
      groups.push_back(group);
    } else {
      for (std::size_t one = i; one < end; ++one) groups.push_back(brackets.subspan(one, 1));
    }
    i = end;
  }
  return groups;
}

struct FitAttempt {
  std::vector<ClockBound> brackets;
  std::optional<FeasibleLines> lines;
  bool one_sided = false;
};

FitAttempt attempt(const Groups& groups, std::size_t first, std::size_t count, RateWindow rates) {
  FitAttempt attempted;
  bool low = false, high = false;
  for (std::size_t i = first; i < first + count; ++i) {
    for (const ClockBound& b : groups[i]) {
      low |= b.has_low();
      high |= b.has_high();
      attempted.brackets.push_back(b);
    }
  }
  attempted.one_sided = !low || !high;
  if (!attempted.one_sided) attempted.lines = FeasibleLines::of(attempted.brackets, rates);
  return attempted;
}

bool meets(const Groups& groups, std::size_t first, std::size_t end, RateWindow rates) {
  const FitAttempt attempted = attempt(groups, first, end - first, rates);
  return attempted.one_sided || attempted.lines.has_value();
}

// The end of the longest run from `first` on that one line meets: doubling, then halving. What is
// met by a line stays so when a group is left out.
std::size_t longest(const Groups& groups, std::size_t first, RateWindow rates) {
  if (meets(groups, first, groups.size(), rates)) return groups.size();  // the usual case first
  std::size_t good = 1, bad = 2;
  while (first + bad < groups.size() && meets(groups, first, first + bad, rates)) {
    good = bad;
    bad *= 2;
  }
  bad = std::min(bad, groups.size() - first);
  while (bad - good > 1) {
    const std::size_t middle = (good + bad) / 2;
    (meets(groups, first, first + middle, rates) ? good : bad) = middle;
  }
  return first + good;
}

// How far down, above `lowest`, the run [start, end) can begin.
std::size_t earliest(const Groups& groups, std::size_t lowest, std::size_t start, std::size_t end,
                     RateWindow rates) {
  std::size_t bad = lowest;
  while (start - bad > 1) {
    const std::size_t middle = bad + (start - bad) / 2;
    (meets(groups, middle, end, rates) ? start : bad) = middle;
  }
  return start;
}

// The first source time for which `reached` holds; it stays so from there on.
template <typename Reached>
std::uint64_t first_time(Reached&& reached) {
  std::uint64_t low = 0, high = kLastTime;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (reached(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

std::uint64_t first_source(const ClockBound& b) {
  if (!b.has_low()) return b.high_source;
  return b.has_high() ? std::min(b.low_source, b.high_source) : b.low_source;
}
std::uint64_t last_source(const ClockBound& b) {
  return std::max(b.has_low() ? b.low_source : 0, b.has_high() ? b.high_source : 0);
}

}  // namespace

Result<Relation> Relation::fit(std::span<const ClockBound> brackets, RateWindow rates,
                               std::optional<Interval> interval, Settable settable) {
  std::vector<ClockBound> plausible;
  for (const ClockBound& b : brackets) {
    if (b.low_source > kMostTime || b.high_source > kMostTime || b.at_least > kMostTime) continue;
    if (b.has_high() && b.at_most > kMostTime) continue;
    plausible.push_back(b);
  }
  const Groups groups = groups_of(plausible, rates);
  Relation relation;
  relation.groups_ = groups.size();
  // A run ends where no line meets one more group. The change may have come earlier, where the run
  // after it could begin as well: the groups in between belong to neither.
  for (std::size_t first = 0; first < groups.size();) {
    const std::size_t end = longest(groups, first, rates);
    std::size_t sure = end;
    if (end < groups.size()) {
      sure = earliest(groups, first, end, longest(groups, end, rates), rates);
    }
    FitAttempt attempted = attempt(groups, first, sure - first, rates);
    if (attempted.lines)
      relation.runs_.push_back({std::move(attempted.brackets), std::move(*attempted.lines)});
    first = end;
  }
  if (relation.runs_.empty()) {
    return fail("{}", brackets.empty() ? "there are no sync records"
                                       : "its sync records bound the relation from one side only");
  }
  relation.interval_ = {kLastTime, 0};
  for (const Run& run : relation.runs_) {
    for (const ClockBound& b : run.brackets) {
      relation.interval_.first = std::min(relation.interval_.first, first_source(b));
      relation.interval_.last = std::max(relation.interval_.last, last_source(b));
    }
  }
  if (interval && interval->first <= interval->last) {
    relation.interval_.first = std::min(relation.interval_.first, interval->first);
    relation.interval_.last = std::max(relation.interval_.last, interval->last);
  }
  relation.place_runs(settable);
  relation.make_segments();
  relation.make_map();
  relation.find_steps();
  return relation;
}

// What a run explains happened after the last bracket of the run before, and before the first one
// of the run after it: by the clock that nobody set.
void Relation::place_runs(Settable settable) {
  const bool by_source = settable != Settable::kSource, by_target = settable != Settable::kTarget;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    Run& run = runs_[i];
    if (i > 0) {
      std::uint64_t source = 0, target = 0, first = kLastTime;
      for (const ClockBound& b : runs_[i - 1].brackets) {
        source = std::max(source, first_source(b));
        target = std::max(target, b.at_least);
      }
      if (by_source) first = source;
      if (by_target) {
        first = std::min(first, first_time([&](std::uint64_t time) {
                           return run.lines.at(time).high >= static_cast<long double>(target);
                         }));
      }
      run.possible.first = first;
    }
    if (i + 1 < runs_.size()) {
      std::uint64_t source = kLastTime, target = ClockBound::kNoHigh, last = 0;
      for (const ClockBound& b : runs_[i + 1].brackets) {
        source = std::min(source, last_source(b));
        target = std::min(target, b.at_most);
      }
      if (by_source) last = source;
      if (by_target) {
        const std::uint64_t beyond = first_time([&](std::uint64_t time) {
          return run.lines.at(time).low > static_cast<long double>(target);
        });
        last = std::max(last, beyond == 0 ? 0 : beyond - 1);
      }
      run.possible.last = last;
    }
  }
}

void Relation::make_segments() {
  std::vector<std::uint64_t> cuts{0};
  for (const Run& run : runs_) {
    cuts.push_back(run.possible.first);
    if (run.possible.last != kLastTime) cuts.push_back(run.possible.last + 1);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (const std::uint64_t cut : cuts) {
    Segment segment{cut, {}};
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].possible.first <= cut && cut <= runs_[i].possible.last) {
        segment.runs.push_back(i);
      }
    }
    // No event can have such a time; the run before it goes on.
    if (segment.runs.empty()) {
      segment.runs.push_back(segments_.empty() ? 0 : segments_.back().runs.back());
    }
    segments_.push_back(std::move(segment));
  }
}

FeasibleLines::Range Relation::range(const Segment& segment, std::uint64_t source) const {
  FeasibleLines::Range all = runs_[segment.runs.front()].lines.at(source);
  for (const std::size_t run : segment.runs) {
    const FeasibleLines::Range one = runs_[run].lines.at(source);
    all.low = std::min(all.low, one.low);
    all.high = std::max(all.high, one.high);
  }
  return all;
}

// In each segment the line through the middles at both of its ends: how far any possible line is
// from it is a convex function of time, so it is greatest at an end, where it is as small as can
// be.
void Relation::make_map() {
  std::vector<ClockMap::Piece> pieces;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    const std::uint64_t end = i + 1 < segments_.size() ? segments_[i + 1].from - 1 : kLastTime;
    std::uint64_t first = std::max(segment.from, interval_.first);
    std::uint64_t last = std::min(end, interval_.last);
    if (first >= last) {  // nothing to convert here
      const FeasibleLines::Range rates = runs_[segment.runs.front()].lines.rates();
      const std::uint64_t at = std::clamp(interval_.first, segment.from, end);
      pieces.push_back(piece_of(segment.from, at, range(segment, at).middle(), rates.middle()));
    } else {
      const long double a = range(segment, first).middle(), b = range(segment, last).middle();
      const long double rate = (b - a) / static_cast<long double>(last - first);
      const long double target = rate < 0 ? a + (b - a) / 2 : a;
      pieces.push_back(piece_of(segment.from, first, target, rate));
    }
  }
  map_ = ClockMap(std::move(pieces));
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i].runs.size() > 1) continue;
    const std::uint64_t end = i + 1 < segments_.size() ? segments_[i + 1].from - 1 : kLastTime;
    const std::uint64_t first = std::max(segments_[i].from, interval_.first);
    const std::uint64_t last = std::min(end, interval_.last);
    const Interval possible = runs_[segments_[i].runs.front()].possible;
    if (first > last || first > possible.last || first < possible.first) continue;
    // In between the map rounds otherwise.
    error_ = std::max({error_, error_at(first) + 1, error_at(last) + 1});
  }
}

const Relation::Segment& Relation::segment_at(std::uint64_t source) const {
  const auto after = std::upper_bound(
      segments_.begin(), segments_.end(), source,
      [](std::uint64_t time, const Segment& segment) { return time < segment.from; });
  return *(after - 1);
}

std::uint64_t Relation::error_at(std::uint64_t source) const {
  const Segment& segment = segment_at(source);
  const FeasibleLines::Range possible = range(segment, source);
  const auto mapped = static_cast<long double>(map_(source));
  const long double error = std::max(possible.high - mapped, mapped - possible.low);
  // The map rounds to whole times, and so did the source's clock.
  return clamped_time(std::ceil(error + 1 + runs_[segment.runs.back()].lines.rates().high));
}

std::int64_t Relation::offset() const {
  return static_cast<std::int64_t>(map_(interval_.first) - interval_.first);
}

double Relation::drift_ppm() const {
  return static_cast<double>((runs_.front().lines.rates().middle() - 1) * 1e6L);
}

void Relation::find_steps() {
  for (std::size_t i = 0; i + 1 < runs_.size(); ++i) {
    Step step;
    step.between = {last_source(runs_[i].brackets.back()),
                    first_source(runs_[i + 1].brackets.front())};
    const std::uint64_t at = step.between.last;
    step.by = std::llround(runs_[i + 1].lines.at(at).middle() - runs_[i].lines.at(at).middle());
    step.ambiguous = {runs_[i + 1].possible.first, runs_[i].possible.last};
    if (step.ambiguous.first <= step.ambiguous.last) {
      step.error = std::max(error_at(step.ambiguous.first), error_at(step.ambiguous.last));
    }
    steps_.push_back(step);
  }
}

}  // namespace trapline::clocks
