#include "merge/clock/feasible_lines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace trapline::clocks {
namespace {

__extension__ using Wide = __int128;

struct Point {
  std::int64_t x, y;
};

std::int64_t signed_difference(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::int64_t>(a - b);
}

// One side of the constraints: the corners that a line from above (Upper) or from below can touch,
// in order of x. All lines pass above the upper hull of the lower bounds.
template <bool Upper>
class Hull {
 public:
  explicit Hull(std::vector<Point> points) {
    std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
      if (a.x != b.x) return a.x < b.x;
      return Upper ? a.y > b.y : a.y < b.y;  // the stricter bound comes first
    });
    for (const Point& p : points) {
      if (!corners_.empty() && corners_.back().x == p.x) continue;
      while (corners_.size() >= 2 && !turns(corners_[corners_.size() - 2], corners_.back(), p))
        corners_.pop_back();
      corners_.push_back(p);
    }
  }

  [[nodiscard]] std::vector<long double> slopes() const {
    std::vector<long double> all;
    for (std::size_t i = 0; i + 1 < corners_.size(); ++i) all.push_back(slope(i));
    return all;
  }
  // Returns the corner that a line of this rate touches.
  [[nodiscard]] Point touched(long double rate) const {
    std::size_t first = 0, last = corners_.size() - 1;
    while (first < last) {
      const std::size_t middle = (first + last) / 2;
      const bool further = Upper ? slope(middle) > rate : slope(middle) < rate;
      (further ? first : last) = further ? middle + 1 : middle;
    }
    return corners_[first];
  }
  // Returns the least (Upper) or greatest offset that a line of this rate can have.
  [[nodiscard]] long double offset(long double rate) const {
    const Point p = touched(rate);
    return static_cast<long double>(p.y) - rate * static_cast<long double>(p.x);
  }

 private:
  static bool turns(const Point& a, const Point& b, const Point& c) {
    const Wide left = Wide{b.x - a.x} * Wide{c.y - a.y} - Wide{b.y - a.y} * Wide{c.x - a.x};
    return Upper ? left < 0 : left > 0;
  }
  [[nodiscard]] long double slope(std::size_t i) const {
    const Point &a = corners_[i], &b = corners_[i + 1];
    return static_cast<long double>(b.y - a.y) / static_cast<long double>(b.x - a.x);
  }
  std::vector<Point> corners_;
};

using Lower = Hull<true>;   // hull of the lower bounds
using Upper = Hull<false>;  // hull of the upper bounds

long double room(const Lower& low, const Upper& high, long double rate) {
  return high.offset(rate) - low.offset(rate);
}

// Returns the rate at which the room between the hulls ends, between a breakpoint `in` with room
// and its neighbour `out` without. In between, each hull is touched at one corner throughout.
long double end_of_room(const Lower& low, const Upper& high, long double in, long double out) {
  const Point l = low.touched((in + out) / 2), h = high.touched((in + out) / 2);
  if (l.x == h.x) return in;
  const long double rate =
      static_cast<long double>(h.y - l.y) / static_cast<long double>(h.x - l.x);
  return std::clamp(rate, std::min(in, out), std::max(in, out));
}

}  // namespace

std::optional<FeasibleLines> FeasibleLines::of(std::span<const ClockBound> brackets,
                                               RateWindow rates) {
  std::vector<Point> lows, highs;
  FeasibleLines lines;
  for (const ClockBound& b : brackets) {
    if (b.has_low()) {
      if (lows.empty()) std::tie(lines.source_, lines.target_) = std::tie(b.low_source, b.at_least);
      lows.push_back({signed_difference(b.low_source, lines.source_),
                      signed_difference(b.at_least, lines.target_)});
    }
  }
  for (const ClockBound& b : brackets)
    if (b.has_high())
      highs.push_back({signed_difference(b.high_source, lines.source_),
                       signed_difference(b.at_most, lines.target_)});
  if (lows.empty() || highs.empty()) return std::nullopt;
  const Lower low(std::move(lows));
  const Upper high(std::move(highs));

  // The room between the hulls is a concave function of the rate; its slope changes only at the
  // slopes of the hulls' edges.
  std::vector<long double> bends = low.slopes();
  const std::size_t of_low = bends.size();
  for (const long double slope : high.slopes()) bends.push_back(slope);
  std::vector<long double> all{rates.least, rates.most};
  for (const long double bend : bends)
    if (bend > rates.least && bend < rates.most) all.push_back(bend);
  std::sort(all.begin(), all.end());
  constexpr long double kRounding = 1e-3L;  // ns
  std::size_t first = all.size(), last = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (room(low, high, all[i]) < -kRounding) continue;
    first = std::min(first, i);
    last = i;
  }
  if (first == all.size()) return std::nullopt;
  const long double slowest =
      first == 0 ? all[0] : end_of_room(low, high, all[first], all[first - 1]);
  const long double fastest =
      last + 1 == all.size() ? all[last] : end_of_room(low, high, all[last], all[last + 1]);
  for (const long double rate : {slowest, fastest}) {
    lines.corners_.push_back({rate, low.offset(rate)});
    lines.corners_.push_back({rate, high.offset(rate)});
  }
  for (std::size_t i = 0; i < bends.size(); ++i) {
    if (bends[i] <= slowest || bends[i] >= fastest) continue;
    lines.corners_.push_back({bends[i], i < of_low ? low.offset(bends[i]) : high.offset(bends[i])});
  }
  return lines;
}

FeasibleLines::Range FeasibleLines::at(std::uint64_t source) const {
  const auto x = static_cast<long double>(signed_difference(source, source_));
  Range range{std::numeric_limits<long double>::max(), std::numeric_limits<long double>::lowest()};
  for (const Corner& corner : corners_) {
    const long double y = corner.offset + corner.rate * x;
    range.low = std::min(range.low, y);
    range.high = std::max(range.high, y);
  }
  range.low += static_cast<long double>(target_);
  range.high += static_cast<long double>(target_);
  return range;
}

FeasibleLines::Range FeasibleLines::rates() const { return {corners_[0].rate, corners_[2].rate}; }

ClockMap::Piece piece_of(std::uint64_t from, std::uint64_t source, long double target,
                         long double rate) {
  ClockMap::Piece piece{from, source, clamped_time(std::round(target)), 0, 62};
  rate = std::max(rate, 0.0L);  // an ambiguous stretch must not run backwards
  while (piece.shift > 0 && rate * std::exp2(static_cast<long double>(piece.shift)) >= 0x1p63L)
    --piece.shift;
  piece.mult = clamped_time(std::round(rate * std::exp2(static_cast<long double>(piece.shift))));
  return piece;
}

}  // namespace trapline::clocks
