#include "merge/analyze/kernel_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <optional>

#include "merge/analyze/pipeline.h"
#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr std::uint64_t kKernelMark = ~std::uint64_t{127}, kUserMark = ~std::uint64_t{511};

// Functions are a hundred bytes long: "f7" is from 700 to 799.
std::string symbol(std::uint64_t address) {
  return address < 100 ? std::string() : "f" + std::to_string(address / 100);
}

// "f1;f2;f3", the innermost last, and how many.
class Samples : public SpanSink {
 public:
  using Stacks = std::vector<std::pair<std::string, std::uint32_t>>;

  SpanClass selects() const override { return SpanClass::kExits | SpanClass::kKernelSamples; }
  void exit(const ExitSpan&, const Pipeline& pipeline) override {
    Stacks stacks;
    for (const SampleShare& share : pipeline.samples()->shares()) {
      std::string text;
      for (KernelStackId at = share.stack; at != 0; at = pipeline.samples()->frame(at).parent) {
        const std::string name(pipeline.names()[pipeline.samples()->frame(at).name]);
        text = text.empty() ? name : name + ";" + text;
      }
      stacks.emplace_back(text, share.sum.samples);
    }
    exits.push_back(std::move(stacks));
  }
  std::vector<Stacks> exits;
};

class KernelSamplesTest : public testing::Test {
 protected:
  Event sample(std::uint64_t at, std::vector<std::uint64_t> chain, ThreadId thread = kVcpu0,
               KernelSample::Mode mode = KernelSample::Mode::kKernel) {
    const std::uint64_t address = chain.size() > 1 ? chain[1] : chain[0];
    chains_.push_back(std::move(chain));
    const std::span<const std::byte> bytes = std::as_bytes(std::span(chains_.back()));
    return make(at, 0, thread,
                KernelSample{mode, true, address, bytes.size() > 8 ? bytes : bytes.first(0)});
  }
  void play(std::initializer_list<Event> events) {
    PipelineOptions options;
    options.model.sched_switch = options.model.userspace_exits = true;
    options.model.user_end = UserEnd::kIoctl;
    options.kernel_symbol = symbol;
    pipeline_.emplace(std::move(options), std::vector<SpanSink*>{&sink_});
    for (const Event& event : events) (void)pipeline_->push(event);
    pipeline_->finish();
  }
  SampleCounters counters() const { return pipeline_->samples()->counters(); }

  std::deque<std::vector<std::uint64_t>> chains_;
  Samples sink_;
  const std::vector<Samples::Stacks>& exits_ = sink_.exits;
  std::optional<Pipeline> pipeline_;
};

TEST_F(KernelSamplesTest, AStackIsOfTheExitInWhoseKernelPartItWasTaken) {
  play({exit(100), sample(110, {kKernelMark, 310, 250, 150}),
        sample(120, {kKernelMark, 310, 250, 150}), sample(130, {kKernelMark, 290, 150}),
        entry(150)});
  EXPECT_THAT(exits_, ElementsAre(ElementsAre(Pair("f1;f2;f3", 2), Pair("f1;f2", 1))));
  EXPECT_EQ(counters().kernel, 3u);
  EXPECT_TRUE(pipeline_->samples()->by_timer());
}

TEST_F(KernelSamplesTest, ACallersAddressIsTheOneAfterItsCall) {
  // The call is the last instruction of f2: it returns to where f3 begins.
  play({exit(100), sample(110, {kKernelMark, 400, 300}), entry(150)});
  EXPECT_THAT(exits_, ElementsAre(ElementsAre(Pair("f2;f4", 1))));
}

TEST_F(KernelSamplesTest, UserFramesAndUnknownAddressesNameNoFunction) {
  play({exit(100), sample(110, {kKernelMark, 400, kUserMark, 900}), sample(120, {kKernelMark, 50}),
        sample(130, {510}), entry(150)});
  EXPECT_THAT(exits_, ElementsAre(ElementsAre(Pair("f4", 1), Pair("[unknown]", 1), Pair("f5", 1))));
}

TEST_F(KernelSamplesTest, TheEdgesOfAnExitAreItsBeginAndNotItsEnd) {
  play({exit(100), sample(100, {110}), entry(150), sample(150, {210}), exit(200), entry(250)});
  EXPECT_THAT(exits_, ElementsAre(ElementsAre(Pair("f1", 1)), IsEmpty()));
  EXPECT_EQ(counters().outside, 1u);
}

TEST_F(KernelSamplesTest, OtherPartsAndTheTimeBetweenExitsAreCountedApart) {
  play({exit(100), sample(110, {110}), to_user(120), sample(130, {210}), run_ioctl(180),
        sample(190, {310}), entry(200), sample(210, {410}), exit(220), entry(230)});
  EXPECT_THAT(exits_, ElementsAre(ElementsAre(Pair("f1", 1), Pair("f3", 1)), IsEmpty()));
  EXPECT_EQ(counters().elsewhere, 1u);
  EXPECT_EQ(counters().outside, 1u);
  EXPECT_EQ(counters().all(), 4u);
}

TEST_F(KernelSamplesTest, SamplesOfAGuestAndOfOtherThreadsNameNothing) {
  play({exit(100), sample(110, {110}, kVcpu0, KernelSample::Mode::kGuest),
        sample(120, {110}, kOtherThread), sample(130, {110}, kVcpu0, KernelSample::Mode::kOther),
        entry(150)});
  EXPECT_THAT(exits_, ElementsAre(IsEmpty()));
  EXPECT_EQ(counters().guest, 1u);
  EXPECT_EQ(counters().others, 1u);
  EXPECT_EQ(counters().outside, 1u);
  EXPECT_EQ(counters().kernel, 0u);
}

TEST_F(KernelSamplesTest, AnExitThatALossCutKeepsNoSampleForTheNextOne) {
  play({exit(100), sample(110, {110}), lost(0, 120, 130), exit(200), entry(250)});
  EXPECT_THAT(exits_, ElementsAre(IsEmpty()));
  EXPECT_EQ(counters().outside, 1u);
}

TEST_F(KernelSamplesTest, SamplesAreNoPartOfTheRecordedTime) {
  play({sample(10, {110}), exit(100), entry(150), sample(900, {110})});
  EXPECT_EQ(pipeline_->begin()->ns(), 100u);
  EXPECT_EQ(pipeline_->end().ns(), 150u);
}

TEST_F(KernelSamplesTest, AThreadWithoutExitsKeepsFewSamples) {
  std::vector<Event> events;
  PipelineOptions options;
  options.kernel_symbol = symbol;
  pipeline_.emplace(std::move(options), std::vector<SpanSink*>{&sink_});
  for (std::uint64_t i = 0; i < 3 * KernelSamples::kMostOfOthers; ++i)
    (void)pipeline_->push(sample(i, {110}, kOtherThread));
  EXPECT_EQ(counters().others, 3 * KernelSamples::kMostOfOthers);
}

}  // namespace
}  // namespace trapline::test
