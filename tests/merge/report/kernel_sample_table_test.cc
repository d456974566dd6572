#include "merge/report/kernel_sample_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "merge/pass/pass.h"
#include "merge/report/aggregator.h"
#include "merge/source/timeline.h"
#include "tests/merge/analyze/events.h"
#include "tests/support/memory_source.h"

namespace trapline::test {
namespace {

// By hand, and as R's binom::binom.wilson has them.
TEST(SampledTimeTest, AnIntervalIsWilsons) {
  const SampledTime half = sampled_time(5, 10, 1'000'000);
  EXPECT_EQ(half.ns, 500'000u);
  EXPECT_NEAR(static_cast<double>(half.low_ns), 236'593, 1);
  EXPECT_NEAR(static_cast<double>(half.high_ns), 763'407, 1);
  const SampledTime none = sampled_time(0, 10, 1'000'000);
  EXPECT_EQ(none.low_ns, 0u);
  EXPECT_NEAR(static_cast<double>(none.high_ns), 277'533, 1);
  const SampledTime all = sampled_time(10, 10, 1'000'000);
  EXPECT_NEAR(static_cast<double>(all.low_ns), 722'467, 1);
  EXPECT_EQ(all.high_ns, 1'000'000u);
}

TEST(SampledTimeTest, ATimeOfNoSamplesIsNotKnown) {
  EXPECT_EQ(sampled_time(0, 0, 1000).high_ns, 0u);
  EXPECT_EQ(sampled_time(1, 1, 0).high_ns, 0u);
}

// Of kVcpu0 there are samples, of kVcpu1 none: those say nothing of its time.
TEST(KernelSampleTableTest, TheTimeOfAThreadThatWasNotSampledIsARowOfItsOwn) {
  Input input;
  input.capabilities.kvm_exit = input.capabilities.kvm_userspace_exit = input.capabilities.any_kvm =
      input.capabilities.run_ioctl = true;
  const auto sample = [](std::uint64_t at) {
    return make(at, 0, kVcpu0, KernelSample{KernelSample::Mode::kKernel, true, 1, {}});
  };
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<MemorySource>(
      std::vector<Event>{exit(100), sample(110), entry(150), exit(160, kSvmIo, kVcpu1, 1),
                         entry(190, kVcpu1, 1), exit(200, kSvmNpf), entry(220), exit(300),
                         sample(310), entry(350)},
      input.capabilities));
  Timeline timeline(std::move(sources));
  ReportOptions options;
  options.kernel_samples = true;
  Aggregator aggregator(input, options);
  Pipeline pipeline(pipeline_options(timeline, input), {&aggregator});
  Event event;
  while (timeline.next(event) == Read::kEvent) ASSERT_TRUE(pipeline.push(event));
  pipeline.finish();
  const Report report = aggregator.snapshot(Naming(timeline, pipeline));
  ASSERT_TRUE(report.kernel_samples);
  std::vector<std::tuple<std::string, std::string, std::uint64_t, std::uint64_t>> rows;
  for (const KernelSampleRow& row : report.kernel_samples->rows)
    rows.emplace_back(row.reason, row.function, row.own.samples, row.own.ns);
  EXPECT_THAT(rows, testing::ElementsAre(std::tuple("reason 123", "[unknown]", 2, 100),
                                         std::tuple("reason 123", "not sampled", 0, 30),
                                         std::tuple("reason 1024", "not sampled", 0, 20)));
  EXPECT_EQ(report.kernel_samples->total_ns, 150u);
  EXPECT_EQ(report.kernel_samples->not_sampled_ns, 50u);
}

}  // namespace
}  // namespace trapline::test
