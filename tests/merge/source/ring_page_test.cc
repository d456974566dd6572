// RingPage against libtraceevent's kbuffer, on pages with every kind of record, and against damage.
#include "merge/source/trace_dat/ring_page.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

extern "C" {
#include <kbuffer.h>
}

namespace trapline::trace_dat {
namespace {

constexpr std::size_t kPageSize = 4096;

// Writes a page; at the end, a spare one behind it, for kbuffer looks beyond.
class Page {
 public:
  explicit Page(std::uint64_t time) : bytes_(2 * kPageSize) { put(0, time); }
  [[nodiscard]] std::size_t room() const { return kPageSize - at_; }
  void data(std::uint32_t delta, std::uint32_t words) {
    record(words, delta);
    fill(words * 4);
  }
  void long_data(std::uint32_t delta, std::uint32_t size) {
    record(0, delta);
    word(size + 4);
    fill(size);
  }
  void extend(std::uint64_t delta) {
    record(30, static_cast<std::uint32_t>(delta & 0x7ffffff));
    word(static_cast<std::uint32_t>(delta >> 27));
  }
  void stamp(std::uint64_t time) {
    record(31, static_cast<std::uint32_t>(time & 0x7ffffff));
    word(static_cast<std::uint32_t>(time >> 27));
  }
  void end_padding() { record(29, 0); }
  void record(std::uint32_t type, std::uint32_t delta) { word(type | (delta << 5)); }
  void word(std::uint32_t value) {
    std::memcpy(bytes_.data() + at_, &value, 4);
    at_ += 4;
  }
  void fill(std::size_t size) {
    for (std::size_t i = 0; i < size; ++i, ++at_) bytes_[at_] = static_cast<std::byte>(i * 7 + at_);
  }
  // Closes the page; `flags` are the bits above the size.
  std::span<const std::byte> close(std::uint64_t flags = 0, std::uint64_t stored = 0) {
    put(8, (at_ - 16) | flags);
    if ((flags & (1u << 30)) != 0) put(at_, stored);
    return std::span(bytes_).first(kPageSize);
  }
  void* raw() { return bytes_.data(); }

 private:
  void put(std::size_t at, std::uint64_t value) { std::memcpy(bytes_.data() + at, &value, 8); }

  std::vector<std::byte> bytes_;
  std::size_t at_ = 16;
};

void expect_as_kbuffer(Page& page, std::span<const std::byte> bytes) {
  kbuffer* reference = kbuffer_alloc(KBUFFER_LSIZE_8, KBUFFER_ENDIAN_LITTLE);
  ASSERT_EQ(kbuffer_load_subbuffer(reference, page.raw()), 0);
  RingPage walk;
  ASSERT_TRUE(walk.load(bytes, 8));
  EXPECT_EQ(walk.lost(), kbuffer_missed_events(reference));
  std::vector<kernel_events::RecordedEvent> all;
  RingPage at_once = walk;
  at_once.take_all([&all](const kernel_events::RecordedEvent& taken) { all.push_back(taken); });
  EXPECT_FALSE(at_once.damaged());
  std::size_t taken = 0;
  unsigned long long time = 0;
  kernel_events::RecordedEvent event;
  for (auto* data = kbuffer_read_event(reference, &time); data != nullptr;
       data = kbuffer_next_event(reference, &time)) {
    ASSERT_TRUE(walk.next(event));
    EXPECT_EQ(event.time, time);
    EXPECT_EQ(static_cast<const void*>(event.data), data);
    EXPECT_EQ(event.size, static_cast<std::uint32_t>(kbuffer_event_size(reference)));
    ASSERT_LT(taken, all.size());
    EXPECT_EQ(all[taken].time, time);
    EXPECT_EQ(static_cast<const void*>(all[taken].data), data);
    EXPECT_EQ(all[taken++].size, event.size);
  }
  EXPECT_EQ(taken, all.size());
  EXPECT_FALSE(walk.next(event));
  EXPECT_EQ(at_once.time(), walk.time());
  EXPECT_FALSE(walk.damaged());
  kbuffer_free(reference);
}

TEST(RingPage, WalksRandomPagesAsKbufferDoes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::uint64_t time = random() % (std::uint64_t{1} << 58);
    Page page(time);
    page.data(0, 1);  // kbuffer tells losses at a first event only
    const std::size_t leave = random() % 600;
    while (page.room() > leave + 600) {
      const auto delta = static_cast<std::uint32_t>(random() % (1u << 27));
      time += delta;
      switch (random() % 8) {
        case 0:
          page.extend(random() % (std::uint64_t{1} << 40));
          break;
        case 1:
          page.stamp(time % (std::uint64_t{1} << 58));
          break;
        case 2:
          page.long_data(delta, 4 * static_cast<std::uint32_t>(random() % 130));
          break;
        default:
          page.data(delta, 1 + static_cast<std::uint32_t>(random() % 28));
          break;
      }
    }
    // kbuffer wants an event last.
    page.data(1, 2);
    if (random() % 3 == 0) page.end_padding();
    const bool lost = random() % 4 == 0;
    const bool counted = random() % 2 == 0;
    const std::uint64_t flags = lost ? (1u << 31) | (counted ? 1u << 30 : 0) : 0;
    expect_as_kbuffer(page, page.close(flags, 1 + random() % 1000));
    if (HasFatalFailure()) FAIL() << "round " << round;
  }
}

TEST(RingPage, TellsLossesWithAndWithoutANumber) {
  const auto lost = [](std::uint64_t flags, std::uint64_t stored) {
    Page page(1);
    page.data(1, 1);
    RingPage walk;
    EXPECT_TRUE(walk.load(page.close(flags, stored), 8));
    return walk.lost();
  };
  EXPECT_EQ(lost(0, 0), RingPage::kNoneLost);
  EXPECT_EQ(lost(1u << 31, 0), RingPage::kUnknownLost);
  EXPECT_EQ(lost((1u << 31) | (1u << 30), 260), 260);
  EXPECT_EQ(lost((1u << 31) | (1u << 30), ~0ull), RingPage::kUnknownLost);
}

TEST(RingPage, ADiscardedEventIsSkipped) {
  Page page(1000);
  page.data(1, 2);
  page.record(29, 1);
  page.word(12);
  page.fill(8);
  page.data(5, 3);
  RingPage walk;
  ASSERT_TRUE(walk.load(page.close(), 8));
  kernel_events::RecordedEvent event;
  ASSERT_TRUE(walk.next(event));
  ASSERT_TRUE(walk.next(event));
  EXPECT_EQ(event.size, 12u);
  EXPECT_FALSE(walk.next(event));
  EXPECT_FALSE(walk.damaged());
}

TEST(RingPage, RecordsThatDoNotFitAreDamage) {
  const auto damaged = [](auto write) {
    Page page(1);
    page.data(1, 1);
    write(page);
    RingPage walk;
    EXPECT_TRUE(walk.load(page.close(), 8));
    kernel_events::RecordedEvent event;
    EXPECT_TRUE(walk.next(event));
    while (walk.next(event)) {
    }
    return walk.damaged();
  };
  EXPECT_TRUE(damaged([](Page& page) { page.record(28, 0); }));
  EXPECT_TRUE(damaged([](Page& page) { page.record(0, 0); }));
  EXPECT_TRUE(damaged([](Page& page) { page.record(0, 0), page.word(0xffffffff); }));
  EXPECT_TRUE(damaged([](Page& page) { page.record(0, 0), page.word(3); }));
  EXPECT_TRUE(damaged([](Page& page) { page.record(29, 1), page.word(0); }));
  EXPECT_TRUE(damaged([](Page& page) { page.record(29, 1), page.word(0xfffffffc); }));
  EXPECT_TRUE(damaged([](Page& page) { page.record(30, 1); }));
  EXPECT_FALSE(damaged([](Page& page) { page.end_padding(); }));
}

TEST(RingPage, HeadersThatCannotBeAreRefused) {
  RingPage walk;
  std::vector<std::byte> bytes(kPageSize);
  const std::uint64_t commit = kPageSize - 15;
  std::memcpy(bytes.data() + 8, &commit, 8);
  EXPECT_FALSE(walk.load(bytes, 8));
  kernel_events::RecordedEvent event;
  EXPECT_FALSE(walk.next(event));
  for (std::size_t size = 0; size < 16; ++size) {
    EXPECT_FALSE(walk.load(std::span(bytes).first(size), 8));
  }
}

TEST(RingPage, ALongOfFourBytesMovesTheEvents) {
  std::vector<std::byte> bytes(kPageSize);
  const std::uint64_t time = 77;
  const std::uint32_t words[] = {8, 1u | (3u << 5), 0x12345678};
  std::memcpy(bytes.data(), &time, 8);
  std::memcpy(bytes.data() + 8, words, sizeof words);
  RingPage walk;
  ASSERT_TRUE(walk.load(bytes, 4));
  kernel_events::RecordedEvent event;
  ASSERT_TRUE(walk.next(event));
  EXPECT_EQ(event.time, 80u);
  EXPECT_EQ(event.size, 4u);
  EXPECT_EQ(load<std::uint32_t>(event.data), 0x12345678u);
  EXPECT_FALSE(walk.next(event));
}

TEST(RingPage, OfABigEndianKernelIsReadAsKbufferReadsIt) {
  std::vector<std::byte> bytes(2 * kPageSize);
  std::size_t at = 0;
  const auto put = [&](auto value) {
    value = byte_swapped(value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
    at += sizeof value;
  };
  const auto head = [&](std::uint32_t type, std::uint32_t delta) { put(type << 27 | delta); };
  put(std::uint64_t{1} << 40);
  put(std::uint64_t{68 | 1u << 31 | 1u << 30});
  head(1, 5), put(0x12345678u);
  head(30, 7), put(3u);  // time extend
  head(0, 9), put(12u), put(std::uint64_t{42});
  head(31, 11), put(1u << 20);    // absolute time
  head(29, 1), put(8u), put(0u);  // discarded
  head(2, 13), put(std::uint64_t{43});
  head(29, 0);
  ASSERT_EQ(at, 16u + 68u);
  put(std::uint64_t{260});
  kbuffer* reference = kbuffer_alloc(KBUFFER_LSIZE_8, KBUFFER_ENDIAN_BIG);
  ASSERT_EQ(kbuffer_load_subbuffer(reference, bytes.data()), 0);
  RingPage walk;
  ASSERT_TRUE(walk.load(std::span(bytes).first(kPageSize), 8, std::endian::big));
  EXPECT_EQ(walk.lost(), 260);
  unsigned long long time = 0;
  kernel_events::RecordedEvent event;
  int events = 0;
  for (auto* data = kbuffer_read_event(reference, &time); data != nullptr;
       data = kbuffer_next_event(reference, &time), ++events) {
    ASSERT_TRUE(walk.next(event));
    EXPECT_EQ(event.time, time);
    EXPECT_EQ(static_cast<const void*>(event.data), data);
    EXPECT_EQ(event.size, static_cast<std::uint32_t>(kbuffer_event_size(reference)));
  }
  EXPECT_EQ(events, 3);
  EXPECT_FALSE(walk.next(event));
  EXPECT_FALSE(walk.damaged());
  kbuffer_free(reference);
}

}  // namespace
}  // namespace trapline::trace_dat
