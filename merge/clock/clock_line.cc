#include "merge/clock/clock_line.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend_ftrace/base/text.h"
#include "merge/clock/drift_envelope.h"

namespace trapline {
namespace {

using clocks::DriftEnvelope;
using clocks::FeasibleLines;
using clocks::RateWindow;

// Clocks count in grains and round down (clock_bound.h); and widened by `tolerance`.
std::vector<ClockBound> widened(std::span<const ClockBound> bounds, std::uint64_t tolerance) {
  std::vector<ClockBound> wide(bounds.begin(), bounds.end());
  for (ClockBound& bound : wide) {
    if (bound.has_low()) {
      bound.low_source += ClockBound::kGrain;
      bound.at_least -= std::min(bound.at_least - 1, tolerance);
    }
    if (bound.has_high()) bound.at_most += ClockBound::kGrain + tolerance;
  }
  return wide;
}

// Bounds at one source time show no rate.
bool in_one_place(std::span<const ClockBound> bounds, bool low) {
  std::optional<std::uint64_t> first;
  for (const ClockBound& bound : bounds) {
    if (!(low ? bound.has_low() : bound.has_high())) continue;
    const std::uint64_t place = low ? bound.low_source : bound.high_source;
    if (!first) first = place;
    if (place != *first) return false;
  }
  return true;
}

std::string seconds(std::uint64_t ns) {
  return fmt::format("{}.{:09}", ns / 1'000'000'000, ns % 1'000'000'000);
}

tl::unexpected<Error> contradicts(const DriftEnvelope::Contradiction& pair) {
  return fail(
      "the sync records contradict each other: when the source's clock read {} the other one read "
      "{} at least, and when it read {} the other one read {} at most, {} ns too little for clocks "
      "that run at most {} ppm apart",
      seconds(pair.low.low_source), seconds(pair.low.at_least), seconds(pair.high.high_source),
      seconds(pair.high.at_most), pair.by, clocks::kMaxDriftPpm);
}

// The least tolerance with which a line meets all, to a nanosecond; nothing below a second.
std::optional<std::uint64_t> least_tolerance(std::span<const ClockBound> bounds, RateWindow rates) {
  constexpr std::uint64_t kMost = 1'000'000'000;
  std::uint64_t bad = 0, good = 1;
  while (!FeasibleLines::of(widened(bounds, good), rates)) {
    if (good >= kMost) return std::nullopt;
    bad = good;
    good *= 8;
  }
  while (good - bad > 1) {
    const std::uint64_t middle = bad + (good - bad) / 2;
    (FeasibleLines::of(widened(bounds, middle), rates) ? good : bad) = middle;
  }
  return good;
}

// The rates that a clock may have which runs at this one most of the time.
RateWindow around(long double rate) {
  if (std::abs(rate - 1) < 0.01L) return clocks::kNanoseconds;
  return {static_cast<double>(rate * (1 - clocks::kMaxDriftPpm * 1e-6L)),
          static_cast<double>(rate * (1 + clocks::kMaxDriftPpm * 1e-6L))};
}

}  // namespace

Result<ClockLine> ClockLine::fit(std::span<const ClockBound> bounds, std::uint64_t from,
                                 std::uint64_t to, RateWindow rates) {
  if (bounds.empty()) return fail("nothing aligns the two clocks");
  if (in_one_place(bounds, true) || in_one_place(bounds, false)) {
    return fail(
        "their sync records bound the alignment at one time only, which shows no rate; run "
        "`trapline sync` at the beginning and at the end of what is recorded");
  }
  ClockLine line;
  line.first_ = bounds.front().source();
  if (const auto lines = FeasibleLines::of(widened(bounds, 0), rates)) {
    line.take(*lines, from, to);
    line.lines_ = *lines;
    line.error_ = std::max(line.lines_error(line.from_), line.lines_error(line.to_)) + 1;
    return line;
  }
  const auto tolerance = least_tolerance(bounds, rates);
  const RateWindow drift = around(
      tolerance ? FeasibleLines::of(widened(bounds, *tolerance), rates)->rates().middle() : 1);
  const DriftEnvelope envelope(widened(bounds, 0), drift);
  if (envelope.contradiction()) return contradicts(*envelope.contradiction());
  if (!tolerance) return fail("the sync records contradict each other: no line fits them");
  line.tolerance_ = *tolerance;
  line.take(*FeasibleLines::of(widened(bounds, *tolerance), rates), from, to);
  // The map and the clocks that were read round to whole nanoseconds.
  line.error_ = static_cast<std::uint64_t>(
      std::ceil(envelope.distance(line.piece_, line.from_, line.to_) + 2 + line.rate()));
  return line;
}

void ClockLine::take(const FeasibleLines& lines, std::uint64_t from, std::uint64_t to) {
  from_ = from;
  to_ = std::max(from, to);
  const long double start = lines.at(from_).middle();
  const long double rate =
      to_ == from_ ? lines.rates().middle()
                   : (lines.at(to_).middle() - start) / static_cast<long double>(to_ - from_);
  piece_ = clocks::piece_of(0, from_, start, rate);
}

double ClockLine::rate() const {
  return std::ldexp(static_cast<double>(piece_.mult), -static_cast<int>(piece_.shift));
}

std::uint64_t ClockLine::source_of(std::uint64_t target_time) const {
  const auto along =
      static_cast<long double>(static_cast<std::int64_t>(target_time - piece_.target));
  const long double rate =
      std::ldexp(static_cast<long double>(piece_.mult), -static_cast<int>(piece_.shift));
  return piece_.source + static_cast<std::uint64_t>(std::llround(along / rate));
}

std::uint64_t ClockLine::lines_error(std::uint64_t source_time) const {
  const FeasibleLines::Range possible = lines_->at(source_time);
  const auto mapped = static_cast<long double>(at(source_time));
  const long double error = std::max({possible.high - mapped, mapped - possible.low, 0.0L});
  return static_cast<std::uint64_t>(std::ceil(error + 1 + rate()));
}

std::uint64_t ClockLine::error_at(std::uint64_t source_time) const {
  if (source_time < from_ || source_time > to_) return ClockBound::kNoHigh;
  return lines_ ? lines_error(source_time) : error_;
}

}  // namespace trapline
