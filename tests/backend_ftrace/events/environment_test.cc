// What the environment says at start, and the trace file through the monitor.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backend_ftrace/base/unique_fd.h"
#include "backend_ftrace/events/client.h"
#include "tests/support/require.h"
#include "tests/support/temporary_folder.h"
#include "trace-control.h"

namespace trapline {
namespace {

using ::testing::HasSubstr;

// A program of two groups that registers them, waits for a line on standard input and ends.
class EnvironmentTest : public ::testing::Test {
 protected:
  // What the program says on standard error before it is told to end, up to `until`; all of it if
  // "".
  std::string run(const std::string& list, const std::string& until, std::uint32_t backends = 0) {
    int from[2];
    int to[2];
    EXPECT_EQ(::pipe(from), 0);
    EXPECT_EQ(::pipe(to), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(from[1], STDERR_FILENO);
      ::close(from[0]);
      ::close(from[1]);
      ::close(to[1]);
      ::setenv("TRAPLINE_EVENTS", list.c_str(), 1);
      if (::chdir(folder_.path().c_str()) != 0) ::_exit(1);
      program(backends);
      char end = 0;
      std::exit(::read(to[0], &end, 1) == 0 ? 0 : 1);
    }
    ::close(from[1]);
    ::close(to[0]);
    std::string said;
    char bytes[4096];
    const auto read_more = [&] {
      const ssize_t got = ::read(from[0], bytes, sizeof bytes);
      if (got > 0) said.append(bytes, static_cast<std::size_t>(got));
      return got > 0;
    };
    while (!until.empty() && said.find(until) == std::string::npos && read_more()) {
    }
    ::close(to[1]);
    while (read_more()) {
    }
    ::close(from[0]);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    child_ = child;
    return said;
  }
  // run() for what is wanted. A machine that stalls between the two registrations, for the tenth of
  // a second after which is looked for what nothing matches, makes it say other things: not five
  // times.
  std::string run_for(const std::string& wanted, const std::string& list, const std::string& until,
                      std::uint32_t backends = 0) {
    std::string said = run(list, until, backends);
    const auto is_good = [&] {
      return wanted.empty() ? said.empty() : said.find(wanted) != std::string::npos;
    };
    for (int again = 0; again < 4 && !is_good(); ++again) said = run(list, until, backends);
    return said;
  }
  std::string said_of_right(const std::string& list, std::uint32_t backends = 0) {
    return run_for("", list, "", backends);
  }
  std::string unnamed() const { return folder_ / ("trace-" + std::to_string(child_)); }
  static void program(std::uint32_t backends) {
    static std::uint32_t states[2] = {0, 0};
    static trapline_event one[1] = {{"first_event", "", &states[0], 0}};
    static trapline_event two[1] = {{"second_event", "", &states[1], 0}};
    static trapline_event_group first{"first", one, 1, backends, nullptr};
    static trapline_event_group second{"second", two, 1, backends, nullptr};
    trapline_events_register(&first);
    trapline_events_register(&second);
    for (const auto& event : {one[0], two[0]}) {
      if (trapline_state_is_on(event.state)) trapline_simple_integers(event.id, nullptr, 0);
    }
    if ((backends & TRAPLINE_BACKEND_FTRACE) != 0) trapline_ftrace_event("%d", 1);
  }
  pid_t child_ = 0;
  test::TemporaryFolder folder_;
};

TEST_F(EnvironmentTest, WhatIsRightIsNotCommented) {
  EXPECT_EQ(said_of_right("first_*,-second_event"), "");
  EXPECT_EQ(said_of_right("second_event"), "");  // the first group does not know it
}

TEST_F(EnvironmentTest, APatternThatMatchesNothingIsToldWhileTheProgramRunsAndWithTheNearest) {
  EXPECT_THAT(
      run_for("did you mean second_event?", "second_*,secnd_event,nonsense_*", "nonsense_*'"),
      ::testing::AllOf(
          HasSubstr("trapline: TRAPLINE_EVENTS: no event matches 'secnd_event'; did you mean "
                    "second_event?\n"),
          HasSubstr("trapline: TRAPLINE_EVENTS: no event matches 'nonsense_*'; "
                    "TRAPLINE_EVENTS=help lists the events\n")));
}

TEST_F(EnvironmentTest, AProgramThatEndsAtOnceTellsItOnce) {
  EXPECT_EQ(
      run("nonsense", ""),
      "trapline: TRAPLINE_EVENTS: no event matches 'nonsense'; TRAPLINE_EVENTS=help lists the "
      "events\n");
}

TEST_F(EnvironmentTest, AnEventsFileThatIsMissingIsToldOnceForAllGroups) {
  EXPECT_EQ(run("file=/nonexistent/events,first_event", ""),
            "trapline: TRAPLINE_EVENTS: cannot read the events file '/nonexistent/events'; No such "
            "file or directory\n");
}

TEST_F(EnvironmentTest, HelpListsTheEvents) {
  const std::string head = "trapline: the events of this program:\n";
  EXPECT_THAT(run("help", head), HasSubstr(head));
  const std::string list = "\nfirst_event\nsecond_event\n";
  EXPECT_THAT(run_for(list, "help", ""), HasSubstr(list));
}

TEST_F(EnvironmentTest, TheSimpleBackendWithoutANameWritesTracePid) {
  EXPECT_EQ(said_of_right("second_event", TRAPLINE_BACKEND_SIMPLE), "");
  std::ifstream file(unnamed(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(bytes, HasSubstr("second_event"));
  EXPECT_EQ(::unlink(unnamed().c_str()), 0);
  // No event is on: no file. An empty name: no file either.
  EXPECT_EQ(said_of_right("-second_event", TRAPLINE_BACKEND_SIMPLE), "");
  EXPECT_NE(::access(unnamed().c_str(), F_OK), 0);
  ::setenv("TRAPLINE_TRACE_FILE", "", 1);
  EXPECT_EQ(said_of_right("second_event", TRAPLINE_BACKEND_SIMPLE), "");
  EXPECT_NE(::access(unnamed().c_str(), F_OK), 0);
  ::unsetenv("TRAPLINE_TRACE_FILE");
}

TEST_F(EnvironmentTest, TheLayoutIsChosenByTheEnvironment) {
  ::setenv("TRAPLINE_TRACE_LAYOUT", "rfc", 1);
  EXPECT_EQ(said_of_right("second_event", TRAPLINE_BACKEND_SIMPLE), "");
  std::ifstream file(unnamed(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(bytes.substr(0, 8), std::string("\xff\x11\x00\xaa\0\0\0\0", 8));
  EXPECT_EQ(::unlink(unnamed().c_str()), 0);
  ::setenv("TRAPLINE_TRACE_LAYOUT", "old", 1);
  EXPECT_THAT(run("second_event", "", TRAPLINE_BACKEND_SIMPLE),
              HasSubstr("TRAPLINE_TRACE_LAYOUT: 'old' is not a layout; use qemu or rfc"));
  EXPECT_EQ(::unlink(unnamed().c_str()), 0);
  ::unsetenv("TRAPLINE_TRACE_LAYOUT");
}

TEST_F(EnvironmentTest, OnlyANumberIsADescriptor) {
  for (const char* text : {"marker", "1x", "4294967297", "-1"}) {
    ::setenv("TRAPLINE_FTRACE_FD", text, 1);
    EXPECT_THAT(run("", "", TRAPLINE_BACKEND_FTRACE),
                HasSubstr(std::string("TRAPLINE_FTRACE_FD=") + text + " is not the number"));
  }
  ::unsetenv("TRAPLINE_FTRACE_FD");
}

// What the log's opening says: this program, run anew, opens it before it lists its tests.
std::string said_of_log(const std::string& log) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "TRAPLINE_LOG='" + log + "' timeout 60 '" + program +
                              "' --gtest_list_tests 2>&1 >/dev/null || echo failed";
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  std::string said;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said += static_cast<char>(c);
  ::pclose(pipe);
  return said;
}

TEST(LogTest, IsAFileOrADeviceAndIsNotWaitedFor) {
  test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("new", folder / "link");
  for (const std::string& log : {folder / "new", folder / "new", std::string("/dev/null"),
                                 std::string("/dev/stderr"), std::string("/dev/fd/1")}) {
    EXPECT_EQ(said_of_log(log), "") << log;
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "new"));
  EXPECT_THAT(said_of_log(folder / "fifo"), HasSubstr("fifo: a pipe that nobody reads"));
  EXPECT_THAT(said_of_log(folder / "link"), HasSubstr("link: a symbolic link, which is not"));
  EXPECT_THAT(said_of_log(folder.path()), HasSubstr("Is a directory"));
}

TEST(LogTest, RootsIsMadeWhereNobodyElseLeadsIt) {
  TRAPLINE_REQUIRE(::geteuid() == 0, "needs root");
  test::TemporaryFolder folder;
  const std::string his = folder / "his", roots = folder / "roots";
  std::filesystem::create_directory(his);
  std::filesystem::create_directory(roots);
  std::filesystem::create_symlink(roots, his + "/link");
  std::filesystem::create_symlink(roots, folder / "own");
  std::ofstream(his + "/file") << "his";
  std::ofstream(folder / "precious") << "root's";
  std::filesystem::create_hard_link(folder / "precious", his + "/second");
  for (const std::string& made : {his, his + "/file"}) {
    ASSERT_EQ(::chown(made.c_str(), 54321, 54321), 0);
  }
  EXPECT_THAT(said_of_log(his + "/link/log"), HasSubstr("a symbolic link, which is not followed"));
  EXPECT_THAT(said_of_log(his + "/file"), HasSubstr("not a file that root made"));
  EXPECT_THAT(said_of_log(his + "/second"), HasSubstr("not a file that root made"));
  EXPECT_TRUE(std::filesystem::is_empty(roots));
  EXPECT_EQ(said_of_log(his + "/log"), "");
  EXPECT_EQ(said_of_log(folder / "own/log"), "") << "by a link that only root can have made";
  EXPECT_TRUE(std::filesystem::exists(roots + "/log"));
}

class TraceFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(trapline_monitor_start(path("files").c_str(), error_, sizeof error_), 0) << error_;
    control_ = std::move(*connect_monitor(path("files")));
    trapline_events_set("alpha_read", true);
    trapline_log_set(null_.get(), false);
  }
  void TearDown() override {
    control_.reset();
    trapline_simple_close();
    trapline_log_set(-1, false);
    trapline_monitor_stop();
    trapline_events_set("*", false);
  }
  std::string path(const char* name) const { return folder_ / name; }
  std::string say(const std::string& action) {
    auto answer = control_->trace_file(action);
    return answer ? *answer : answer.error().message;
  }
  static std::uintmax_t size(const std::string& file) { return std::filesystem::file_size(file); }
  test::TemporaryFolder folder_;
  char error_[512] = "";
  std::unique_ptr<EventControl> control_;
  UniqueFd null_{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
};

TEST_F(TraceFileTest, AFileThatCannotBeOpenedLeavesTheOldOneOpen) {
  const std::string old = path("old");
  ASSERT_EQ(say(old), "");
  trace_alpha_read(1);
  for (const char* bad : {"/nonexistent/file", "/dev/full"}) {
    EXPECT_THAT(say(bad), HasSubstr(std::string("trace file ") + bad + ": "));
  }
  ASSERT_EQ(say("flush"), "");
  const auto one = size(old);
  trace_alpha_read(2);
  ASSERT_EQ(say("flush"), "");
  EXPECT_EQ(size(old), one + 8 + 24 + 8);  // type, header, one argument
  EXPECT_THAT(say("status"), HasSubstr("trace file \"" + old + "\" on, layout qemu, 0 events"));
}

TEST_F(TraceFileTest, WithoutAnArgumentItShowsTheState) {
  EXPECT_EQ(say("status"), "no trace file is open\n");
  ASSERT_EQ(say(path("state")), "");
  ASSERT_EQ(say("off"), "");
  EXPECT_EQ(say("status"),
            "trace file \"" + path("state") + "\" off, layout qemu, 0 events dropped\n");
}

TEST_F(TraceFileTest, ASwitchLosesNothingAndTheOldFileHasWhatWasBefore) {
  ASSERT_EQ(say(path("before")), "");
  for (int i = 0; i < 100; ++i) trace_alpha_read(i);
  ASSERT_EQ(say(path("after")), "");
  for (int i = 0; i < 10; ++i) trace_alpha_read(i);
  ASSERT_EQ(say("flush"), "");
  EXPECT_EQ(size(path("before")) - size(path("after")), 90u * (8 + 24 + 8));
  ASSERT_EQ(say(path("after")), "");  // the same again: it begins anew
  EXPECT_EQ(size(path("before")) - size(path("after")), 100u * (8 + 24 + 8));
}

TEST_F(TraceFileTest, TheLayoutOfTheNextFileIsChosenByTheMonitor) {
  EXPECT_EQ(say("layout=rfc"), "");
  ASSERT_EQ(say(path("rfc")), "");
  EXPECT_THAT(say("status"), HasSubstr("layout rfc"));
  trace_alpha_read(1);
  ASSERT_EQ(say("flush"), "");
  EXPECT_EQ(size(path("rfc")), 32u + 32 + 8 + 8);
  EXPECT_THAT(say("layout=old"), HasSubstr("expected trace-file layout qemu"));
  EXPECT_EQ(say("layout=qemu"), "");
}

TEST_F(TraceFileTest, AFileWithoutANameGivesWayToOneWithAName) {
  const std::string here = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const std::string unnamed = "trace-" + std::to_string(::getpid());
  ASSERT_EQ(say("on"), "");
  EXPECT_THAT(say("status"), HasSubstr("\"" + unnamed + "\" on"));
  EXPECT_TRUE(std::filesystem::exists(unnamed));
  trapline_simple_options options{};
  const std::string named = path("named");
  options.path = named.c_str();
  EXPECT_EQ(trapline_simple_open(&options, error_, sizeof error_), 0) << error_;
  EXPECT_FALSE(std::filesystem::exists(unnamed));  // it had no event
  EXPECT_THAT(say("status"), HasSubstr(named));
  std::filesystem::current_path(here);
}

}  // namespace
}  // namespace trapline
