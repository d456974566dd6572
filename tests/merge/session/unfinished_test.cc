// A session whose recorder still runs, or was killed, is read as the trace.dat that it would
// become, and nothing in it changes.
#include "merge/source/trace_dat/unfinished.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "merge/session/finish.h"
#include "merge/session/open.h"
#include "tests/merge/source/recordings.h"
#include "tests/support/open_by_path.h"
#include "tests/support/temporary_folder.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;
using test::contents;
using ::testing::HasSubstr;

constexpr const char* kRecording = "box/demo-v6.dat";

// The time, CPU, type and bytes of every event.
std::string digest(const std::string& path) {
  auto source = trace_dat::open_trace_dat(path, {});
  EXPECT_TRUE(source) << source.error().message;
  if (!source) return {};
  std::string text;
  std::size_t hash = 0;
  std::uint64_t events = 0;
  for (Event event; (*source)->next(event) == Read::kEvent; ++events) {
    const std::string_view raw(reinterpret_cast<const char*>(event.raw.data()), event.raw.size());
    hash = hash * 31 + std::hash<std::string_view>()(raw) + event.at.ns() * 7 + event.cpu;
  }
  EXPECT_TRUE((*source)->status());
  return fmt::format("{} events, {:x}", events, hash);
}

class UnfinishedTest : public ::testing::Test {
 protected:
  // What a recorder leaves that streamed the recording's pages.
  UnfinishedTest() {
    fs::create_directories(folder_ / "raw");
    const std::string path = test::data_path(kRecording);
    const std::string bytes = contents(path);
    const auto file = File::open(path);
    const auto layout = trace_dat::read_layout(*file);
    EXPECT_TRUE(layout);
    const std::uint64_t head = layout->cmdlines.offset - 8;
    write("session.json", "{\"version\": 1, \"closed\": false}");
    write("raw/trace.dat", bytes.substr(0, head));
    write("raw/cmdlines", bytes.substr(layout->cmdlines.offset, layout->cmdlines.size));
    for (const trace_dat::CpuPages& cpu : layout->buffers.at(0).cpus) {
      write(cpu_file(cpu.cpu), bytes.substr(cpu.pages.offset, cpu.pages.size));
    }
    const trace_dat::StartFacts facts{4096,           head,          layout->cpu_count,
                                      "local [mono]", layout->uname, "trapline test"};
    EXPECT_TRUE(trace_dat::write_start(*Folder::open(folder_), facts));
  }

  static std::string cpu_file(unsigned cpu) { return fmt::format("raw/cpu{}", cpu); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  void append(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary | std::ios::app) << bytes;
  }
  [[nodiscard]] std::string trace() const { return folder_ / "trace.dat"; }
  [[nodiscard]] std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) all[entry.path()] = contents(entry.path());
    }
    return all;
  }

  test::TemporaryFolder temporary_;
  fs::path folder_ = temporary_ / "session";
};

TEST_F(UnfinishedTest, IsReadAsTheFinishedOneAndNothingChanges) {
  const auto before = files();
  ASSERT_EQ(kind_of_source(folder_), SourceKind::kSession);
  const auto parts = parts_of_source(folder_, {});
  ASSERT_TRUE(parts) << parts.error().message;
  ASSERT_EQ(parts->size(), 1u);
  EXPECT_EQ(parts->front().path, trace());
  EXPECT_EQ(kind_of_source(trace()), SourceKind::kTraceDat);
  EXPECT_EQ(digest(trace()), digest(test::data_path(kRecording)));
  EXPECT_EQ(files(), before);

  const auto composed = trace_dat::open_unfinished(folder_);
  ASSERT_TRUE(composed);
  std::string bytes(composed->size(), '\0');
  ASSERT_TRUE(composed->read(0, std::as_writable_bytes(std::span(bytes))));
  ASSERT_EQ(finish_session(folder_), Finish::kFinished);
  EXPECT_EQ(contents(trace()), bytes);
}

TEST_F(UnfinishedTest, PagesThatAreHalfWrittenAreLeftOut) {
  const std::string whole = digest(trace());
  append("raw/cpu0", std::string(1000, 'x'));
  append("raw/cpu1", std::string(4095, 'x'));
  EXPECT_EQ(digest(trace()), whole);
}

TEST_F(UnfinishedTest, APageThatIsCutOffWithinIsNone) {
  const std::string path = folder_ / "raw/pages";
  for (const std::size_t page : {std::size_t{4096}, std::size_t{16384}}) {
    for (const std::size_t whole : {0u, 1u, 2u}) {
      for (const std::size_t from : {std::size_t{0}, 4 * page}) {
        fs::remove(path);
        write("raw/pages", "");
        fs::resize_file(path, from);
        append("raw/pages", std::string(whole * page + page / 4, 'x'));
        const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        const auto bytes = trace_dat::pages_at(fd.get(), from, from + 8 * page, page);
        ASSERT_TRUE(bytes) << bytes.error().message;
        EXPECT_EQ(*bytes, whole * page) << page << " at " << from;
      }
    }
  }
}

TEST_F(UnfinishedTest, ARecordingThatEndsWhileItIsReadIsAnErrorAndNeverALoss) {
  auto source = trace_dat::open_trace_dat(trace(), {});
  ASSERT_TRUE(source);
  ASSERT_EQ(finish_session(folder_), Finish::kFinished);
  Event event;
  while ((*source)->next(event) == Read::kEvent) {
  }
  ASSERT_FALSE((*source)->status());
  EXPECT_THAT((*source)->status().error().message, HasSubstr("ended while it was read"));
}

// docs/formats/trace-dat.md: an empty page with the kernel's mark, 33 events left out before it.
std::string boundary_page(std::uint64_t time) {
  std::string page(4096, '\0');
  const std::uint64_t commit = 0xc0000000, count = 33;
  std::memcpy(page.data(), &time, 8);
  std::memcpy(page.data() + 8, &commit, 8);
  std::memcpy(page.data() + 16, &count, 8);
  return page;
}

TEST_F(UnfinishedTest, WhatOurRecorderLeftOutIsNoLoss) {
  append("raw/cpu0", boundary_page(~std::uint64_t{0} >> 8));
  for (const bool ours : {true, false}) {
    auto start = trace_dat::read_start(*Folder::open(folder_));
    ASSERT_TRUE(start);
    start->version = ours ? "trapline 0.1" : "3.1.6";
    ASSERT_TRUE(trace_dat::write_start(*Folder::open(folder_), *start));
    auto source = trace_dat::open_trace_dat(trace(), {});
    ASSERT_TRUE(source);
    std::vector<Lost> losses;
    for (Event event; (*source)->next(event) == Read::kEvent;) {
      if (const auto* lost = std::get_if<Lost>(&event.payload)) losses.push_back(*lost);
    }
    ASSERT_EQ(losses.size(), 1u);
    EXPECT_EQ(losses[0].count, ours ? 33u : 0u);
    EXPECT_EQ(losses[0].on_purpose, ours);
    const SourceCounters counters = (*source)->counters();
    EXPECT_EQ(counters.left_out_events, ours ? 33u : 0u);
    EXPECT_EQ(counters.left_out_pieces, ours ? 1u : 0u);
    EXPECT_EQ(counters.lost_events, 0u);
    EXPECT_EQ(counters.gaps, ours ? 0u : 1u);
    EXPECT_EQ(counters.damaged_pages, ours ? 0u : 1u);  // no other recorder writes such pages
  }
}

TEST_F(UnfinishedTest, WhatWasKilledBeforeItRecordedAnythingIsAnError) {
  fs::remove(folder_ / "raw/start.json");
  const auto kind = kind_of_source(folder_);
  ASSERT_FALSE(kind);
  EXPECT_THAT(kind.error().message, HasSubstr("nothing is recorded yet"));
}

TEST_F(UnfinishedTest, DamagedFactsAreAnError) {
  for (const char* start :
       {"", "{}", "[]", "{\"page_size\": 1}",
        "{\"page_size\":4096,\"head_bytes\":99999999999,\"cpus\":2,\"clocks\":\"\",\"uname\":\"\","
        "\"version\":\"\",\"first_region\":0,\"region_bytes\":0}",
        "{\"page_size\":4096,\"head_bytes\":4,\"cpus\":4096,\"clocks\":\"\",\"uname\":\"\","
        "\"version\":\"\",\"first_region\":4096,\"region_bytes\":4611686018427387904}"}) {
    write("raw/start.json", start);
    const auto source = trace_dat::open_trace_dat(trace(), {});
    ASSERT_FALSE(source) << start;
    EXPECT_THAT(source.error().message, HasSubstr("damaged"));
  }
}

}  // namespace
}  // namespace trapline
