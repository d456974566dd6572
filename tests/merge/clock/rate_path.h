// Clocks whose rates change, for tests of what is said of their error: a path of the target's time
// over the source's, and bounds that are true of it. Knows nothing of how a relation is fitted.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "merge/clock/clock_bound.h"

namespace trapline::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  long double real(long double low, long double high) {
    return std::uniform_real_distribution<long double>(low, high)(engine_);
  }
  // As often small as large.
  long double scale(long double low, long double high) {
    return std::exp(real(std::log(low), std::log(high)));
  }
  std::uint64_t below(std::uint64_t most) { return engine_() % most; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};

// The target's time over the source's: pieces of one rate each. Times are counted from `base`, so
// that they are exact to a small part of a nanosecond.
class RatePath {
 public:
  RatePath(long double source, std::uint64_t base) : base_(base), pieces_{{source, 0, 1}} {}
  // From `source` on it runs at this rate, and by `jump` further at once.
  void run(long double source, long double rate, long double jump = 0) {
    pieces_.push_back({source, at(source) + jump, rate});
  }
  // How far the target's time is from this one, when the source's is `source`.
  [[nodiscard]] long double off(std::uint64_t target, long double source) const {
    return static_cast<long double>(static_cast<std::int64_t>(target - base_)) - at(source);
  }
  // What the target's clock reads.
  [[nodiscard]] std::uint64_t read(long double source) const {
    return base_ + static_cast<std::uint64_t>(static_cast<std::int64_t>(std::floor(at(source))));
  }

 private:
  [[nodiscard]] long double at(long double source) const {
    auto after = std::upper_bound(pieces_.begin(), pieces_.end(), source,
                                  [](long double s, const Piece& p) { return s < p.source; });
    if (after != pieces_.begin()) --after;
    return after->target + (source - after->source) * after->rate;
  }

  struct Piece {
    long double source, target, rate;
  };
  std::uint64_t base_;
  std::vector<Piece> pieces_;
};

enum class Shape : std::uint8_t {
  kConstant,
  kOneChange,
  kTwoRates,
  kSteps,
  kSine,
  kParabola,
  kLast
};

// Rates in [slowest, slowest · (1 + change)] from `first` to `last`, in the shape's way.
inline RatePath make_path(Random& random, Shape shape, long double first, long double last,
                          long double slowest, long double change) {
  const long double length = last - first;
  RatePath path(first - length,
                1'000'000'000'000 + random.below(random.one_in(8) ? 1'700'000'000'000'000'000
                                                                  : 1'000'000'000'000'000));
  const auto rate = [&](long double part) { return slowest * (1 + change * part); };
  path.run(first - length, rate(random.real(0, 1)));
  switch (shape) {
    case Shape::kConstant:
      break;
    case Shape::kOneChange: {
      const bool up = random.one_in(2);
      path.run(first - length, rate(up ? 0 : 1));
      path.run(first + length * random.real(0, 1), rate(up ? 1 : 0));
      break;
    }
    case Shape::kTwoRates: {  // the fastest and the slowest in turn
      bool up = random.one_in(2);
      for (long double at = first; at < last; at += length * random.scale(1e-4L, 1), up = !up)
        path.run(at, rate(up ? 1 : 0));
      break;
    }
    case Shape::kSteps:
      for (long double at = first; at < last; at += length * random.scale(1e-3L, 0.5L))
        path.run(at, rate(random.real(0, 1)));
      break;
    case Shape::kSine: {
      const long double waves = random.scale(0.25L, 30), phase = random.real(0, 7);
      for (int i = 0; i < 600; ++i) {
        const long double part = static_cast<long double>(i) / 600;
        path.run(first + length * part,
                 rate(0.5L + 0.5L * std::sin(phase + 6.2832L * waves * part)));
      }
      break;
    }
    case Shape::kParabola: {
      const bool up = random.one_in(2);
      for (int i = 0; i < 400; ++i) {
        const long double part = static_cast<long double>(i) / 399;
        path.run(first + length * static_cast<long double>(i) / 400, rate(up ? part : 1 - part));
      }
      break;
    }
    case Shape::kLast:
      break;
  }
  return path;
}

// One thing that is true of the path at about a source time: of both sides or one, as narrow as can
// be or not, lopsided or not.
inline ClockBound true_bound(Random& random, const RatePath& path, long double source,
                             long double width, std::uint64_t group) {
  const auto floor_of = [](long double clock) {
    return static_cast<std::uint64_t>(std::floor(clock));
  };
  const std::uint64_t share = random.below(4);
  const long double below = share == 0 ? 0 : share == 1 ? width : width * random.real(0, 1);
  const long double above = share == 0 ? width : share == 1 ? 0 : width - below;
  if (random.one_in(3)) {  // a reading of the target's clock between two of the source's
    return ClockBound::readings(floor_of(source - below), floor_of(source + above),
                                path.read(source), path.read(source), group);
  }
  ClockBound bound =
      ClockBound::readings(floor_of(source), floor_of(source), path.read(source - below),
                           path.read(source + above), group);
  if (random.one_in(6))
    bound.at_least = ClockBound::kNoLow;
  else if (random.one_in(6))
    bound.at_most = ClockBound::kNoHigh;
  return bound;
}

}  // namespace trapline::test
