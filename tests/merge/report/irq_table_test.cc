// Between which events the times of interrupts lie.
#include "merge/report/irqs.h"

#include <gmock/gmock.h>

#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string stages_of(std::initializer_list<IrqStep> steps) {
  IrqTracker tracker;
  std::uint64_t at = 0;
  for (const IrqStep step : steps)
    (void)tracker.on(make(at += 10, 0, kVcpu0, KvmIrq{step, true, 4, 0x24, 0}), {}, ThreadId{1});
  return irq_stages(tracker);
}

TEST(IrqTableTest, AStageIsToldByTheEventsThatCame) {
  const std::string apic =
      stages_of({IrqStep::kMsi, IrqStep::kAccept, IrqStep::kInject, IrqStep::kEoi});
  EXPECT_THAT(apic, HasSubstr("inject: from kvm_msi_set_irq, kvm_apic_accept_irq (local) to "));
  EXPECT_THAT(apic, HasSubstr("eoi: from the injection to kvm_eoi."));
  const std::string pic =
      stages_of({IrqStep::kLine, IrqStep::kPic, IrqStep::kInject, IrqStep::kPicEnd});
  EXPECT_THAT(pic, HasSubstr("inject: from kvm_set_irq to kvm_inj_virq"));
  EXPECT_THAT(pic, HasSubstr("eoi: from the injection to kvm_ack_irq."));
}

TEST(IrqTableTest, OnArm64TheEntryAloneIsTold) {
  const std::string gic = stages_of({IrqStep::kPending});
  EXPECT_EQ(gic, "entry: from vgic_update_irq_pending to the vCPU's next kvm_entry.");
  EXPECT_THAT(gic, Not(HasSubstr("eoi")));
}

}  // namespace
}  // namespace trapline::test
