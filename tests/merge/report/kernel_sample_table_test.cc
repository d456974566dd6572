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

SampleSum sum(std::uint64_t samples) {
  return {samples, static_cast<double>(samples), static_cast<double>(samples)};
}

// By hand, and as R's binom::binom.wilson has them.
TEST(SampledTimeTest, AnIntervalIsWilsons) {
  const auto time = [](std::uint64_t part, std::uint64_t all, std::uint64_t ns) {
    return sampled_time(sum(part), sum(all), ns);
  };
  const SampledTime half = time(5, 10, 1'000'000);
  EXPECT_EQ(half.ns, 500'000u);
  EXPECT_NEAR(static_cast<double>(*half.low_ns), 236'593, 1);
  EXPECT_NEAR(static_cast<double>(*half.high_ns), 763'407, 1);
  const SampledTime none = time(0, 10, 1'000'000);
  EXPECT_EQ(none.low_ns, 0u);
  EXPECT_NEAR(static_cast<double>(*none.high_ns), 277'533, 1);
  const SampledTime all = time(10, 10, 1'000'000);
  EXPECT_NEAR(static_cast<double>(*all.low_ns), 722'467, 1);
  EXPECT_EQ(all.high_ns, 1'000'000u);
}

TEST(SampledTimeTest, ATimeOfNoSamplesIsNotKnown) {
  EXPECT_EQ(sampled_time(sum(0), sum(0), 1000).high_ns, std::nullopt);
  EXPECT_EQ(sampled_time(sum(1), sum(1), 0).high_ns, 0u);
}

// perf adapts the period of a counter: one sample may stand for as much as a hundred others.
TEST(SampledTimeTest, ASampleCountsByItsPeriod) {
  const SampleSum one{1, 100, 10'000}, others{100, 100, 100};
  const SampleSum all{101, 200, 10'100};
  EXPECT_EQ(sampled_time(one, all, 1000).ns, 500u);
  EXPECT_EQ(sampled_time(others, all, 1000).ns, 500u);
  // Worth four samples of equal periods, nearly.
  EXPECT_LT(*sampled_time(one, all, 1000).low_ns, 160u);
  EXPECT_GT(*sampled_time(one, all, 1000).high_ns, 840u);
}

// Half of the whole has no sample: that is all other code's, or this part's as much as the rest is.
TEST(SampledTimeTest, TimeWithoutSamplesIsBetweenItsEnds) {
  const SampledTime time = sampled_time(sum(50), sum(100), 1'000'000, 500'000);
  EXPECT_EQ(time.ns, 250'000u);
  EXPECT_EQ(time.low_ns, sampled_time(sum(50), sum(200), 1'000'000).low_ns);
  EXPECT_EQ(time.high_ns, sampled_time(sum(50), sum(100), 1'000'000).high_ns);
  const SampledTime all = sampled_time(sum(50), sum(100), 1'000'000);
  EXPECT_EQ(all.ns, 500'000u);
  EXPECT_EQ(sampled_time(sum(50), sum(100), 1000, 1000).ns, 0u);
}

using Rows = std::vector<std::tuple<std::string, std::string, std::uint64_t, std::uint64_t>>;

// Of kVcpu0 there are samples, up to its last exit, of kVcpu1 none: those say nothing of its time.
KernelSampleReport report_of(bool by_timer, std::uint64_t period) {
  Input input;
  input.capabilities.kvm_exit = input.capabilities.kvm_userspace_exit = input.capabilities.any_kvm =
      input.capabilities.run_ioctl = true;
  const auto sample = [&](std::uint64_t at) {
    return make(at, 0, kVcpu0, KernelSample{KernelSample::Mode::kKernel, by_timer, 1, {}, period});
  };
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<MemorySource>(
      std::vector<Event>{sample(90), exit(100), sample(110), entry(150),
                         exit(160, kSvmIo, kVcpu1, 1), entry(190, kVcpu1, 1), exit(200, kSvmNpf),
                         entry(220), exit(300), sample(310), entry(350), exit(400), entry(430)},
      input.capabilities));
  Timeline timeline(std::move(sources));
  ReportOptions options;
  options.kernel_samples = true;
  Aggregator aggregator(input, options);
  Pipeline pipeline(pipeline_options(timeline, input), {&aggregator});
  Event event;
  while (timeline.next(event) == Read::kEvent) EXPECT_TRUE(pipeline.push(event));
  pipeline.finish();
  const Report report = aggregator.snapshot(Naming(timeline, pipeline));
  return report.kernel_samples.value_or(KernelSampleReport());
}

Rows rows_of(const KernelSampleReport& report) {
  Rows rows;
  for (const KernelSampleRow& row : report.rows)
    rows.emplace_back(row.reason, row.function, row.own.samples, row.own.ns);
  return rows;
}

TEST(KernelSampleTableTest, TimeThatWasNotSampledIsARowOfItsOwn) {
  const KernelSampleReport report = report_of(false, 1);
  EXPECT_THAT(rows_of(report),
              testing::ElementsAre(std::tuple("reason 123", "[unknown]", 2, 100),
                                   std::tuple("reason 123", "not sampled", 0, 60),
                                   std::tuple("reason 1024", "not sampled", 0, 20)));
  EXPECT_EQ(report.total_ns, 180u);
  EXPECT_EQ(report.not_sampled_ns, 80u);
}

TEST(KernelSampleTableTest, ATimersSampleStandsForItsPeriodAndNoMore) {
  const KernelSampleReport report = report_of(true, 30);
  EXPECT_THAT(rows_of(report),
              testing::ElementsAre(std::tuple("reason 123", "not sampled", 0, 100),
                                   std::tuple("reason 123", "[unknown]", 2, 60),
                                   std::tuple("reason 1024", "not sampled", 0, 20)));
  EXPECT_EQ(report.total_ns, 180u);
  EXPECT_EQ(report.not_sampled_ns, 120u);
  EXPECT_EQ(report.rows[1].own.high_ns, 100u);
  // Late ones may stand for more than there was.
  EXPECT_THAT(rows_of(report_of(true, 1000)),
              testing::Contains(std::tuple("reason 123", "[unknown]", 2, 100)));
}

}  // namespace
}  // namespace trapline::test
