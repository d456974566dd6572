#include "merge/analyze/halts.h"

#include <gtest/gtest.h>

#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

constexpr Halt slept(std::uint64_t wake, std::uint64_t late = 5'000) {
  return {wake, late, true, false};
}

TEST(HaltReplay, ALongHaltShrinksTheInterval) {
  HaltReplay to_zero(200'000, 0), to_half(200'000, 2);
  for (HaltReplay* replay : {&to_zero, &to_half}) {
    for (int i = 0; i < 4; ++i) replay->add(slept(100'000));  // 0, 10, 20, 40 µs
    replay->add(slept(1'000'000));                            // 80 µs are lost
    replay->add(slept(30'000));
  }
  EXPECT_EQ(to_zero.row().won, 0u);
  EXPECT_EQ(to_zero.row().polling_ns, 150'000u);
  EXPECT_EQ(to_half.row().won, 1u);
  EXPECT_EQ(to_half.row().polling_ns, 180'000u);
}

TEST(HaltReplay, APollThatASmallerSettingLosesCostsATypicalWakeUp) {
  HaltReplays replays;
  replays.add(slept(1'000'000, 7'000));
  replays.add({40'000, 0, false, false});
  const HaltReplays::Rows rows = replays.rows(false);
  EXPECT_EQ(rows[0].halt_poll_ns, 0u);
  EXPECT_EQ(rows[0].late_ns, 14'000u);
  EXPECT_EQ(replays.late_ns(), 7'000u);
}

TEST(HaltReplays, LearnsHowTheKernelShrinks) {
  HaltReplays zeroes, halves;
  zeroes.on_change(40'000, 0);
  halves.on_change(40'000, 20'000);
  EXPECT_FALSE(zeroes.halves());
  EXPECT_TRUE(zeroes.saw_shrinking());
  EXPECT_TRUE(halves.halves());
  HaltReplays either;  // both ways lead to 0
  either.on_change(10'000, 0);
  EXPECT_FALSE(either.saw_shrinking());
}

class HaltCostTest : public testing::Test {
 protected:
  void play(std::initializer_list<Event> events) {
    for (const Event& event : events) tracker_.on(event, threads_.on(event), nullptr);
  }
  static Event end(std::uint64_t at, std::uint64_t ns, bool waited) {
    return make(at, 0, kVcpu0, KvmVcpuWakeup{ns, waited, true});
  }
  static Event interval(std::uint64_t at, std::uint32_t now, std::uint32_t before) {
    return make(at, 0, kVcpu0, KvmHaltPoll{now, before});
  }
  [[nodiscard]] const HaltTracker::Thread& vcpu() const { return *tracker_.find(kVcpu0); }
  Processes processes_;
  Threads threads_{&processes_};
  HaltTracker tracker_;
};

TEST_F(HaltCostTest, AFirstChangeFromZeroTellsThatNothingPolledBefore) {
  play({exit(900, kSvmHlt), end(1'900, 900, false), exit(2'000, kSvmHlt), interval(2'990, 500, 0),
        end(3'000, 800, true)});
  EXPECT_EQ(vcpu().polling_at_most_ns, 0u);
  EXPECT_EQ(vcpu().polling_ns, 0u);
  EXPECT_EQ(vcpu().halts_bounded, 0u);
}

}  // namespace
}  // namespace trapline::test
