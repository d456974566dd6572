#include "merge/clock/line_band.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace trapline {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Coordinates are relative to the first bound, so that doubles hold nanoseconds exactly.
struct Point {
  double x, y;
};

struct Band {
  std::vector<Point> low, high;

  // The offsets that a line of this rate may have: [lowest, highest], empty when lowest > highest.
  [[nodiscard]] double lowest(double rate) const {
    double offset = -kInfinity;
    for (const Point& p : low) offset = std::max(offset, p.y - rate * p.x);
    return offset;
  }
  [[nodiscard]] double highest(double rate) const {
    double offset = kInfinity;
    for (const Point& p : high) offset = std::min(offset, p.y - rate * p.x);
    return offset;
  }
  [[nodiscard]] double room(double rate) const { return highest(rate) - lowest(rate); }
};

// Only the corners of the hull can touch a line: the upper hull of the lower bounds (sign 1), the
// lower hull of the upper ones (sign -1). Points come in order of x.
std::vector<Point> hull(const std::vector<Point>& points, double sign) {
  std::vector<Point> corners;
  for (const Point& p : points) {
    while (corners.size() >= 2) {
      const Point &a = corners[corners.size() - 2], &b = corners.back();
      if (sign * ((b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x)) < 0) break;
      corners.pop_back();
    }
    corners.push_back(p);
  }
  return corners;
}

// The maximum of a concave function.
template <typename Function>
double peak(Function&& f, double from, double to) {
  for (int i = 0; i < 200 && to - from > 0; ++i) {
    const double a = from + (to - from) / 3, b = to - (to - from) / 3;
    if (f(a) < f(b))
      from = a;
    else
      to = b;
  }
  return (from + to) / 2;
}

// Where a predicate that holds at `inside` ends, towards `outside`.
template <typename Predicate>
double edge(Predicate&& holds, double inside, double outside) {
  for (int i = 0; i < 200; ++i) {
    const double middle = (inside + outside) / 2;
    (holds(middle) ? inside : outside) = middle;
  }
  return inside;
}

double signed_difference(std::uint64_t a, std::uint64_t b) {
  return static_cast<double>(static_cast<std::int64_t>(a - b));
}

}  // namespace

std::uint64_t ClockLine::at(std::uint64_t source_time) const {
  const double along = signed_difference(source_time, source);
  // The whole part apart: a double does not hold it to the nanosecond.
  const double correction = along * (rate - 1);
  const auto whole = static_cast<std::int64_t>(source_time - source);
  if (std::abs(rate - 1) > 0.01)
    return target + static_cast<std::uint64_t>(std::llround(along * rate));
  return target + static_cast<std::uint64_t>(whole + std::llround(correction));
}

std::uint64_t ClockLine::source_of(std::uint64_t target_time) const {
  const double along = signed_difference(target_time, target);
  return source + static_cast<std::uint64_t>(std::llround(along / rate));
}

// The band's width is convex, so that between two steps it is below the line through them.
std::uint64_t ClockLine::error_at(std::uint64_t source_time) const {
  const double span = static_cast<double>(to - from);
  if (span == 0) return error;
  const double at = signed_difference(source_time, from) / span * static_cast<double>(kSteps);
  const auto step = static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(kSteps - 1)));
  if (at < 0 || at > static_cast<double>(kSteps)) return ClockBound::kNoHigh;
  const auto left = static_cast<double>(errors[step]);
  const auto right = static_cast<double>(errors[step + 1]);
  const double here = left + (right - left) * (at - static_cast<double>(step));
  return static_cast<std::uint64_t>(std::ceil(std::max(here, 0.0))) + 1;
}

Result<ClockLine> fit_line(std::span<const ClockBound> bounds, std::uint64_t from,
                           std::uint64_t to) {
  std::vector<Point> low, high;
  if (bounds.empty()) return fail("nothing relates the two clocks");
  const std::uint64_t x0 = bounds.front().source;
  std::uint64_t y0 = 0;
  for (const ClockBound& bound : bounds) {
    if (y0 == 0 && bound.lo != ClockBound::kNoLow) y0 = bound.lo;
    if (y0 == 0 && bound.hi != ClockBound::kNoHigh) y0 = bound.hi;
  }
  for (const ClockBound& bound : bounds) {
    const double x = signed_difference(bound.source, x0);
    if (bound.lo != ClockBound::kNoLow) low.push_back({x, signed_difference(bound.lo, y0)});
    if (bound.hi != ClockBound::kNoHigh) high.push_back({x, signed_difference(bound.hi, y0)});
  }
  if (low.size() < 2 || high.size() < 2 || low.front().x == low.back().x ||
      high.front().x == high.back().x)
    return fail("two bounds above and two below are needed at least; there are {} and {}",
                high.size(), low.size());
  Band band{hull(low, 1), hull(high, -1)};
  // Rates outside of these meet no bounds at all: the steepest and the flattest way between them.
  const double span = std::min(low.back().x - low.front().x, high.back().x - high.front().x);
  const double guess = (low.back().y - low.front().y) / (low.back().x - low.front().x);
  double wide = 0;
  for (const Point& p : low) wide = std::max(wide, std::abs(p.y - guess * p.x));
  for (const Point& p : high) wide = std::max(wide, std::abs(p.y - guess * p.x));
  const double reach = std::min(0.5, 4 * (wide + 1) / span);
  const double best =
      peak([&](double rate) { return band.room(rate); }, guess - reach, guess + reach);
  const double room = band.room(best);
  const double tolerance = room < 0 ? -room / 2 : 0;
  for (Point& p : band.low) p.y -= tolerance;
  for (Point& p : band.high) p.y += tolerance;
  const auto feasible = [&](double rate) { return band.room(rate) >= -1e-6; };
  const double flattest = edge(feasible, best, guess - 2 * reach);
  const double steepest = edge(feasible, best, guess + 2 * reach);
  const double offset = (band.lowest(best) + band.highest(best)) / 2;
  ClockLine line;
  line.source = x0;
  line.target = y0 + static_cast<std::uint64_t>(std::llround(offset));
  line.rate = best;
  line.tolerance = static_cast<std::uint64_t>(std::ceil(tolerance));
  line.from = from;
  line.to = std::max(from, to);
  // Where the line misses a bound the truth may be at the bound's far side.
  double missed = 0;
  for (const ClockBound& bound : bounds) {
    if (tolerance == 0 || bound.lo == ClockBound::kNoLow || bound.hi == ClockBound::kNoHigh)
      continue;
    const double middle = offset + best * signed_difference(bound.source, x0);
    missed = std::max({missed, middle - signed_difference(bound.lo, y0),
                       signed_difference(bound.hi, y0) - middle});
  }
  for (std::size_t i = 0; i <= ClockLine::kSteps; ++i) {
    const double x = signed_difference(from, x0) + static_cast<double>(line.to - from) *
                                                       static_cast<double>(i) /
                                                       static_cast<double>(ClockLine::kSteps);
    const auto top = [&](double rate) { return band.highest(rate) + rate * x; };
    const auto bottom = [&](double rate) { return -(band.lowest(rate) + rate * x); };
    const double middle = offset + best * x;
    const double error = std::max({top(peak(top, flattest, steepest)) - middle,
                                   middle + bottom(peak(bottom, flattest, steepest)), 0.0});
    line.errors[i] = static_cast<std::uint64_t>(std::ceil(std::max(error + tolerance, missed))) + 1;
    line.error = std::max(line.error, line.errors[i]);
  }
  return line;
}

}  // namespace trapline
