// Events of KVM from a source that is no trace.dat: the whole pipeline takes them.
#include <gmock/gmock.h>

#include "merge/pass/pass.h"
#include "merge/report/run.h"
#include "merge/source/timeline.h"
#include "tests/merge/analyze/events.h"
#include "tests/support/memory_source.h"

namespace trapline::test {
namespace {

Capabilities all_of_kvm() {
  Capabilities capabilities;
  capabilities.kvm_exit = capabilities.kvm_userspace_exit = capabilities.any_kvm =
      capabilities.run_ioctl = true;
  capabilities.sched_switch = true;
  return capabilities;
}

TEST(MemorySourceTest, ItsExitsAreReported) {
  Input input;
  input.capabilities = all_of_kvm();
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<MemorySource>(
      std::vector<Event>{
          entry(50),
          exit(100),
          to_user(150),
          switch_out(200, true),
          switch_in(230),
          run_ioctl(300),
          entry(400),
          exit(500, kSvmNpf),
          lost(0, 510, 590),  // another exit may be among it
          entry(600),
          exit(700),
          entry(710),
      },
      all_of_kvm()));
  Timeline timeline(std::move(sources));
  const ReportOptions options;
  Aggregator aggregator(input, options);
  Pipeline pipeline(pipeline_options(timeline, input), {&aggregator});
  Event event;
  while (timeline.next(event) == Read::kEvent) ASSERT_TRUE(pipeline.push(event));
  pipeline.finish();
  const ReportData report = aggregator.snapshot(Naming(timeline, pipeline));
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_EQ(report.rows[1].count(), 1u);  // cut by the loss
  EXPECT_EQ(report.rows[1].cut, 1u);
  const GroupRow& row = report.rows[0];
  EXPECT_EQ(row.key, "reason 123");
  EXPECT_EQ(row.total.count(), 2u);
  EXPECT_EQ(row.total.total(), 310u);
  EXPECT_EQ(row.parts[static_cast<std::size_t>(Part::kKernel)], 50u + 100u + 10u);
  EXPECT_EQ(row.parts[static_cast<std::size_t>(Part::kUser)], 120u);
  EXPECT_EQ(row.parts[static_cast<std::size_t>(Part::kPreempted)], 30u);
  EXPECT_EQ(report.counters.gaps, 1u);
  EXPECT_EQ(report.counters.exits.closed_by_loss, 1u);
  ASSERT_EQ(report.sources.size(), 1u);
  EXPECT_EQ(report.sources[0].kind, "memory");
}

}  // namespace
}  // namespace trapline::test
