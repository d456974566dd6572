// What open_input() knows of a recording beside its events.
#include "merge/session/input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "merge/analyze/exit_model.h"
#include "merge/source/trace_dat/tail.h"
#include "tests/support/temporary_folder.h"

namespace trapline::test {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using trace_dat::RecorderText;

Input open(const std::string& path) {
  InputOptions options;
  options.paths = {path};
  auto input = open_input(options);
  EXPECT_TRUE(input) << input.error().message;
  return input ? std::move(*input) : Input();
}

// Their readers do not tell when the first and the last event were: only the files tell.
TEST(OpenInput, ARecordingGivenTwiceIsRefusedWhateverItsKind) {
  TemporaryFolder folder;
  std::ofstream(folder / "qemu.log") << "1@1795250191.908053:load_file a\n"
                                     << "1@1795250192.908053:load_file b\n";
  std::ofstream(folder / "trace.bin", std::ios::binary) << std::string_view(
      "\xff\xff\xff\xff\xff\xff\xff\xff"
      "\xb4\x29\xa4\x0a\xcb\x77\xb1\xf2"
      "\x04\0\0\0\0\0\0\0",
      24);
  fs::copy(std::string(TRAPLINE_SOURCE_DIR) + "/tests/merge/source/uftrace-qemu", folder / "guest");
  std::ofstream(folder / "events") << "load_file(const char *name) \"%s\"\n";
  for (const char* name : {"qemu.log", "trace.bin", "guest"}) {
    InputOptions options;
    options.trace_events = folder / "events";
    options.paths = {folder / name};
    EXPECT_TRUE(open_input(options)) << name;
    fs::create_symlink(name, folder / (std::string(name) + ".link"));
    for (const std::string& second : {folder / name, folder / (std::string(name) + ".link")}) {
      options.paths = {folder / name, second};
      const auto input = open_input(options);
      ASSERT_FALSE(input) << second;
      EXPECT_EQ(input.error().kind, ErrorKind::kUsage);
      EXPECT_EQ(input.error().message,
                folder / name + " and " + second + " hold the same run; give each run once");
    }
  }
}

// No exit of this host went to user space.
TEST(OpenInput, WhatASessionRecordedAndDidNotHappenIsKnown) {
  TemporaryFolder folder;
  fs::copy_file(std::string(TRAPLINE_TEST_DATA) + "/nested/svm.dat", folder / "trace.dat");
  std::ofstream(folder / "session.json") << R"({"version": 1, "events": ["kvm:kvm_exit"]})";
  EXPECT_FALSE(choose_exit_model(open(folder.path()).capabilities).userspace_exits);
  std::ofstream(folder / "session.json") << R"({"version": 1, "events":
    ["kvm:kvm_exit", "kvm:kvm_userspace_exit", "syscalls:sys_enter_ioctl"]})";
  const ExitModel model = choose_exit_model(open(folder.path()).capabilities);
  EXPECT_TRUE(model.userspace_exits);
  EXPECT_EQ(model.user_end, UserEnd::kIoctl);
  EXPECT_FALSE(choose_exit_model(open(folder / "trace.dat").capabilities).userspace_exits);
}

// The kernel counted all of the run: what a recording leaves out of it is in the count.
TEST(OpenInput, TheKernelsCountOfAThreadIsOnlyThatOfAWholeRecording) {
  TemporaryFolder folder;
  fs::copy_file(std::string(TRAPLINE_TEST_DATA) + "/nested/svm.dat", folder / "trace.dat");
  const auto counted = [&folder](const std::string& more) {
    std::ofstream(folder / "session.json")
        << R"({"version": 1, "threads": [{"tid": 7, "pid": 7, "ran_ns": [100, 350]}])" << more
        << '}';
    return open(folder.path()).processes.counted(ThreadId{7});
  };
  EXPECT_EQ(counted(R"(, "closed": true)"), 250u);
  EXPECT_EQ(counted(""), std::nullopt);
  EXPECT_EQ(counted(R"(, "closed": true, "snapshot": {"on": "exit > 1ms"})"), std::nullopt);
  EXPECT_EQ(counted(R"(, "closed": true, "flight": {"asked_by": "command"})"), std::nullopt);
  // Beside another recording, whose threads may have the same ids.
  EXPECT_EQ(counted(R"(, "closed": true)"), 250u);
  InputOptions both;
  both.paths = {folder.path(), std::string(TRAPLINE_TEST_DATA) + "/svm-mono.dat"};
  if (const auto input = open_input(both))
    EXPECT_EQ(input->processes.counted(ThreadId{7}), std::nullopt);
}

TEST(OpenInput, ASessionTellsHowItWasRecorded) {
  TemporaryFolder folder;
  fs::copy_file(std::string(TRAPLINE_TEST_DATA) + "/nested/svm.dat", folder / "trace.dat");
  std::ofstream(folder / "session.json") << R"({"version": 1, "closed": false,
    "command": ["qemu", "-m", "1G"], "versions": {"qemu": "10.0.2"},
    "host": {"kernel": "6.1.0", "machine": "x86_64", "cpus": 2}})";
  EXPECT_THAT(open(folder.path()).recorded,
              ElementsAre(Pair("Host", "x86_64 6.1.0, 2 CPUs"), Pair("QEMU", "10.0.2"),
                          Pair("Command", "qemu -m 1G"), Pair("Cut off", HasSubstr("not closed"))));
  std::ofstream(folder / "session.json") << R"({"version": 1, "closed": true})";
  EXPECT_THAT(open(folder.path()).recorded, IsEmpty());
}

// A full disk: the pages that there are mark no loss.
TEST(OpenInput, ASessionTellsWhatItsPagesDoNot) {
  TemporaryFolder folder;
  fs::copy_file(std::string(TRAPLINE_TEST_DATA) + "/nested/svm.dat", folder / "trace.dat");
  std::ofstream(folder / "session.json") << R"({"version": 1, "closed": true,
    "ended_by": "run/trace.dat: No space left on device", "warnings": ["tracing was switched off"],
    "losses": [{"cpu": 0, "unwritten_pages": 2, "unread": 5},
               {"cpu": 1, "unwritten_pages": 1, "read_by_others": 9}]})";
  const auto notes = open(folder.path()).notes;
  for (const char* note :
       {"3 pages of events could not be written", "5 events were left in the kernel",
        "at least 9 events were read by another process",
        "the recording was cut short: run/trace.dat: No space left on device",
        "tracing was switched off"}) {
    EXPECT_THAT(notes, Contains(note));
  }
  EXPECT_EQ(open(folder.path()).missing.size(), 4u);
  EXPECT_EQ(open(folder / "trace.dat").missing.size(), 4u);
  std::ofstream(folder / "session.json") << R"({"version": 1, "closed": true,
    "ended_by": "duration", "losses": [{"cpu": 0, "overwritten": 7}]})";
  EXPECT_THAT(open(folder.path()).missing, IsEmpty());
}

// Tracing was switched off before the first event: the pages are empty, and only this says why.
TEST(OpenInput, ASessionThatCannotBeReadTellsWhatItsRecorderSaid) {
  TemporaryFolder folder;
  std::ofstream(folder / "trace.dat", std::ios::binary)
      << std::string_view("\x17\x08\x44tracing6\0", 12);
  std::ofstream(folder / "session.json")
      << R"({"version": 1, "closed": true, "warnings": ["tracing was switched off"]})";
  InputOptions options;
  options.paths = {folder.path()};
  const auto input = open_input(options);
  ASSERT_FALSE(input);
  EXPECT_THAT(input.error().message, HasSubstr("its session.json says: tracing was switched off"));
}

// The same number of bytes, so that nothing else moves.
TEST(OpenInput, ABareFileNamesItsRecorder) {
  TemporaryFolder folder;
  std::ifstream file(std::string(TRAPLINE_TEST_DATA) + "/box/demo-v6.dat", std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  const std::string theirs("3.1.6 not-a-git-repo"), ours("trapline, process 12");
  ASSERT_EQ(theirs.size(), ours.size());
  const auto at = bytes.find(theirs);
  ASSERT_NE(at, std::string::npos);
  for (const bool is_ours : {false, true}) {
    if (is_ours) bytes.replace(at, ours.size(), ours);
    std::ofstream(folder / "trace.dat", std::ios::binary) << bytes;
    const auto recorder = open(folder / "trace.dat").processes.recorder;
    EXPECT_EQ(recorder, is_ours ? std::optional(ThreadId{12}) : std::nullopt);
  }
}

TEST(RecorderText, SaysWhoRecordedAndOfWhom) {
  for (const auto& [process, selected] : {std::pair{0, 0}, {230, 0}, {230, 131}}) {
    const RecorderText one{"trapline 0.1.0", process, selected};
    const RecorderText read = RecorderText::parse(one.text());
    EXPECT_EQ(read.program, one.program);
    EXPECT_EQ(read.process, process);
    EXPECT_EQ(read.selected, selected);
  }
  EXPECT_EQ((RecorderText{"trapline 1", 230, 131}.text()),
            "trapline 1, process 230, threads of 131 alone");
}

TEST(RecorderText, TakesNothingElseForAProcess) {
  for (const std::string text :
       {"", ",", "3.1.6 not-a-git-repo", "trace-cmd 4, process 7", "trapline 1, process",
        "trapline 1, process -7", "trapline 1, process 99999999999", "trapline 1, process 0",
        "trapline 1, threads of 7", "trapline 1, process x, threads of 7 alone"}) {
    const RecorderText read = RecorderText::parse(text);
    EXPECT_EQ(read.process, 0) << text;
    EXPECT_EQ(read.selected, 0) << text;
  }
}

}  // namespace
}  // namespace trapline::test
