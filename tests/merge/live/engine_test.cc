#include "merge/live/engine.h"

#include <gtest/gtest.h>

#include "tests/support/memory_source.h"

namespace trapline::live {
namespace {

TEST(Engine, EventsAreCountedOnceWhereTheModelIsChosenAnew) {
  InputOptions recording;
  recording.paths = {TRAPLINE_TEST_DATA "/box/linux-irq.dat"};
  auto input = open_input(recording);
  ASSERT_TRUE(input);
  input->capabilities.kvm_exit = false;  // as a live source knows before its first exit
  EngineOptions options;
  options.by = {Dimension::kReason};
  options.interval_ns = 10'000'000;
  std::uint64_t events = 0;
  Engine engine(std::move(*input), options, [&](Frame&& frame) { events += frame.events; });
  while (engine.advance(Timestamp(~std::uint64_t{0}), 1u << 20) != Engine::State::kEnded) {
  }
  engine.finish();
  EXPECT_EQ(engine.model_changes(), 1u);
  EXPECT_EQ(events, engine.timeline().source(0).counters().events);
}

// The last time there is, where no frame can end any more.
TEST(Engine, TheEndOfTimeEnds) {
  constexpr std::uint64_t kEnd = ~std::uint64_t{0};
  for (const std::uint64_t interval_ns : {1'000'000'000ull, 1ull, 1ull << 63}) {
    auto source = std::make_unique<test::MemorySource>();
    for (const std::uint64_t at : {std::uint64_t{5}, kEnd - 1, kEnd, kEnd}) {
      Event event;
      event.at = Timestamp(at);
      source->add(event);
    }
    Input input;
    input.sources.push_back(std::move(source));
    EngineOptions options;
    options.interval_ns = interval_ns;
    std::uint64_t events = 0, frames = 0;
    Engine engine(std::move(input), options, [&](Frame&& frame) {
      events += frame.events;
      ++frames;
    });
    while (engine.advance(Timestamp(kEnd), 1u << 20) != Engine::State::kEnded && frames < 100'000) {
    }
    engine.finish();
    EXPECT_EQ(events, 4u);
    EXPECT_LT(frames, 100'000u);
  }
}

}  // namespace
}  // namespace trapline::live
