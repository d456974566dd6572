// What is found before the result is read, against a plain pass over the same recording.
#include "merge/pass/first_look.h"

#include <gmock/gmock.h>

#include "merge/pass/naming.h"
#include "merge/pass/pass.h"

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
  const auto end = std::move(*pass).run({&longest}, {});
  EXPECT_TRUE(end);
  return {vcpu_threads(end->pipeline().vcpus(), end->timeline()), longest.longest};
}

// Whether those that are handed out are among the chosen.
class Chosen final : public SpanSink {
 public:
  explicit Chosen(const ChosenExits& all) : all_(all) {}
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kExits; }
  void exit(const ExitSpan& exit, const Pipeline&) override {
    ++exits;
    missing += all_.contains(exit.thread, exit.start) ? 0u : 1u;
  }
  std::uint64_t exits = 0, missing = 0;

 private:
  const ChosenExits& all_;
};

class FirstLookTest : public testing::TestWithParam<const char*> {};

TEST_P(FirstLookTest, FindsInThePassForEvidenceWhatAWholeReadingFinds) {
  InputOptions options;
  options.paths = {kData + GetParam()};
  const Expected expected = read_whole(options);
  ASSERT_FALSE(expected.threads.empty());
  for (const VcpuThread& thread : expected.threads) {
    if (thread.vcpu == kNoVcpu) continue;
    const auto opened = open_and_look(options, {.vcpus = {thread.vcpu, {}}, .longest = true}, {});
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
  const auto opened = open_and_look(options, {.vcpus = {7, {}}}, {});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(opened.error().message, "--vcpu 7: no such vCPU is in the recording; there are 0, 1");
}

TEST(FirstLook, ChoosesTheExitsOfAReasonInThePassForEvidenceOthersInOneOfItsOwn) {
  InputOptions options;
  options.paths = {kData + "svm-mono.dat"};
  for (const ExitFilter& filter : {ExitFilter{.reason = "io"}, ExitFilter{.detail = "port *"}}) {
    const auto opened = open_and_look(options, {.vcpus = {}, .exits = filter, .chosen = true}, {});
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(opened->input.observed, filter.detail.empty());
    PassOptions what;
    what.input = options;
    what.which.exits = filter;
    auto pass = Pass::open(what, {});
    ASSERT_TRUE(pass);
    Chosen chosen(opened->found.chosen);
    ASSERT_TRUE(std::move(*pass).run({&chosen}, {}));
    EXPECT_GT(chosen.exits, 100u);
    EXPECT_EQ(chosen.missing, 0u);
  }
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
