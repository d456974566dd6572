// What is found before the result is read, against a plain pass over the same recording.
#include "merge/pass/first_look.h"

#include <gmock/gmock.h>

#include "merge/pass/pass.h"
#include "merge/pass/vcpu_names.h"

namespace trapline::test {
namespace {

const std::string kData = TRAPLINE_TEST_DATA "/";

class Longest final : public SpanSink {
 public:
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kExits; }
  void exit(const ExitSpan& exit, const Pipeline&) override {
    ExitSpan& of = longest[exit.thread];
    if (!exit.halt && exit.total() > of.total()) of = exit;
  }
  std::map<ThreadId, ExitSpan> longest;
};

struct Expected {
  std::vector<VcpuThread> threads;
  std::map<ThreadId, ExitSpan> longest;
};

Expected read_whole(const InputOptions& options) {
  PassOptions what;
  what.input = options;
  auto pass = Pass::open(what, {});
  EXPECT_TRUE(pass) << pass.error().message;
  Longest longest;
  EXPECT_TRUE(pass->run({&longest}, {}));
  return {vcpu_threads(pass->pipeline().vcpus(), pass->timeline()), longest.longest};
}

class FirstLookTest : public testing::TestWithParam<const char*> {};

TEST_P(FirstLookTest, FindsInThePassForEvidenceWhatAWholeReadingFinds) {
  InputOptions options;
  options.paths = {kData + GetParam()};
  const Expected expected = read_whole(options);
  ASSERT_FALSE(expected.threads.empty());
  for (const VcpuThread& thread : expected.threads) {
    if (thread.vcpu == kNoVcpu) continue;
    const auto opened = open_and_look(options, {{thread.vcpu, {}}, true}, {});
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_TRUE(opened->input.observed) << "it cost a pass of its own";
    EXPECT_EQ(opened->found.threads, std::set<ThreadId>{thread.thread});
    const ExitSpan& longest = expected.longest.at(thread.thread);
    ASSERT_TRUE(opened->found.longest);
    EXPECT_EQ(opened->found.longest->start, longest.start);
    EXPECT_EQ(opened->found.longest->end, longest.end);
  }
}
INSTANTIATE_TEST_SUITE_P(Recordings, FirstLookTest,
                         testing::Values("svm-mono.dat", "svm-linux-2vcpu.dat",
                                         "svm-2vcpu-lost.dat", "arm64/kvm-arm64-linux.dat"));

TEST(FirstLook, SaysWhatThereIsWhereNothingMatches) {
  InputOptions options;
  options.paths = {kData + "svm-linux-2vcpu.dat"};
  const auto opened = open_and_look(options, {{7, {}}}, {});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(opened.error().message, testing::HasSubstr("the vCPUs 0, 1"));
}

TEST(FirstLook, WithoutAWishLooksAtNothing) {
  InputOptions options;
  options.paths = {kData + "svm-mono.dat"};
  const auto opened = open_and_look(options, {}, {});
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_FALSE(opened->input.observed);
  EXPECT_FALSE(opened->found.threads);
  EXPECT_FALSE(opened->found.longest);
}

}  // namespace
}  // namespace trapline::test
