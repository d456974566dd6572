// What open_source() makes of a path.
#include "merge/session/open.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/open_by_path.h"
#include "tests/support/source_clock.h"
#include "tests/support/temporary_folder.h"

namespace trapline::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OpenSource, SaysWhatThePathIsNot) {
  TemporaryFolder folder;
  std::ofstream(folder / "x") << "nothing of the kind\n";
  for (const std::string& path : {folder / "x", folder.path()}) {
    const auto source = open_source(path, {});
    ASSERT_FALSE(source);
    EXPECT_THAT(source.error().message, HasSubstr("expected a trace.dat"));
    EXPECT_THAT(source.error().message, HasSubstr(path));
  }
  EXPECT_FALSE(open_source(folder / "missing", {}));
}

TEST(OpenSource, ASessionWithoutItsRecordingIsNamed) {
  TemporaryFolder folder;
  std::ofstream(folder / "session.json") << "{}";
  const auto kind = kind_of_source(folder.path());
  ASSERT_FALSE(kind);
  EXPECT_THAT(kind.error().message, HasSubstr("without a recording (trace.dat, perf.data, "));
}

TEST(OpenSource, ASessionIsItsParts) {
  TemporaryFolder folder;
  fs::copy_file(std::string(TRAPLINE_TEST_DATA) + "/svm-mono.dat", folder / "trace.dat");
  std::ofstream(folder / "qemu.log") << "1@1795250191.908053:load_file a\n";
  ASSERT_EQ(kind_of_source(folder.path()), SourceKind::kSession);
  const auto parts = parts_of_source(folder.path(), {});
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ(parts->front().path, folder / "trace.dat");
  EXPECT_EQ(parts->front().kind, SourceKind::kTraceDat);
  EXPECT_EQ(parts->back().path, folder / "qemu.log");
  EXPECT_EQ(parts->back().kind, SourceKind::kQemuLog);
  EXPECT_TRUE(open_source(parts->front(), {}));
  EXPECT_FALSE(open_source(folder.path(), {}));
  // mono and real, and nobody wrote sync records.
  std::vector<clocks::SourceClock> clocks;
  for (const RecordingPart& part : *parts) clocks.push_back(clock_with_syncs(part.path));
  const auto related = clocks::align(clocks);
  ASSERT_FALSE(related);
  EXPECT_THAT(related.error().message, HasSubstr("--offset"));
  // session.json lists one.
  std::ofstream(folder / "session.json")
      << R"({"sync": [{"series": 1, "stamp_ns": 1000, "before": {"mono": 1000,
              "real": 1795250191000000000}, "after": {"mono": 1400, "real": 1795250191000000400}}]})";
  clocks.front() = clock_with_syncs(parts->front().path);
  EXPECT_TRUE(clocks::align(clocks));
  ASSERT_TRUE(clocks.front().interval);
  EXPECT_LT(clocks.front().interval->first, clocks.front().interval->last);
  // It is of trace.dat only.
  fs::copy_file(folder / "trace.dat", folder / "guest.dat");
  EXPECT_TRUE(clock_with_syncs(folder / "guest.dat").syncs.empty());
}

}  // namespace
}  // namespace trapline::test
