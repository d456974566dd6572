// One run of the plugin in trace_marker and in a directory: tests/merge/tcg/both.trapline.
#include "merge/session/marker_overlap.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace trapline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const fs::path kSession = fs::path(TRAPLINE_SOURCE_DIR) / "tests/merge/tcg/both.trapline";

class MarkerOverlapTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::copy(kSession / "uftrace.data", directory_); }
  [[nodiscard]] std::optional<MarkerOverlap> compared() const {
    auto overlap = compare_marker_calls(File::open(kSession / "trace.dat").value(), directory_);
    EXPECT_TRUE(overlap) << overlap.error().message;
    return overlap ? *overlap : std::nullopt;
  }
  void replace(const std::string& what, const std::string& with) const {
    const fs::path path = fs::path(directory_) / "sync.txt";
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    std::string all = text.str();
    for (auto at = all.find(what); at != all.npos; at = all.find(what, at + with.size()))
      all.replace(at, what.size(), with);
    std::ofstream(path) << all;
  }

  test::TemporaryFolder folder_;
  std::string directory_ = folder_ / "uftrace.data";
};

TEST_F(MarkerOverlapTest, EqualCallsCountOnceAndItIsTold) {
  const auto overlap = compared();
  ASSERT_TRUE(overlap);
  EXPECT_TRUE(overlap->use_markers);
  EXPECT_THAT(overlap->note, HasSubstr("(2538 calls and returns, no difference)"));
}

TEST_F(MarkerOverlapTest, CallsThatTheDirectoryLacksAreToldWithTheirFunction) {
  const fs::path records = fs::path(directory_) / "100.dat";
  // The last two records: rtc_read's or another's return, and kmain's.
  fs::resize_file(records, fs::file_size(records) - 32);
  const auto overlap = compared();
  ASSERT_TRUE(overlap);
  EXPECT_TRUE(overlap->use_markers);
  EXPECT_THAT(overlap->note, HasSubstr("2 calls and returns only in the markers, 0 only in the"));
  EXPECT_THAT(overlap->note, Not(HasSubstr("no difference")));
}

TEST_F(MarkerOverlapTest, ADirectoryOfAnotherRunIsAnotherGuests) {
  replace("# run: ", "# run: 9");
  EXPECT_FALSE(compared());
}

TEST_F(MarkerOverlapTest, WithoutItsRunTheFunctionsTell) {
  replace("# run: ", "# ran: ");
  EXPECT_TRUE(compared());
}

TEST_F(MarkerOverlapTest, WhatThePluginDidNotWriteIsNotCompared) {
  replace("# clock: ", "# klock: ");
  EXPECT_FALSE(compared());
}

}  // namespace
}  // namespace trapline
