// A log of QEMU beside the host's recording: a session made from a real recording, whose own
// markers are the log's lines, on the wall clock. Its sync records are right, or those of another
// run.
#include "merge/pass/pass.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "merge/report/run.h"
#include "merge/session/open.h"
#include "merge/session/session_json.h"
#include "tests/support/temporary_folder.h"

namespace trapline::test {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kWall = 1'795'000'000'000'000'000;  // when CLOCK_MONOTONIC began

class PlacementTest : public testing::Test {
 protected:
  PlacementTest() {
    const std::string host = std::string(TRAPLINE_TEST_DATA) + "/svm-mono.dat";
    fs::copy_file(host, folder_ / "trace.dat");
    auto source = open_source(host, {});
    EXPECT_TRUE(source) << source.error().message;
    std::ofstream log(folder_ / "qemu.log");
    for (Event event; (*source)->next(event) == Read::kEvent;) {
      last_ = event.at.ns();
      if (first_ == 0) first_ = last_;
      const auto* marker = std::get_if<Marker>(&event.payload);
      if (marker == nullptr) continue;
      const std::uint64_t wall = kWall + event.at.ns();
      std::string_view text = marker->text;
      while (text.ends_with('\n')) text.remove_suffix(1);
      log << fmt::format("{}@{}.{:06}:{}\n", static_cast<std::int32_t>(event.thread),
                         wall / 1'000'000'000, wall % 1'000'000'000 / 1000, text);
      ++markers_;
    }
  }

  // `wrong`: how much the sync records' wall clock is ahead of the log's.
  [[nodiscard]] Result<ReportRun> report(std::int64_t wrong) const {
    SessionJson session;
    session.closed = true;
    session.clocks = {{"trace.dat", "mono"}};
    for (const std::uint64_t stamp : {first_, last_}) {
      SessionSync sync;
      sync.series = 1;
      sync.index = static_cast<std::uint32_t>(session.sync.size()) + 1;
      sync.stamp = stamp;
      const auto read = [&](std::uint64_t mono) {
        ClockReadings readings;
        readings.values[static_cast<std::size_t>(ClockId::kMono)] = mono;
        readings.values[static_cast<std::size_t>(ClockId::kReal)] =
            kWall + mono + static_cast<std::uint64_t>(wrong);
        return readings;
      };
      sync.before = read(stamp - 300);
      sync.after = read(stamp + 300);
      session.sync.push_back(sync);
    }
    EXPECT_TRUE(write_session_json(*Folder::open(folder_), session));
    PassOptions what;
    what.input.paths = {folder_};
    return run_report(what, {}, {});
  }

  test::TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  std::uint64_t first_ = 0, last_ = 0, markers_ = 0;
};

TEST_F(PlacementTest, ALogIsOneTimelineWithItsHostsRecording) {
  const auto run = report(0);
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->report.counters.exits.exits, 4619u);
  // Each event of QEMU counts twice: in trace_marker and in the log.
  EXPECT_EQ(run->report.counters.exits.vmm_events, 2 * markers_);
  EXPECT_EQ(run->report.counters.exits.vmm_events_in_exits, 2 * markers_);
}

TEST_F(PlacementTest, SyncRecordsOfAnotherRunAreRefused) {
  for (const std::int64_t wrong : {-1'100'000'000LL, -7'000'000LL, 7'000'000LL, 300'000'000LL}) {
    const auto run = report(wrong);
    ASSERT_FALSE(run) << wrong;
    EXPECT_THAT(
        run.error().message,
        testing::AllOf(testing::HasSubstr("qemu.log"), testing::HasSubstr("contradict"),
                       testing::HasSubstr("ran the guest from"), testing::HasSubstr("--offset")));
  }
}

}  // namespace
}  // namespace trapline::test
