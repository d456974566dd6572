// Switching events: in code, from a file, from the environment, over the monitor and over QMP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backend_ftrace/base/unique_fd.h"
#include "backend_ftrace/events/client.h"
#include "backend_ftrace/events/qemu_monitor.h"
#include "tests/support/require.h"
#include "tests/support/temporary_folder.h"
#include "trace-control.h"

namespace trapline {
namespace {

using ::testing::HasSubstr;

class ControlTest : public ::testing::Test {
 protected:
  void SetUp() override { trapline_events_set("*", false); }
  void TearDown() override {
    trapline_monitor_stop();
    trapline_events_set("*", false);
  }
  static bool on(const char* name) {
    const trapline_event* event = trapline_events_find(name);
    return event != nullptr && trapline_state_is_on(event->state);
  }
  std::string path(const char* name) const { return folder_ / name; }
  test::TemporaryFolder folder_;
  char error_[512] = "";
};

TEST_F(ControlTest, EventsAreOffUntilAPatternSwitchesThemOn) {
  EXPECT_FALSE(trace_event_get_state_backends(TRACE_ALPHA_READ));
  EXPECT_EQ(trapline_events_set("alpha_*", true), 2u);
  EXPECT_TRUE(trace_event_get_state_backends(TRACE_ALPHA_READ));
  EXPECT_TRUE(on("alpha_write"));
  EXPECT_FALSE(on("beta_numbers"));
  EXPECT_EQ(trapline_events_set("alpha_?ead", false), 1u);
  EXPECT_FALSE(on("alpha_read"));
  EXPECT_EQ(trapline_events_set("nothing", true), 0u);
}

TEST_F(ControlTest, DisabledAtCompileTimeMeansGone) {
  EXPECT_FALSE(trace_event_get_state_backends(TRACE_GAMMA_OFF));
  EXPECT_EQ(TRACE_GAMMA_OFF_ENABLED, 0);
  trace_gamma_off(1);
  EXPECT_EQ(trapline_events_find("gamma_off"), nullptr);
}

TEST_F(ControlTest, AListSwitchesInOrderAndNamesTheNearest) {
  EXPECT_EQ(trapline_events_apply("*,-alpha_write", error_, sizeof error_), 0);
  EXPECT_TRUE(on("alpha_read"));
  EXPECT_FALSE(on("alpha_write"));
  EXPECT_EQ(trapline_events_apply("alpha_raed,alpha_write", error_, sizeof error_), -1);
  EXPECT_STREQ(error_, "no event matches 'alpha_raed'; did you mean alpha_read?");
  EXPECT_TRUE(on("alpha_write"));  // the rest is applied
}

TEST_F(ControlTest, AnEventsFileHasOnePatternPerLine) {
  const std::string file = path("events");
  std::ofstream(file) << "# noise\n\n  alpha_*  \n-alpha_read\n";
  EXPECT_EQ(trapline_events_load(file.c_str(), error_, sizeof error_), 0) << error_;
  EXPECT_FALSE(on("alpha_read"));
  EXPECT_TRUE(on("alpha_write"));
  EXPECT_EQ(trapline_events_apply(("-*,file=" + file).c_str(), error_, sizeof error_), 0);
  EXPECT_EQ(trapline_events_load("/nonexistent", error_, sizeof error_), -1);
  EXPECT_THAT(error_, HasSubstr("cannot read the events file '/nonexistent'; No such file"));
}

TEST_F(ControlTest, TheEnvironmentSwitchesWhatRegisters) {
  ::setenv("TRAPLINE_EVENTS", "late_*", 1);
  std::uint32_t states[2] = {0, 0};
  trapline_event events[2] = {{"late_one", "", &states[0], 0}, {"other", "", &states[1], 0}};
  trapline_event_group group{"late", events, 2, 0, nullptr};
  trapline_events_register(&group);
  ::unsetenv("TRAPLINE_EVENTS");
  EXPECT_EQ(states[0], 1u);
  EXPECT_EQ(states[1], 0u);
  trapline_events_unregister(&group);
  EXPECT_EQ(trapline_events_find("late_one"), nullptr);
}

TEST_F(ControlTest, TheMonitorListsAndSwitchesForTheCommand) {
  const std::string socket = path("monitor");
  ASSERT_EQ(trapline_monitor_start(socket.c_str(), error_, sizeof error_), 0) << error_;
  EXPECT_EQ(trapline_monitor_start(socket.c_str(), error_, sizeof error_), -1);
  auto control = connect_monitor(socket);
  ASSERT_TRUE(control) << control.error().message;
  ASSERT_TRUE((*control)->set("alpha_*", true));
  EXPECT_TRUE(on("alpha_read"));
  const auto states = (*control)->list("*");
  ASSERT_TRUE(states);
  ASSERT_EQ(states->size(), 3u);
  EXPECT_EQ((*states)[0].name, "alpha_read");
  EXPECT_TRUE((*states)[0].on);
  EXPECT_FALSE((*states)[2].on);
  const auto unknown = (*control)->set("beta_nubers", true);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("did you mean beta_numbers?"));
  const auto no_file = (*control)->trace_file("flush");
  ASSERT_FALSE(no_file);
  EXPECT_THAT(no_file.error().message, HasSubstr("no trace file is open"));
  const std::string trace = path("trace");
  EXPECT_TRUE((*control)->trace_file(trace));
  EXPECT_TRUE((*control)->trace_file("off"));
  EXPECT_TRUE((*control)->trace_file("on"));
  EXPECT_TRUE((*control)->trace_file("flush"));
  trapline_simple_close();
  EXPECT_EQ(::access(trace.c_str(), R_OK), 0);
  control->reset();
  trapline_monitor_stop();
  EXPECT_FALSE(connect_monitor(socket));
}

TEST_F(ControlTest, AMonitorSocketIsForTheSameUserAndLeavesOtherFilesAlone) {
  const std::string file = path("file");
  std::ofstream{file} << "mine";
  EXPECT_EQ(trapline_monitor_start(file.c_str(), error_, sizeof error_), -1);
  EXPECT_THAT(error_, HasSubstr("there is a file"));
  const std::string socket = path("stale");
  ASSERT_EQ(trapline_monitor_start(socket.c_str(), error_, sizeof error_), 0);
  struct stat status {};
  ASSERT_EQ(::stat(socket.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(ControlTest, ASocketThatSomebodyListensOnStaysHoweverBusyHeIs) {
  const std::string busy = path("busy");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  busy.copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* at = reinterpret_cast<const sockaddr*>(&address);
  const UniqueFd listens(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listens.get(), at, sizeof address), 0);
  ASSERT_EQ(::listen(listens.get(), 0), 0);
  const UniqueFd waits(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_EQ(::connect(waits.get(), at, sizeof address), 0);
  EXPECT_EQ(trapline_monitor_start(busy.c_str(), error_, sizeof error_), -1);
  EXPECT_THAT(error_, HasSubstr("a program listens already"));
  EXPECT_EQ(::access(busy.c_str(), F_OK), 0);
}

TEST_F(ControlTest, NoLinkOfSomebodyElseLeadsRootsMonitorAstray) {
  TRAPLINE_REQUIRE(::geteuid() == 0, "needs root");
  const std::string his = path("his"), victim = path("victim");
  for (const std::string& made : {his, his + "/below", victim}) {
    ASSERT_EQ(::mkdir(made.c_str(), 0755), 0);
    ASSERT_TRUE(made == victim || ::chown(made.c_str(), 54321, 54321) == 0);
  }
  std::ofstream(victim + "/socket") << "root's";
  std::filesystem::create_symlink(victim, his + "/link");
  EXPECT_EQ(trapline_monitor_start((his + "/link/new").c_str(), error_, sizeof error_), -1);
  EXPECT_THAT(error_, HasSubstr("a link in its path is not followed"));
  const std::string socket = his + "/below/socket";
  ASSERT_EQ(trapline_monitor_start(socket.c_str(), error_, sizeof error_), 0) << error_;
  // He puts a link in the place of the folder while the program runs.
  std::filesystem::rename(his + "/below", his + "/moved");
  std::filesystem::rename(his + "/link", his + "/below");
  trapline_monitor_stop();
  EXPECT_EQ(::access((victim + "/socket").c_str(), F_OK), 0);
  EXPECT_NE(::access((his + "/moved/socket").c_str(), F_OK), 0) << "the socket is gone";
  EXPECT_NE(::access((victim + "/new").c_str(), F_OK), 0);
}

TEST_F(ControlTest, NonsenseAndEndlessLinesDoNotHarmTheMonitor) {
  const std::string socket = path("fuzz");
  ASSERT_EQ(trapline_monitor_start(socket.c_str(), error_, sizeof error_), 0);
  for (const std::string& bytes :
       {std::string("\n\n\n"), std::string("trace-event\n"), std::string(5000, 'x'),
        std::string("\0\xff\n", 3),
        std::string("info trace-events ") + std::string(900, '*') + "\n"}) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket.copy(address.sun_path, sizeof address.sun_path - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_GT(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
    ::shutdown(fd, SHUT_WR);
    char answer[4096];
    while (::recv(fd, answer, sizeof answer, 0) > 0) {
    }
    ::close(fd);
  }
  auto control = connect_monitor(socket);
  ASSERT_TRUE(control);
  EXPECT_TRUE((*control)->set("alpha_read", true));
}

TEST_F(ControlTest, AMonitorWithoutAFreeDescriptorWaitsForOne) {
  const std::string socket = path("socket");
  ASSERT_EQ(trapline_monitor_start(socket.c_str(), error_, sizeof error_), 0) << error_;
  const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket.copy(address.sun_path, sizeof address.sun_path - 1);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{static_cast<rlim_t>(client.get()) + 1, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::clock_t before = std::clock();
  EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::usleep(500'000);
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 4);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(::send(client.get(), "trace-file\n", 11, 0), 11);
  char answer[64] = "";
  EXPECT_GT(::recv(client.get(), answer, sizeof answer - 1, 0), 0);
  EXPECT_THAT(answer, HasSubstr("no trace file is open"));
}

// A QMP server that says what QEMU 10.0.2 says, for one client.
TEST_F(ControlTest, QmpIsSpokenAsQemuSpeaksIt) {
  const std::string path_of_socket = path("qmp");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_of_socket.copy(address.sun_path, sizeof address.sun_path - 1);
  const int server = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(server, 1), 0);
  std::vector<std::string> requests;
  std::thread qemu([&] {
    const int client = ::accept(server, nullptr, nullptr);
    const auto say = [&](const std::string& text) {
      (void)!::write(client, text.data(), text.size());
    };
    say("{\"QMP\": {\"version\": {}, \"capabilities\": []}}\r\n");
    std::string buffer;
    char bytes[4096];
    for (ssize_t got = 0; (got = ::read(client, bytes, sizeof bytes)) > 0;) {
      buffer.append(bytes, static_cast<std::size_t>(got));
      while (buffer.find('\n') != std::string::npos) {
        requests.push_back(buffer.substr(0, buffer.find('\n')));
        buffer.erase(0, buffer.find('\n') + 1);
        const std::string& last = requests.back();
        // As if the command before had timed out.
        say("{\"return\": [], \"id\": " + std::to_string(requests.size() - 1) + "}\r\n");
        const std::string end = ", \"id\": " + std::to_string(requests.size()) + "}\r\n";
        if (last.find("get-state") == std::string::npos) {
          say("{\"event\": \"RESUME\"}\r\n{\"return\": {}" + end);
        } else if (last.find("missing") != std::string::npos) {
          say("{\"error\": {\"class\": \"GenericError\", \"desc\": \"unknown event\"}" + end);
        } else {
          say("{\"return\": [{\"name\": \"serial_write\", \"state\": \"enabled\"}]" + end);
        }
      }
    }
    ::close(client);
  });
  {
    auto control = connect_qmp(path_of_socket);
    ASSERT_TRUE(control) << control.error().message;
    const auto states = (*control)->list("serial_*");
    ASSERT_TRUE(states);
    EXPECT_TRUE(states->at(0).on);
    EXPECT_TRUE((*control)->set("serial_write", true));
    const auto unknown = (*control)->set("serial_wrte_missing", true);
    ASSERT_FALSE(unknown);
    EXPECT_THAT(unknown.error().message, HasSubstr("no event matches"));
    EXPECT_FALSE((*control)->trace_file("on"));
  }
  qemu.join();
  ::close(server);
  ::unlink(path_of_socket.c_str());
  EXPECT_THAT(requests, ::testing::Contains(HasSubstr("trace-event-set-state")));
}

// A human monitor on which the command before timed out.
TEST_F(ControlTest, ALateAnswerOfTheHumanMonitorIsNotTheNextOne) {
  const std::string path_of_socket = path("hmp");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_of_socket.copy(address.sun_path, sizeof address.sun_path - 1);
  const UniqueFd server(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(::bind(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(server.get(), 1), 0);
  std::thread qemu([&] {
    const UniqueFd client(::accept(server.get(), nullptr, nullptr));
    const std::string answers =
        "QEMU 10.0.2 monitor - type 'help' for more information\r\nlate : state 1\r\n"
        "(qemu) print 7340032\r\n0x700000\r\n(qemu) info trace-events x*\r\nx_read : state 0\r\n"
        "(qemu) print 7340033\r\n0x700001\r\n";
    EXPECT_GT(::write(client.get(), answers.data(), answers.size()), 0);
    char bytes[4096];
    while (::read(client.get(), bytes, sizeof bytes) > 0) {
    }
  });
  {
    auto monitor = connect_qemu(path_of_socket);
    ASSERT_TRUE(monitor) << monitor.error().message;
    const auto lines = (*monitor)->human("info trace-events x*");
    ASSERT_TRUE(lines) << lines.error().message;
    EXPECT_THAT(*lines, ::testing::ElementsAre("x_read : state 0"));
  }
  qemu.join();
}

}  // namespace
}  // namespace trapline
