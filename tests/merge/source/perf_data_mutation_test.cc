// Damaged recordings by perf: events in order of time or a clean error, in bounded time.
#include <gtest/gtest.h>

#include <ctime>

#include "merge/source/perf_data/perf_data_source.h"
#include "tests/merge/source/mutate.h"
#include "tests/merge/source/recordings.h"

namespace trapline::perf_data {
namespace {

using test::contents;
using test::data_path;
using test::Mutator;
using test::TemporaryFile;

#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kMutations = 100;
#else
constexpr std::uint64_t kMutations = 500;
#endif
constexpr double kMostSeconds = 2;  // of processor time, one file

class PerfDataMutations : public ::testing::TestWithParam<std::string> {};

TEST_P(PerfDataMutations, GiveEventsInOrderOrAnError) {
  const std::string whole = contents(data_path(GetParam()));
  const std::uint64_t size = whole.size();
  // The header, attrs, records and formats.
  Mutator mutator(whole, {0, 16, 104, 250, size / 8, size / 4, size / 2, size - 2000});
  const TemporaryFile file("");
  std::uint64_t opened = 0;
  for (std::uint64_t seed = 0; seed < kMutations; ++seed) {
    file.write(mutator.mutated(seed));
    const std::clock_t begin = std::clock();
    auto source = open_perf_data(file.path());
    (void)perf_data_processes(file.path());
    if (!source) {
      EXPECT_FALSE(source.error().message.empty());
      continue;
    }
    ++opened;
    Timestamp last;
    for (Event event; (*source)->next(event) == Read::kEvent; last = event.at)
      ASSERT_GE(event.at, last) << "mutation " << seed;
    ASSERT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, kMostSeconds)
        << "mutation " << seed;
  }
  EXPECT_GT(opened, kMutations / 4);
}
INSTANTIATE_TEST_SUITE_P(All, PerfDataMutations,
                         ::testing::Values("perf/kvm-stat.perf.data", "perf/lost.perf.data",
                                           "perf/pipe.perf.data", "perf/zstd.perf.data"),
                         test::test_name);

}  // namespace
}  // namespace trapline::perf_data
