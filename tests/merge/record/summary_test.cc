#include "merge/record/summary.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace trapline::record {
namespace {

class SummaryTest : public ::testing::Test {
 protected:
  // Of a folder with a space in its name, in which there is nothing to read.
  std::vector<std::string> lines(const SessionJson& session, std::uint64_t took_ns) {
    std::filesystem::create_directory(path_);
    const auto folder = Folder::open(path_);
    EXPECT_TRUE(folder) << folder.error().message;
    return summary(session, {*folder, 0, 0, true, took_ns});
  }

  test::TemporaryFolder above_;
  std::string path_ = above_ / "my run";
};

TEST_F(SummaryTest, AClockThatIsSetBackChangesNoDuration) {
  SessionJson session;
  session.start_real_ns = 5'000'000'000;
  session.end_real_ns = 1'000'000'000;
  EXPECT_EQ(lines(session, 1'500'000'000).front(), "recorded 0.0 MiB in 1.5 s");
}

TEST_F(SummaryTest, TheNextCommandCanBePastedIntoAShell) {
  EXPECT_EQ(lines({}, 1).back(), "next: trapline info '" + path_ + "'");
}

TEST_F(SummaryTest, EventsThatAnotherProcessReadAreALoss) {
  SessionJson session;
  session.instance = "trapline-1";
  EXPECT_THAT(lines(session, 1), ::testing::Contains("lost nothing"));
  session.losses = {{2, 0, 0, 0, 0, 7}};
  const std::vector<std::string> told = lines(session, 1);
  EXPECT_THAT(told, ::testing::Not(::testing::Contains("lost nothing")));
  EXPECT_THAT(told, ::testing::Contains(
                        "lost on CPU 2: 0 events overwritten, 0 dropped from a full buffer, 0 "
                        "pages not written, at least 7 events read by another process"));
  EXPECT_THAT(told, ::testing::Contains(::testing::HasSubstr("the ftrace instance trapline-1")));
}

TEST(BeginningTest, SaysWhatIsRecordedWhereToAndHowItEnds) {
  RecordOptions options;
  EXPECT_EQ(beginning(options, 2), "recording this host, 2 VMs, into run.trapline; Ctrl-C ends");
  EXPECT_EQ(beginning(options, 1), "recording this host, 1 VM, into run.trapline; Ctrl-C ends");
  EXPECT_EQ(beginning(options, 0),
            "recording this host, no VM seen, into run.trapline; Ctrl-C ends");
  EXPECT_EQ(beginning(options, {}), "recording this host into run.trapline; Ctrl-C ends");
  options.folder = "my run";
  options.duration_ns = 1'500'000'000;
  EXPECT_EQ(beginning(options, {}),
            "recording this host into 'my run'; ends after 1.5 s, or by Ctrl-C");
  options.command = {"/usr/bin/qemu", "-S"};
  EXPECT_EQ(beginning(options, 0),
            "recording this host into 'my run'; ends with /usr/bin/qemu, or after 1.5 s, or by "
            "Ctrl-C");
  options = {};
  options.pid = 12;
  EXPECT_EQ(beginning(options, {}),
            "recording process 12 into run.trapline; ends with the process, or by Ctrl-C");
  options = {};
  options.flight.emplace();
  EXPECT_EQ(beginning(options, {}), "recording this host into memory; Ctrl-C ends");
}

TEST_F(SummaryTest, ThatNoExitCameIsSaidWhereExitsWereRecorded) {
  const auto told = [this](const char* recording, const SessionJson& session) {
    std::filesystem::create_directory(path_);
    std::filesystem::copy_file(std::string(TRAPLINE_TEST_DATA "/box/") + recording,
                               path_ + "/trace.dat",
                               std::filesystem::copy_options::overwrite_existing);
    const auto folder = Folder::open(path_);
    return ending_of(session, {*folder, 1, 1, true, 1}).no_exit;
  };
  SessionJson session;
  EXPECT_EQ(told("no-kvm.dat", session), "");
  session.events = {"kvm:kvm_exit"};
  EXPECT_THAT(told("no-kvm.dat", session),
              ::testing::MatchesRegex("no VM exit came: .*; trapline doctor checks this host"));
  EXPECT_THAT(told("demo-userspace.dat", session),
              ::testing::StartsWith("no kvm_exit came, only exits to user space: "));
  EXPECT_EQ(told("demo-local.dat", session), "");
  session.snapshot.emplace();  // drops what is around no hit
  EXPECT_EQ(told("no-kvm.dat", session), "");
}

}  // namespace
}  // namespace trapline::record
