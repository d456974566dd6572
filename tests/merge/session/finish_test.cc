// Making trace.dat whole, when the recorder or an earlier attempt was killed at any point.
#include "merge/session/finish.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "merge/record/session.h"
#include "merge/source/trace_dat/unfinished.h"
#include "tests/support/temporary_folder.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;

class FinishTest : public ::testing::Test {
 protected:
  FinishTest() {
    fs::create_directories(folder_ / "raw");
    write("session.json", "{}");
    write("raw/head", "HEAD");
    const trace_dat::StartFacts facts{4096, 4, 2, "local [mono]", "Linux test", "trapline test"};
    EXPECT_TRUE(trace_dat::write_start(*Folder::open(folder_), facts));
    write("raw/cpu0", std::string(3 * 4096, 'a'));
    write("raw/cpu1", std::string(600 * 4096, 'b') + "cut off page");
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void expect_whole() const {
    const std::string trace = read("trace.dat");
    EXPECT_TRUE(trace.starts_with("HEAD"));
    EXPECT_EQ(trace.size() % 4096, 0u);
    EXPECT_TRUE(trace.ends_with(std::string(3 * 4096, 'a') + std::string(600 * 4096, 'b')));
    EXPECT_FALSE(fs::exists(folder_ / "raw"));
  }

  test::TemporaryFolder temporary_;
  fs::path folder_ = temporary_ / "session";
};

TEST_F(FinishTest, PutsThePagesAfterTheHeadAndDropsACutOffPage) {
  ASSERT_EQ(finish_session(folder_), Finish::kFinished);
  expect_whole();
  EXPECT_EQ(finish_session(folder_), Finish::kNothingToDo);
}

TEST_F(FinishTest, GoesOnWhereAKilledAttemptEnded) {
  const fs::path spare = folder_.string() + ".spare";
  fs::copy(folder_, spare, fs::copy_options::recursive);
  ASSERT_EQ(finish_session(folder_), Finish::kFinished);
  const std::string whole = read("trace.dat");
  const std::size_t data = whole.size() - 603 * 4096;
  for (const std::size_t cut : {data, data + 100, data + 3 * 4096, data + 300 * 4096 + 7}) {
    fs::remove_all(folder_);
    fs::copy(spare, folder_, fs::copy_options::recursive);
    // The state after such a kill: the plan, the file so far, the pieces given back.
    write("trace.dat", whole.substr(0, cut));
    fs::remove(folder_ / "raw/head");
    write("raw/plan.json",
          fmt::format(R"({{"areas":[{{"offset":{},"size":{}}},{{"offset":{},"size":{}}}]}})", data,
                      3 * 4096, data + 3 * 4096, 600 * 4096));
    if (cut >= data + 3 * 4096) fs::remove(folder_ / "raw/cpu0");
    ASSERT_EQ(finish_session(folder_), Finish::kFinished) << cut;
    EXPECT_EQ(read("trace.dat"), whole) << cut;
  }
}

TEST_F(FinishTest, BeginsAgainWhenTheTailWasCutOff) {
  write("raw/head", "HEADhalf a tail");
  ASSERT_EQ(finish_session(folder_), Finish::kFinished);
  expect_whole();
}

TEST_F(FinishTest, LeavesASessionAloneThatIsBeingWritten) {
  const auto lock = lock_session(*Folder::open(folder_));
  ASSERT_TRUE(lock);
  const auto finished = finish_session(folder_);
  ASSERT_FALSE(finished);
  EXPECT_THAT(finished.error().message, ::testing::HasSubstr("still writing"));
}

TEST(LossTest, ReadsTheKernelsCounts) {
  const CpuLoss loss =
      read_loss(3, "entries: 5\noverrun: 12\ncommit overrun: 1\nbytes: 3\ndropped events: 4\n");
  EXPECT_EQ(loss.cpu, 3u);
  EXPECT_EQ(loss.overwritten, 12u);
  EXPECT_EQ(loss.dropped, 5u);
  EXPECT_EQ(loss.unread, 5u);
  EXPECT_FALSE(read_loss(0, "overrun: 0\n").any());
}

}  // namespace
}  // namespace trapline::record
