// output=ftrace and output=both: calls as text in a tracefs instance of the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/sync.h"
#include "tests/plugin/qemu_run.h"
#include "tests/support/require.h"

namespace trapline::testing {
namespace {

class Instance {
 public:
  Instance()
      : path_("/sys/kernel/tracing/instances/trapline-plugin-" + std::to_string(::getpid())) {
    std::error_code error;
    std::filesystem::create_directory(path_, error);
    made_ = !error;
  }
  ~Instance() {
    if (made_) ::rmdir(path_.c_str());
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  explicit operator bool() const { return made_; }
  [[nodiscard]] std::string name() const { return std::filesystem::path(path_).filename(); }
  [[nodiscard]] std::vector<std::string> markers() const {
    std::ifstream trace(path_ + "/trace");
    std::vector<std::string> texts;
    for (std::string line; std::getline(trace, line);)
      if (const auto at = line.find("tracing_mark_write: "); at != line.npos)
        texts.push_back(line.substr(at + 20));
    return texts;
  }

 private:
  std::string path_;
  bool made_ = false;
};

class MarkerTest : public ::testing::TestWithParam<const char*> {};

TEST_P(MarkerTest, SelectedCallsAreMarkersOneEachBetweenTwoSyncSeries) {
  Instance instance;
  TRAPLINE_REQUIRE(bool(instance), "tracefs and root");
  TRAPLINE_REQUIRE(!qemu_folder(GetParam()).empty(),
                   std::string("scripts/fetch qemu") + GetParam());
  TemporaryFolder folder;
  const std::string data = folder / "uftrace.data";
  const Output output =
      run(guest_command(GetParam(), "x86_64", "O2",
                        "out=" + data + ",symbols=" + guest_path("x86_64", "O2") +
                            ",output=both,include=small_*,instance=" + instance.name()));
  std::vector<std::string> calls;
  std::size_t syncs = 0;
  for (const std::string& text : instance.markers()) {
    if (parse_sync(text))
      ++syncs;
    else
      calls.push_back(text);
  }
  EXPECT_EQ(syncs, 2 * (kSyncTries + 1)) << output.err;
  // trapline: E|X cpuN d=DEPTH 0xADDRESS NAME
  ASSERT_EQ(calls.size(), 6u);
  const char* expected[] = {"E cpu0 d=0 0x* small_a", "E cpu0 d=1 0x* small_b",
                            "X cpu0 d=1 0x* small_b", "E cpu0 d=1 0x* small_b",
                            "X cpu0 d=1 0x* small_b", "X cpu0 d=0 0x* small_a"};
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_TRUE(matches(std::string("trapline: ") + expected[i], calls[i])) << calls[i];
  const std::map<std::string, std::uint64_t> both{{"small_a", 1}, {"small_b", 2}};
  EXPECT_EQ(reported_calls(data), both);
}

INSTANTIATE_TEST_SUITE_P(Qemu, MarkerTest, ::testing::Values("10", "11"));

}  // namespace
}  // namespace trapline::testing
