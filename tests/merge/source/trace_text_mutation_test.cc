// Damaged texts: events in order of time or a clean error, in bounded time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "merge/source/trace_text/trace_text_source.h"
#include "tests/merge/source/mutate.h"
#include "tests/merge/source/recordings.h"

namespace trapline::trace_text {
namespace {

using test::contents;
using test::data_path;
using test::Mutator;
using test::TemporaryFile;

#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kMutations = 100;
#else
constexpr std::uint64_t kMutations = 400;
#endif
constexpr std::size_t kLines = 600;
constexpr double kMostSeconds = 2;  // of processor time, one file

// The first lines of a recording, as trace-cmd prints them, and where each begins.
struct Printed {
  std::string text;
  std::vector<std::uint64_t> lines;
};
Printed printed(const std::string& recording, const std::string& form) {
  Printed as;
  as.text =
      test::output_of("trace-cmd report " + form + " -i " + data_path(recording) + " 2>/dev/null");
  std::size_t at = 0;
  for (; at < as.text.size() && as.lines.size() < kLines; at = as.text.find('\n', at) + 1)
    as.lines.push_back(at);
  as.text.resize(at);
  return as;
}

class TraceTextMutations : public ::testing::TestWithParam<std::string> {};

TEST_P(TraceTextMutations, GiveEventsInOrderOrAnError) {
  const TemporaryFile file("");
  for (const char* form : {"-t", "-R"}) {
    const Printed whole = printed(GetParam(), form);
    Mutator mutator(whole.text, whole.lines);
    std::uint64_t opened = 0;
    for (std::uint64_t seed = 0; seed < kMutations; ++seed) {
      file.write(mutator.mutated(seed));
      const std::clock_t begin = std::clock();
      auto source = open_trace_text(file.path());
      if (!source) {
        EXPECT_THAT(source.error().message, ::testing::HasSubstr(file.path()));
        continue;
      }
      ++opened;
      Timestamp last;
      for (Event event; (*source)->next(event) == Read::kEvent; last = event.at) {
        ASSERT_GE(event.at, last) << form << ", mutation " << seed;
        EXPECT_FALSE((*source)->event_name(event).empty());
        (void)(*source)->event_text(event);
      }
      ASSERT_TRUE((*source)->status());
      ASSERT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, kMostSeconds)
          << form << ", mutation " << seed;
    }
    EXPECT_GT(opened, kMutations * 9 / 10);
  }
}
INSTANTIATE_TEST_SUITE_P(All, TraceTextMutations,
                         ::testing::Values("box/demo-ioctl.dat", "box/demo-arm64.dat",
                                           "svm-2vcpu-lost.dat", "riscv64/linux.dat",
                                           "vmx/demo-7.3.dat"),
                         test::test_name);

}  // namespace
}  // namespace trapline::trace_text
