// The lines that fit all bounds, against all crossings of the bounds' edges, tried one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "merge/clock/assumption.h"
#include "merge/clock/relation.h"
#include "merge/clock/wander_envelope.h"

namespace trapline::clocks {
namespace {

// One edge: side 1 is "offset + rate · x >= y", -1 "<= y".
struct Edge {
  long double x, y;
  int side;
};
struct Line {
  long double rate, offset;
};

std::vector<Edge> edges_of(const std::vector<ClockBound>& bounds) {
  std::vector<Edge> edges;
  for (const ClockBound& b : bounds) {
    if (b.has_low())
      edges.push_back(
          {static_cast<long double>(b.low_source), static_cast<long double>(b.at_least), 1});
    if (b.has_high())
      edges.push_back(
          {static_cast<long double>(b.high_source), static_cast<long double>(b.at_most), -1});
  }
  return edges;
}

// The corners: where two edges, or an edge and an end of the rates, meet within all others.
std::vector<Line> corners_of(const std::vector<Edge>& edges, RateWindow rates) {
  constexpr long double kSlack = 1e-6L;
  std::vector<Line> lines, corners;
  for (const Edge& a : edges) {
    for (const long double rate : {rates.least, rates.most})
      lines.push_back({rate, a.y - rate * a.x});
    for (const Edge& b : edges) {
      if (a.x >= b.x) continue;
      const long double rate = (b.y - a.y) / (b.x - a.x);
      lines.push_back({rate, a.y - rate * a.x});
    }
  }
  for (const Line& line : lines) {
    if (line.rate < rates.least || line.rate > rates.most) continue;
    const bool meets = std::ranges::all_of(edges, [&](const Edge& edge) {
      return static_cast<long double>(edge.side) * (line.offset + line.rate * edge.x - edge.y) >=
             -kSlack;
    });
    if (meets) corners.push_back(line);
  }
  return corners;
}

TEST(EnvelopeLines, AreBetweenTheCornersThatTryingAllFinds) {
  constexpr RateWindow kRates{0.5, 2.0};
  std::mt19937_64 random(3);
  int some = 0, ended_by_brackets = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    const long double rate = 0.4L + static_cast<long double>(up_to(170)) / 100;
    std::vector<ClockBound> bounds;
    for (std::uint64_t k = 0, n = 2 + up_to(8); k < n; ++k) {
      const std::uint64_t source = 1000 + up_to(3000);
      const auto truth = static_cast<std::uint64_t>(std::llround(5000 + rate * source));
      bounds.push_back(ClockBound::at(source, truth - up_to(150), truth + up_to(150)));
    }
    const WanderEnvelope envelope(bounds, {kRates, 0});
    const auto rates = envelope.contradiction() ? std::nullopt : envelope.line_rates();
    const std::vector<Line> corners = corners_of(edges_of(bounds), kRates);
    ASSERT_EQ(rates.has_value(), !corners.empty()) << i;
    if (!rates) continue;
    ++some;
    const auto [slowest, fastest] = std::ranges::minmax(corners, {}, &Line::rate);
    EXPECT_NEAR(static_cast<double>(rates->low), static_cast<double>(slowest.rate), 1e-6) << i;
    EXPECT_NEAR(static_cast<double>(rates->high), static_cast<double>(fastest.rate), 1e-6) << i;
    ended_by_brackets += slowest.rate > kRates.least && fastest.rate < kRates.most ? 1 : 0;
    for (const std::uint64_t x : {0u, 1500u, 2500u, 9000u}) {
      const auto at = [x](const Line& line) { return line.offset + line.rate * x; };
      const auto [low, high] = std::ranges::minmax(corners, {}, at);
      EXPECT_NEAR(static_cast<double>(envelope.lines_at(*rates, x).low),
                  static_cast<double>(at(low)), 0.01)
          << i;
      EXPECT_NEAR(static_cast<double>(envelope.lines_at(*rates, x).high),
                  static_cast<double>(at(high)), 0.01)
          << i;
    }
  }
  EXPECT_GT(some, 1000);
  EXPECT_GT(ended_by_brackets, 500);
}

TEST(EnvelopeLines, APieceDoesNotRunBackwards) {
  const ClockMap map({piece_of(0, 100, 5000, -2)});
  EXPECT_EQ(map(100), 5000u);
  EXPECT_EQ(map(900), 5000u);
}

TEST(EnvelopeLines, ATargetsTimeIsReachedAtItsSource) {
  std::vector<ClockBound> bounds;
  for (std::uint64_t i = 1; i < 20; ++i)
    bounds.push_back(ClockBound::reading(1000 * i, 1000 * i + 10, 7000 + 1000 * i + 5, i));
  const auto relation = Relation::fit(bounds, {kNanoseconds, 0});
  ASSERT_TRUE(relation);
  EXPECT_EQ(relation->interval().last, 19'011u);
  for (const std::uint64_t at : {2000u, 5500u, 15'000u}) {
    const std::uint64_t target = relation->map()(at);
    EXPECT_GE(relation->map()(relation->map().source_of(target)), target);
    EXPECT_LT(relation->map()(relation->map().source_of(target) - 1), target);
  }
}

}  // namespace
}  // namespace trapline::clocks
