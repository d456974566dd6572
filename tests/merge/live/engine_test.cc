#include "merge/live/engine.h"

#include <gtest/gtest.h>

namespace trapline::live {
namespace {

TEST(Engine, EventsAreCountedOnceWhereTheModelIsChosenAnew) {
  InputOptions recording;
  recording.paths = {TRAPLINE_TEST_DATA "/box/linux-irq.dat"};
  auto input = open_input(recording);
  ASSERT_TRUE(input);
  input->capabilities.kvm_exit = false;  // as a live source knows before its first exit
  EngineOptions options;
  options.frames.by = {Dimension::kReason};
  options.interval_ns = 10'000'000;
  std::uint64_t events = 0;
  Engine engine(std::move(*input), options, [&](Frame&& frame) { events += frame.events; });
  while (engine.advance(Timestamp(~std::uint64_t{0}), 1u << 20) != Engine::State::kEnded) {
  }
  engine.finish();
  EXPECT_EQ(engine.model_changes(), 1u);
  EXPECT_EQ(events, engine.timeline().source(0).counters().events);
}

}  // namespace
}  // namespace trapline::live
