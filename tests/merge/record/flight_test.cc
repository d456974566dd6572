// The flight recorder's memory and folder: what is held, dropped, cut and removed.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "merge/record/flight_control.h"
#include "merge/record/flight_ring.h"
#include "merge/record/flight_store.h"
#include "merge/session/session_folder.h"
#include "tests/merge/record/replay.h"
#include "tests/support/temporary_folder.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;
using testing::append_events;
using testing::Bytes;
using ::testing::ElementsAre;
using testing::Recorded;
using testing::RecordedPages;
using trapline::test::data_path;
using RingPage = trace_dat::RingPage;

// The pages of a recording of two CPUs, in the order in which they filled.
class FlightRingTest : public ::testing::Test {
 protected:
  FlightRingTest() : pages_(data_path("svm-linux-2vcpu.dat")), events_(pages_.events()) {
    for (unsigned cpu = 0; cpu < pages_.cpus(); ++cpu) {
      for (const Bytes& page : pages_.pages()[cpu]) {
        const auto facts = look_at_page(page);
        if (facts->events != 0) in_order_.push_back({facts->last, cpu, &page});
      }
    }
    std::sort(in_order_.begin(), in_order_.end(),
              [](const auto& a, const auto& b) { return a.last < b.last; });
  }
  [[nodiscard]] FlightRing ring(std::uint64_t span, std::size_t bytes) const {
    return FlightRing({.keep_ns = span, .ring_bytes = bytes, .cpus = pages_.cpus()});
  }
  void add_all(FlightRing& ring, std::size_t bound) const {
    for (const auto& [last, cpu, page] : in_order_) {
      ASSERT_TRUE(ring.page(cpu, *page));
      ASSERT_LE(ring.held_bytes(), bound);
    }
  }
  // What the ring gives of a CPU is what the recording has between the two times.
  void expect_whole(const FlightRing& ring, std::uint64_t from, std::uint64_t to) const {
    std::size_t all = 0;
    for (unsigned cpu = 0; cpu < pages_.cpus(); ++cpu) {
      std::vector<Recorded> given, recorded;
      const auto part = ring.write(cpu, from, to, 4096, [&](std::span<const std::byte> page) {
        EXPECT_EQ(page.size(), 4096u);
        (void)append_events(page, given);
        return Result<void>{};
      });
      ASSERT_TRUE(part);
      for (const Recorded& event : events_[cpu]) {
        if (event.time >= from && event.time <= to) recorded.push_back(event);
      }
      EXPECT_TRUE(given == recorded)
          << "CPU " << cpu << ": " << given.size() << " events, not " << recorded.size();
      EXPECT_EQ(part->events, given.size());
      all += given.size();
    }
    EXPECT_GT(all, 100u);
  }

  struct PageAt {
    std::uint64_t last;
    unsigned cpu;
    const Bytes* page;
  };
  RecordedPages pages_;
  std::vector<std::vector<Recorded>> events_;
  std::vector<PageAt> in_order_;
};

TEST_F(FlightRingTest, HoldsAllThatIsYoungerThanTheSpan) {
  constexpr std::uint64_t kSpan = 2'000'000'000;
  FlightRing ring = this->ring(kSpan, 64u << 20);
  add_all(ring, 64u << 20);
  EXPECT_FALSE(ring.is_short());
  EXPECT_EQ(ring.begin(), ring.newest() - kSpan);
  expect_whole(ring, ring.begin(), ring.newest());
  expect_whole(ring, ring.begin() + kSpan / 4, ring.newest() - kSpan / 4);  // inside of pages
}

TEST_F(FlightRingTest, AFullRingHoldsLessAndSaysSo) {
  constexpr std::size_t kBytes = 128u << 10;
  FlightRing ring = this->ring(1'000'000'000'000, kBytes);
  add_all(ring, kBytes);
  EXPECT_TRUE(ring.is_short());
  EXPECT_GT(ring.held_bytes(), kBytes / 2);
  expect_whole(ring, ring.begin(), ring.newest());
}

TEST_F(FlightRingTest, ARecordingShorterThanTheSpanIsThereFromItsBeginning) {
  FlightRing ring = this->ring(1'000'000'000'000, 64u << 20);
  add_all(ring, 64u << 20);
  EXPECT_FALSE(ring.is_short());
  expect_whole(ring, 0, ring.newest());
  EXPECT_EQ(ring.begin(), std::min(events_[0].front().time, events_[1].front().time));
}

TEST_F(FlightRingTest, KeepsTheKernelsMarkWhereNothingBeforeItWasCut) {
  FlightRing ring = this->ring(1'000'000'000'000, 64u << 20);
  Bytes page = *in_order_.front().page;
  const auto facts = look_at_page(page);
  mark_missed(page, facts->used, 7);
  const bool has_room = page.size() - facts->used >= kCommitSize;
  ASSERT_TRUE(ring.page(0, page));
  bool marked = false;
  const auto sink = [&](std::span<const std::byte> out) {
    std::vector<Recorded> events;
    marked = append_events(out, events);
    return Result<void>{};
  };
  const auto whole = ring.write(0, 0, facts->last, 4096, sink);
  EXPECT_TRUE(marked);
  EXPECT_EQ(whole->lost, has_room ? 7u : 0u);
  EXPECT_EQ(whole->lost_unknown, !has_room);
  const auto cut = ring.write(0, facts->first + 1, facts->last, 4096, sink);
  EXPECT_FALSE(marked);
  EXPECT_EQ(cut->lost, 0u);
}

TEST_F(FlightRingTest, CountsALossThatOnlyAnEmptyPageTells) {
  FlightRing ring = this->ring(1'000'000'000'000, 64u << 20);
  const Bytes& page = *in_order_.front().page;
  const auto facts = look_at_page(page);
  ASSERT_TRUE(ring.page(0, page));
  Bytes empty(page.begin(), page.begin() + kPageHead);  // its time
  empty.resize(page.size());
  mark_missed(empty, kPageHead, 9);
  ASSERT_TRUE(ring.page(0, empty));
  const auto lost_until = [&](std::uint64_t to) {
    return ring.write(0, 0, to, 4096, [](auto) { return Result<void>{}; })->lost;
  };
  EXPECT_EQ(lost_until(facts->last), 9u);
  EXPECT_EQ(lost_until(facts->last - 1), 0u);
}

TEST_F(FlightRingTest, RefusesWhatIsNoPage) {
  FlightRing ring = this->ring(1, 1u << 20);
  EXPECT_FALSE(ring.page(0, Bytes(4096, std::byte{0xff})));
}

class FlightStoreTest : public ::testing::Test {
 protected:
  void add_snapshot(const FlightStore& store, std::uint64_t second, std::size_t bytes) const {
    const fs::path path = store.folder().path_of(store.name_for(second * 1'000'000'000));
    fs::create_directory(path);
    std::ofstream(path / "trace.dat") << std::string(bytes, 'x');
  }
  test::TemporaryFolder temporary_;
  fs::path folder_ = temporary_ / "flights";
};

TEST_F(FlightStoreTest, RemovesTheOldestAndNothingElse) {
  const auto store = FlightStore::open(folder_, 100u << 10);
  ASSERT_TRUE(store);
  fs::create_directory(folder_ / "notes");
  fs::create_directory(folder_ / "20010909T014640Z-incident");  // which the user kept
  std::ofstream(folder_ / "20010909T014640Z-incident/trace.dat") << std::string(99u << 10, 'x');
  add_snapshot(*store, 1'000'000'000, 40u << 10);
  add_snapshot(*store, 1'000'000'000, 40u << 10);
  add_snapshot(*store, 1'000'000'060, 8u << 10);
  EXPECT_THAT(snapshots_in(store->folder()),
              ElementsAre("20010909T014640Z", "20010909T014640Z-2", "20010909T014740Z"));
  const auto removed = store->make_room(20u << 10);
  ASSERT_TRUE(removed);
  EXPECT_THAT(*removed, ElementsAre("20010909T014640Z"));
  EXPECT_THAT(*store->make_room(20u << 10), ElementsAre());
  EXPECT_TRUE(fs::exists(folder_ / "notes"));
  EXPECT_TRUE(fs::exists(folder_ / "20010909T014640Z-incident"));
  EXPECT_FALSE(store->make_room(101u << 10));  // never fits, so nothing is removed for it
  EXPECT_THAT(snapshots_in(store->folder()), ElementsAre("20010909T014640Z-2", "20010909T014740Z"));
}

TEST_F(FlightStoreTest, SnapshotsOfOneSecondAreOrderedByTheirNumber) {
  const auto store = FlightStore::open(folder_, 100u << 10);
  ASSERT_TRUE(store);
  for (int i = 0; i < 10; ++i) add_snapshot(*store, 1'000'000'000, 1);
  add_snapshot(*store, 1'000'000'001, 1);
  const auto names = snapshots_in(store->folder());
  ASSERT_EQ(names.size(), 11u);
  EXPECT_EQ(names[1], "20010909T014640Z-2");
  EXPECT_EQ(names[9], "20010909T014640Z-10");
  EXPECT_EQ(names[10], "20010909T014641Z");
}

TEST_F(FlightStoreTest, RefusesAFolderOfSomethingElseAndOfAnotherRecorder) {
  fs::create_directory(folder_);
  std::ofstream(folder_ / "letter") << "dear";
  EXPECT_FALSE(FlightStore::open(folder_, 1));
  fs::remove(folder_ / "letter");
  const auto first = FlightStore::open(folder_, 1);
  EXPECT_TRUE(first);
  const auto second = FlightStore::open(folder_, 1);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, ::testing::HasSubstr("another flight recorder"));
}

TEST_F(FlightStoreTest, ASocketOfADeadRecorderIsToldFromALivingOne) {
  fs::create_directory(folder_);
  const auto none = ask_for_snapshot(folder_, "");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, ::testing::HasSubstr("no flight recorder is at work"));
  EXPECT_FALSE(ask_for_snapshot(folder_ / "nowhere", ""));
  EXPECT_TRUE(FlightControl::open(*open_own_folder(folder_)));
  EXPECT_TRUE(FlightControl::open(*open_own_folder(folder_)));  // replaces what is there
}

}  // namespace
}  // namespace trapline::record
