#include "merge/analyze/placement_check.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

Event logged(std::uint64_t at, ThreadId thread = kVcpu0) {
  Event event = marker(at, "memory_region_ops_write cpu 0", thread);
  event.source = 1;
  return event;
}

std::unique_ptr<PlacementCheck> check_of(const std::vector<Event>& events, std::uint64_t error) {
  auto check = std::make_unique<PlacementCheck>(
      std::vector<std::optional<std::uint64_t>>{std::nullopt, error});
  Names names;
  VmmEventReader reader(names, nullptr);
  Threads threads(nullptr);
  ExitTracker exits({}, reader);
  for (const Event& event : events) {
    (void)exits.on(event, threads.on(event));
    check->on(event, exits);
  }
  return check;
}

TEST(PlacementCheck, AnEventInTheGuestsRunIsImpossibleBeyondTheError) {
  const auto with = [](std::uint64_t at, std::uint64_t error) {
    return check_of({exit(1000), entry(2000), logged(at), exit(3000)}, error)->impossible();
  };
  EXPECT_EQ(with(2500, 499), 1u);
  EXPECT_EQ(with(2500, 500), 0u);
  EXPECT_EQ(with(2001, 1), 0u);
  EXPECT_EQ(with(2002, 1), 1u);
  EXPECT_EQ(with(2999, 1), 0u);
  EXPECT_EQ(with(2998, 1), 1u);
}

TEST(PlacementCheck, SaysWhichEventLiesWhere) {
  const auto check = check_of({entry(2000), logged(2400), logged(2500), exit(3000)}, 10);
  ASSERT_TRUE(check->first());
  EXPECT_EQ(check->first()->source, 1);
  EXPECT_EQ(check->first()->thread, kVcpu0);
  EXPECT_EQ(check->first()->at.ns(), 2400u);
  EXPECT_EQ(check->first()->entry.ns(), 2000u);
  EXPECT_EQ(check->first()->exit.ns(), 3000u);
  EXPECT_EQ(check->impossible(), 2u);
}

TEST(PlacementCheck, JudgesOnlyWhatItCanKnow) {
  // Other threads, the kernel's own markers, before the first entry, around a loss, without an end.
  EXPECT_EQ(check_of({entry(2000), logged(2500, kOtherThread), exit(3000)}, 0)->placed(), 0u);
  EXPECT_EQ(check_of({entry(2000), marker(2500, "x"), exit(3000)}, 0)->placed(), 0u);
  EXPECT_EQ(check_of({exit(1000), logged(1500), entry(2000)}, 0)->impossible(), 0u);
  EXPECT_EQ(check_of({entry(2000), logged(2500), lost(0, 2600, 2700), exit(3000)}, 0)->impossible(),
            0u);
  EXPECT_EQ(check_of({entry(2000), logged(2500)}, 0)->impossible(), 0u);
}

TEST(PlacementCheck, AFewEventsContradictNothing) {
  std::vector<Event> events = {entry(100),  logged(150), exit(200),  entry(300),
                               logged(350), exit(400),   logged(450)};
  EXPECT_FALSE(check_of(events, 0)->contradicts());
  events.insert(events.end(), {entry(500), logged(550), exit(600)});
  EXPECT_TRUE(check_of(events, 0)->contradicts());
  for (std::uint64_t at = 0; at < 300; ++at) events.push_back(logged(700 + at));
  EXPECT_FALSE(check_of(events, 0)->contradicts()) << "less than one in a hundred";
}

// Whatever the exits: a log that is off by no more than the error is never refused; one that is off
// by more than error and exits together is, once it has events enough.
TEST(PlacementCheck, RefusesWrongRelationsAndNeverTrueOnes) {
  std::mt19937_64 random(20261122);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t error = 1 + random() % 5000;
    const std::uint64_t off = random() % (error + 1);
    const std::uint64_t wrong = 20'000'000 + random() % 1'000'000;
    std::vector<Event> kernel, right, shifted;
    std::uint64_t at = 100'000'000;
    for (int i = 0; i < 400; ++i) {
      kernel.push_back(exit(at));
      const std::uint64_t in_user = at + 1 + random() % 500;
      right.push_back(logged(in_user + off - error / 2 - (error % 2)));
      shifted.push_back(logged(in_user + wrong));
      at += 1000;
      kernel.push_back(entry(at));
      at += 50'000 + random() % 100'000;
    }
    const auto merged = [&kernel](std::vector<Event> log) {
      log.insert(log.begin(), kernel.begin(), kernel.end());
      std::stable_sort(log.begin(), log.end(),
                       [](const Event& a, const Event& b) { return a.at < b.at; });
      return log;
    };
    EXPECT_FALSE(check_of(merged(right), error)->contradicts()) << "round " << round;
    EXPECT_TRUE(check_of(merged(shifted), error)->contradicts()) << "round " << round;
  }
}

}  // namespace
}  // namespace trapline::test
