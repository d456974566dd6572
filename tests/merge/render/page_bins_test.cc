#include <gmock/gmock.h>

#include <cmath>

#include "merge/render/page/exits.h"

namespace trapline::page {
namespace {

// docs/formats/page.md's formula.
std::uint64_t low(unsigned bin) {
  return static_cast<std::uint64_t>(
      std::floor(std::ldexp(1.0 + (bin % 4) / 4.0, static_cast<int>(bin / 4))));
}

TEST(PageBins, EveryDurationLiesInTheBinThatTheFormulaSays) {
  for (std::uint64_t ns = 4; ns < 100'000; ++ns) {
    const unsigned bin = latency_bin(ns);
    ASSERT_LE(low(bin), ns);
    ASSERT_LT(ns, low(bin + 1)) << "bin " << bin;
  }
  for (unsigned bit = 17; bit < 52; ++bit) {
    const std::uint64_t ns = std::uint64_t{1} << bit;
    EXPECT_EQ(latency_bin(ns), 4 * bit);
    EXPECT_EQ(latency_bin(ns - 1), 4 * bit - 1);
  }
  EXPECT_EQ(latency_bin(0), 0u);
  EXPECT_EQ(latency_bin(1), 0u);
  EXPECT_EQ(latency_bin(2), 4u);
  EXPECT_EQ(latency_bin(3), 6u);
  EXPECT_LT(latency_bin(~std::uint64_t{0}), kLatencyBins);
}

TEST(PageBins, TwoBinsBecomeOneWhereverTheRecordingBegins) {
  for (const std::uint64_t first : {0u, 1u, 1023u, 1024u, 5000u, 123'456'789u}) {
    const TimeBins bins{first, 10}, longer{first, 11};
    for (std::uint64_t ns = first; ns < first + 100'000; ns += 137) {
      ASSERT_EQ(bins.doubled(bins.bin(ns)), longer.bin(ns)) << first << ' ' << ns;
    }
    EXPECT_EQ(bins.bin(first), 0u);
    EXPECT_EQ(bins.bin(first / 2), 0u) << "what began before is in the first bin";
  }
}

}  // namespace
}  // namespace trapline::page
