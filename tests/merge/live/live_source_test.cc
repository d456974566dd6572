#include "merge/live/live_source.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "backend_ftrace/base/text_file.h"
#include "merge/session/session_folder.h"
#include "merge/source/trace_dat/page_reader.h"
#include "merge/source/trace_dat/trace_dat_source.h"
#include "tests/support/open_by_path.h"
#include "tests/support/temporary_folder.h"

namespace trapline::live {
namespace {

// The pages of a recording, as if they came a few at a time.
class FileFeed final : public PageFeed {
 public:
  FileFeed(const std::string& path, std::size_t pages_per_round)
      : pages_per_round_(pages_per_round), file_(*File::open(path)) {
    name_ = path;
    layout_ = *trace_dat::read_layout(file_);
    for (const trace_dat::Buffer& buffer : layout_.buffers) {
      for (const trace_dat::CpuPages& pages : buffer.cpus) {
        readers_.emplace_back(file_, pages.pages, buffer.page_size, 1u << 16);
      }
    }
    layout_.cpu_count = static_cast<std::uint32_t>(readers_.size());
  }
  Result<bool> begin_round() override {
    given_.assign(readers_.size(), 0);
    return std::exchange(came_, false);
  }
  Result<bool> next(std::size_t cpu, std::span<std::byte> page) override {
    if (given_[cpu] == pages_per_round_) return false;
    auto read = readers_[cpu].next();
    if (!read || read->empty()) return false;
    std::fill(page.begin(), page.end(), std::byte{0});
    std::copy(read->begin(), read->end(), page.begin());
    came_ = true;
    ++given_[cpu];
    return true;
  }
  // A page may hold events of any time, where they come a few at a time.
  std::uint64_t latency_ns() const override { return 60'000'000'000; }
  Result<std::string> head() const override { return std::string(); }

 private:
  std::size_t pages_per_round_;
  File file_;
  std::vector<trace_dat::PageReader> readers_;
  std::vector<std::size_t> given_;
  bool came_ = true;
};

std::string text_of(const Event& event) {
  const auto* lost = std::get_if<Lost>(&event.payload);
  return fmt::format("{} {} {} {} {}", event.at.ns(), event.cpu, event.type,
                     static_cast<std::int32_t>(event.thread), lost != nullptr ? lost->count : 0);
}

class LiveSourceTest : public testing::TestWithParam<std::string> {
 protected:
  static std::string path() { return TRAPLINE_TEST_DATA "/" + GetParam(); }
  static std::vector<std::string> recorded() {
    auto source = *trace_dat::open_trace_dat(path(), {});
    std::vector<std::string> events;
    for (Event event; source->next(event) == Read::kEvent;) events.push_back(text_of(event));
    return events;
  }
  static std::vector<std::string> live(std::size_t pages_per_round, std::size_t ring_bytes) {
    auto source =
        *LiveSource::open(std::make_unique<FileFeed>(path(), pages_per_round), ring_bytes);
    std::vector<std::string> events;
    for (Read read = Read::kPending; read != Read::kEnd;) {
      EXPECT_TRUE(source->fetch());
      Event event;
      while ((read = source->next(event)) == Read::kEvent) events.push_back(text_of(event));
    }
    return events;
  }
};

TEST_P(LiveSourceTest, GivesTheEventsOfTheRecordingInTheirOrder) {
  EXPECT_EQ(live(64, 64u << 20), recorded());
}

// More pages come in a round than are held ahead: a CPU that has no more is complete.
TEST_P(LiveSourceTest, GivesThemToTheLastWhenTheRingIsSmall) {
  const std::vector<std::string> events = live(8, 1);
  EXPECT_EQ(events, recorded());
}

INSTANTIATE_TEST_SUITE_P(Recordings, LiveSourceTest,
                         testing::Values("svm-mono.dat", "svm-2vcpu-lost.dat",
                                         "svm-linux-2vcpu.dat"),
                         [](const auto& recording) {
                           std::string name = recording.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

TEST(SaveTest, ASaveThatFailsCostsNoEarlierSession) {
  const test::TemporaryFolder folder;
  const std::string run = folder / "run";
  for (const char* which : {"a", "b"}) {
    auto made = make_session(run);
    ASSERT_TRUE(made) << made.error().message;
    ASSERT_TRUE(made->folder.replace("session.json", "{}"));
    ASSERT_TRUE(made->folder.replace("which", which));
    ASSERT_TRUE(made->earlier.make_way(made->folder));
  }
  // Nothing was fetched: there is nothing to save.
  auto source = *LiveSource::open(
      std::make_unique<FileFeed>(TRAPLINE_TEST_DATA "/box/linux-irq.dat", 1), 1u << 20);
  EXPECT_FALSE(save_session(*source, source->feed(), Timestamp(0), Timestamp(1), run, "test"));
  EXPECT_EQ(read_text(run + "/which").value_or("-"), "b");
  EXPECT_EQ(read_text(run + ".old/which").value_or("-"), "a");
  const std::filesystem::directory_iterator all(folder.path());
  EXPECT_EQ(std::distance(begin(all), end(all)), 2) << "something else is left";
}

}  // namespace
}  // namespace trapline::live
