// Random hosts with random guests, clocks, ways of evidence, and evidence that is wrong: where a
// guest's recording is aligned, the true relation is inside the printed error at every time; else
// it is refused. Times and relations are known here, align_guest() sees what a recording would
// show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>

#include "merge/session/guest_alignment.h"
#include "tests/support/memory_source.h"
#include "tests/support/source_clock.h"

namespace trapline {
namespace {

constexpr std::uint64_t kFirst = 100'000'000'000;  // of the host's mono
constexpr std::uint64_t kRealMinusMono = 1'700'000'000'000'000'000;

struct Guest {
  ThreadId thread{};
  double rate = 1;          // of its mono beside the host's
  std::uint64_t began = 0;  // the host's time at its zero
  std::uint64_t tsc_offset = 0;
  std::vector<GuestSyncLine> exits, readings, ptp;
  std::vector<std::uint64_t> ran;  // the host's times of its records
  [[nodiscard]] std::uint64_t mono(std::uint64_t host) const {
    return static_cast<std::uint64_t>(std::floor(static_cast<long double>(host - began) * rate));
  }
  [[nodiscard]] std::uint64_t tsc(std::uint64_t host) const { return host * 2 + tsc_offset; }
};

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {
    const std::size_t count = 1 + random_() % 3;
    for (std::size_t i = 0; i < count; ++i) {
      Guest guest;
      guest.thread = ThreadId{static_cast<std::int32_t>(100 + 10 * i)};
      guest.rate = 1 + (static_cast<double>(random_() % 400) - 200) * 1e-6;
      guest.began = kFirst - random_() % 90'000'000'000;
      guest.tsc_offset = std::uint64_t{0} - random_() % 1'000'000'000'000;
      guests_.push_back(guest);
      run(guests_.back(), static_cast<std::uint32_t>(i));
    }
    host_syncs();
    std::ranges::stable_sort(events_, {}, &Event::at);
  }

  std::uint64_t below(std::uint64_t most) { return random_() % most; }
  std::vector<Guest>& guests() { return guests_; }
  std::vector<Event>& events() { return events_; }

 private:
  void event(const Guest& guest, std::uint64_t at, Payload payload) {
    Event event;
    event.at = Timestamp(at);
    event.thread = guest.thread;
    event.payload = payload;
    events_.push_back(event);
  }
  // Runs, leaves, and so on; says who and when it is now and then.
  void run(Guest& guest, std::uint32_t number) {
    event(guest, kFirst - 1'000, KvmTscOffset{guest.tsc_offset});
    std::uint64_t now = kFirst + below(1'000'000);
    event(guest, now, KvmEntry{0});
    for (std::uint32_t round = 0; round < 3; ++round) {
      const std::uint32_t series = number * 100 + round * 10 + 7;
      for (std::uint32_t i = 0; i <= 8; ++i) series_step(guest, series, i, now);
      for (int i = 0; i < 60; ++i) {
        guest.ran.push_back(now += 500 + below(20'000));
        now += 500;
        leave(guest, now, std::nullopt);
      }
      now += 500'000'000 + below(3'000'000'000);
      leave(guest, now, std::nullopt);
    }
  }
  void leave(const Guest& guest, std::uint64_t& now, std::optional<std::uint32_t> value) {
    event(guest, now += 300 + below(1'000), KvmExit{0, 2, 0, 0, 0x1000});
    if (value) {
      event(guest, now += 100, KvmDetail{0x80, *value, DetailKind::kPort, Access::kWrite, false});
    }
    event(guest, now += 1'000 + below(30'000), KvmEntry{0});
  }
  void series_step(Guest& guest, std::uint32_t series, std::uint32_t i, std::uint64_t& now) {
    const auto line = [&](std::uint32_t way, auto&& action) {
      GuestSyncRecord record;
      record.series = series + way;
      record.index = i;
      if (i > 0) record.after = last_[way];
      if (i < 8) {
        now += 200 + below(300);
        record.before = reading(guest, now);
        action(record);
        now += 200 + below(300);
        last_[way] = reading(guest, now);
      }
      return GuestSyncLine{std::nullopt, record};
    };
    guest.exits.push_back(line(0, [&](GuestSyncRecord& record) {
      record.write = GuestWrite{false, 0x80, series * 256 + i};
      record.before->counter = 0;
      leave(guest, now, record.write->value);
    }));
    guest.readings.push_back(line(1, [](const GuestSyncRecord&) {}));
    guest.ptp.push_back(line(2, [&](GuestSyncRecord& record) {
      now += below(300);
      record.before->counter = 0;
      record.ptp = PtpReading{now + kRealMinusMono, 1, 1};
    }));
  }
  GuestReading reading(const Guest& guest, std::uint64_t now) const {
    return {guest.mono(now), guest.tsc(now + 20)};
  }
  // The recorder's own.
  void host_syncs() {
    for (std::uint32_t i = 0; i <= 16; ++i) {
      const std::uint64_t now = kFirst - 2'000'000 + i * 900'000'000ULL;
      const auto readings = [](const char* word, std::uint64_t at) {
        return fmt::format(" {} mono={} real={} tsc={}", word, at, at + kRealMinusMono, at * 2);
      };
      const std::uint64_t before = now - below(400), after = now - 900'000'000 + 1 + below(400);
      std::string text = fmt::format("trapline: sync 1 5 {}", i);
      if (i < 16) text += readings("before", before);
      if (i > 0) text += readings("after", after);
      texts_.push_back(std::move(text));
      Event marker;
      marker.at = Timestamp(now);
      marker.thread = ThreadId{7};
      marker.payload = Marker{texts_.back()};
      events_.push_back(marker);
    }
  }

  std::mt19937_64 random_;
  std::vector<Guest> guests_;
  std::vector<Event> events_;
  std::deque<std::string> texts_;
  GuestReading last_[3];
};

// What is wrong with the evidence.
enum class Wrong {
  kNothing,
  kOthersSeries,
  kOthersRecords,
  kOthersTsc,
  kPtp,
  kBoot,
  kLate,
  kUnseen,
  kLast
};
// What tells of some of them.
const std::map<Wrong, const char*> kSaid = {
    {Wrong::kPtp, "PTP, which contradicts, is left out"},
    {Wrong::kBoot, "contradict each other, or a clock was set"},
    {Wrong::kLate, "its vCPU left the guest at [0-9.]+ and went back at [0-9.]+"},
    {Wrong::kUnseen, "has nothing of what `trapline sync` did in the guest"}};

GuestRecording recording_of(const Guest& guest, World& world) {
  GuestRecording made;
  made.clock = "mono";
  made.inside = true;
  const std::uint64_t ways = 1 + world.below(7);
  for (const auto& [bit, lines] :
       {std::pair{1, &guest.exits}, std::pair{2, &guest.readings}, std::pair{4, &guest.ptp}}) {
    if ((ways & static_cast<std::uint64_t>(bit)) != 0)
      made.syncs.insert(made.syncs.end(), lines->begin(), lines->end());
  }
  TimeSample sample;
  for (const std::uint64_t at : guest.ran) sample.add(0, guest.mono(at));
  made.times = sample.take();
  return made;
}

void falsify(GuestRecording& made, Wrong wrong, const Guest& other, World& world) {
  if (wrong == Wrong::kOthersSeries) {
    const auto& more = world.below(2) == 0 ? other.readings : other.exits;
    made.syncs.insert(made.syncs.end(), more.begin(), more.end());
  } else if (wrong == Wrong::kOthersTsc) {
    made.syncs = other.readings;
  } else if (wrong == Wrong::kOthersRecords) {
    TimeSample sample;
    for (const std::uint64_t at : other.ran) sample.add(0, other.mono(at));
    made.times = sample.take();
  } else if (wrong == Wrong::kPtp) {
    for (GuestSyncLine& line : made.syncs)
      if (line.record.ptp) line.record.ptp->host_real += 3'000'000;
  } else if (wrong == Wrong::kBoot) {
    const std::uint64_t by = 50'000'000 + world.below(1'000'000'000);
    for (std::size_t i = made.syncs.size() / 2; i < made.syncs.size(); ++i)
      for (auto* reading : {&made.syncs[i].record.before, &made.syncs[i].record.after})
        if (*reading) (*reading)->clock += by;
  } else if (wrong == Wrong::kLate) {
    for (auto& [cpu, times] : made.times)
      for (std::uint64_t& time : times) time += 30'000;
  } else if (wrong == Wrong::kUnseen) {
    made.syncs = other.exits;
    std::erase_if(world.events(),
                  [](const Event& e) { return std::holds_alternative<KvmDetail>(e.payload); });
  }
}

TEST(AlignmentProperty, TheTruthIsInsideThePrintedErrorOrTheGuestIsRefused) {
  std::map<Wrong, std::pair<int, int>> aligned_and_refused;
  std::map<Wrong, int> says;
  int by_ptp_alone = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    World world(seed);
    const std::size_t which = world.below(world.guests().size());
    const Guest& guest = world.guests()[which];
    const Guest& other = world.guests()[(which + 1) % world.guests().size()];
    const bool alone = world.guests().size() == 1;
    const Wrong wrong =
        alone && seed % 2 == 0 ? Wrong::kNothing : Wrong(seed % static_cast<int>(Wrong::kLast));
    GuestRecording made = recording_of(guest, world);
    if (!alone || wrong >= Wrong::kPtp) falsify(made, wrong, other, world);
    const auto written = std::ranges::count_if(
        made.syncs, [](const GuestSyncLine& line) { return line.record.write.has_value(); });
    // Whose records these are.
    const Guest& truth = wrong == Wrong::kOthersRecords && !alone ? other : guest;
    const StampClock host{"mono", false};
    auto bounds = guest_bounds(made, host);
    ASSERT_TRUE(bounds) << seed;
    test::MemorySource source(world.events());
    const auto of_host = collect(source, {.runs = true, .guests = {&*bounds}});
    const auto aligned = align_guest(made, *bounds, host, of_host, {});
    auto& [good, refused] = aligned_and_refused[wrong];
    ++(aligned && *aligned ? good : refused);
    const std::string said = !aligned   ? aligned.error().message
                             : *aligned ? (*aligned)->method
                                        : "";
    if (kSaid.contains(wrong) && testing::Matches(testing::ContainsRegex(kSaid.at(wrong)))(said))
      ++says[wrong];
    if (!aligned || !*aligned) continue;
    const GuestSyncCounters& syncs = (*aligned)->syncs;
    if (wrong == Wrong::kNothing) {
      EXPECT_EQ(syncs.exits, static_cast<std::uint64_t>(written)) << seed;
      EXPECT_EQ((*aligned)->gaps.impossible, 0u) << seed;
      by_ptp_alone += syncs.ptp != 0 && syncs.exits + syncs.tsc + syncs.readings == 0 ? 1 : 0;
    }
    const clocks::Relation& line = (*aligned)->line;
    for (const std::uint64_t at : truth.ran) {
      const std::uint64_t placed = line.map()(truth.mono(at));
      ASSERT_LE(placed > at ? placed - at : at - placed, line.error())
          << "seed " << seed << " wrong " << static_cast<int>(wrong) << ' ' << (*aligned)->method;
    }
  }
  // Right evidence is taken, and some of it beside wrong one; neither outcome is for all.
  EXPECT_GT(aligned_and_refused[Wrong::kNothing].first, 80);
  EXPECT_GT(aligned_and_refused[Wrong::kOthersSeries].first, 5);
  for (const Wrong wrong :
       {Wrong::kOthersSeries, Wrong::kOthersRecords, Wrong::kPtp, Wrong::kOthersTsc, Wrong::kBoot})
    EXPECT_GT(aligned_and_refused[wrong].second, 5) << static_cast<int>(wrong);
  for (const auto& [wrong, said] : kSaid) EXPECT_GT(says[wrong], 5) << said;
  EXPECT_GT(by_ptp_alone, 5);
}

}  // namespace
}  // namespace trapline
