#include "merge/source/trace_dat/time_shift.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace trapline::trace_dat {
namespace {

// The option behind the peer's trace id, of CPUs with these samples.
std::string option(std::uint32_t flags, const std::vector<std::vector<TimeShift::Sample>>& cpus,
                   bool fractions = true) {
  std::string bytes;
  const auto put = [&bytes](auto number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  put(flags);
  put(static_cast<std::uint32_t>(cpus.size()));
  for (const auto& samples : cpus) {
    put(static_cast<std::uint32_t>(samples.size()));
    for (const auto& sample : samples) put(sample.time);
    for (const auto& sample : samples) put(sample.offset);
    for (const auto& sample : samples) put(sample.scaling);
  }
  for (const auto& samples : cpus)
    for (const auto& sample : samples)
      if (fractions) put(sample.fraction);
  return bytes;
}

std::optional<TimeShift> parse(const std::string& bytes) {
  ByteCursor cursor(std::as_bytes(std::span(bytes)));
  return TimeShift::parse(cursor);
}

constexpr std::uint32_t kSteps = 0, kInterpolate = 1;

TEST(TimeShift, EachCpuHasItsOwnOffset) {
  const auto shift = parse(option(kSteps, {{{0, 100}}, {{0, -40}}, {}}));
  ASSERT_TRUE(shift);
  EXPECT_EQ((*shift)(0, 1000), 1100);
  EXPECT_EQ((*shift)(1, 1000), 960);
  EXPECT_EQ((*shift)(2, 1000), 1000);  // no samples
  EXPECT_EQ((*shift)(3, 1000), 1000);  // no such CPU
}

TEST(TimeShift, WithoutInterpolationASampleHoldsUntilTheNext) {
  const auto shift = parse(option(kSteps, {{{3000, 30}, {1000, 10}, {2000, 20}}}));
  ASSERT_TRUE(shift);
  EXPECT_EQ((*shift)(0, 500), 510);
  EXPECT_EQ((*shift)(0, 1999), 2009);
  EXPECT_EQ((*shift)(0, 2000), 2020);
  EXPECT_EQ((*shift)(0, 9000), 9020);  // beyond the last one the last pair goes on
}

// Rounded as trace-cmd does, which is up below zero.
TEST(TimeShift, InterpolatesAndGoesOnAtBothEnds) {
  const auto shift = parse(option(kInterpolate, {{{1000, 100}, {2000, 300}, {3000, 200}}}));
  ASSERT_TRUE(shift);
  EXPECT_EQ((*shift)(0, 1500), 1700);
  EXPECT_EQ((*shift)(0, 2500), 2751);
  EXPECT_EQ((*shift)(0, 500), 501);
  EXPECT_EQ((*shift)(0, 4000), 4101);
}

// KVM's ratio of a scaled TSC has 48 bits behind the point: the product does not fit 64 bits.
TEST(TimeShift, ScalesByKvmsRatio) {
  const std::uint64_t ratio = std::uint64_t{3} << 47;  // 1.5
  const auto shift = parse(option(kSteps, {{{0, -7, ratio, 48}}}));
  ASSERT_TRUE(shift);
  EXPECT_EQ((*shift)(0, 1'000'000'000'000), 1'500'000'000'000 - 7);
}

TEST(TimeShift, FractionsMayBeMissing) {
  const auto shift = parse(option(kSteps, {{{0, 5}}}, false));
  ASSERT_TRUE(shift);
  EXPECT_EQ((*shift)(0, 10), 15);
}

TEST(TimeShift, WhatIsCutOffOrCannotBeIsNone) {
  const std::string whole = option(kInterpolate, {{{1000, 100}, {2000, 300}}});
  const std::size_t without_fractions = whole.size() - 2 * sizeof(std::uint64_t);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    if (size == without_fractions) continue;
    EXPECT_FALSE(parse(whole.substr(0, size))) << size;
  }
  EXPECT_FALSE(parse(option(kSteps, {{{0, 0, 1, 64}}})));
  EXPECT_FALSE(parse(option(kSteps, {{{0, std::int64_t{1} << 62}}})));
  std::string many = option(kSteps, {{}});
  std::memset(many.data() + 8, 0xff, 4);  // samples
  EXPECT_FALSE(parse(many));
}

}  // namespace
}  // namespace trapline::trace_dat
