// Damaged recordings by perf: events in order of time or a clean error, in bounded time.
#include "merge/source/open_recording.h"
#include "tests/merge/source/read_mutations.h"
#include "tests/support/open_by_path.h"

namespace trapline::perf_data {
namespace {

using test::contents;
using test::data_path;
using test::Mutator;

#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kMutations = 100;
#else
constexpr std::uint64_t kMutations = 500;
#endif

class PerfDataMutations : public ::testing::TestWithParam<std::string> {};

TEST_P(PerfDataMutations, GiveEventsInOrderOrAnError) {
  const std::string whole = contents(data_path(GetParam()));
  const std::uint64_t size = whole.size();
  // The header, attrs, records and formats.
  Mutator mutator(whole, {0, 16, 104, 250, size / 8, size / 4, size / 2, size - 2000});
  const auto open = [](const std::string& path) { return open_perf_data(path); };
  const std::uint64_t opened =
      test::read_mutations(mutator, kMutations, open, [](Source&, const Event*) {});
  EXPECT_GT(opened, kMutations / 4);
}
INSTANTIATE_TEST_SUITE_P(All, PerfDataMutations,
                         ::testing::Values("perf/kvm-stat.perf.data", "perf/lost.perf.data",
                                           "perf/pipe.perf.data", "perf/zstd.perf.data"),
                         test::test_name);

}  // namespace
}  // namespace trapline::perf_data
