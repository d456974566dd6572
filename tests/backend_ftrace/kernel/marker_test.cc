// The marker writer against the real kernel, read back through libtracefs.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <map>
#include <thread>

#include "backend_ftrace/sync.h"
#include "backend_ftrace/tracefs.h"
#include "tests/support/instance.h"
#include "tests/support/require.h"
#include "tests/support/temporary_folder.h"
#include "trapline/ftrace.hpp"

namespace trapline {
namespace {

using test::Instance;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kWhy = "needs root and tracefs at /sys/kernel/tracing";

class MarkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    TRAPLINE_REQUIRE(Instance::usable(), kWhy);
    instance_.emplace();
    ASSERT_FALSE(instance_->name().empty());
    ASSERT_TRUE(instance_->set("trace_clock", "mono"));
    std::string error;
    auto opened = Marker::open({instance_->name(), {}}, &error);
    ASSERT_TRUE(opened) << error;
    marker_ = std::move(*opened);
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> found;
    for (auto& marker : instance_->markers()) found.push_back(marker.text);
    return found;
  }

  std::optional<Instance> instance_;
  Marker marker_;
};

TEST_F(MarkerTest, TextArrivesAsItWasFormatted) {
  EXPECT_EQ(marker_.write("plain"), 5);
  EXPECT_EQ(marker_.printf("%s %d 0x%lx %p", "fmt", -1, 255ul, static_cast<void*>(nullptr)), 17);
  EXPECT_EQ(marker_.printf("with\nline %c", 'x'), 11);
  EXPECT_EQ(marker_.printf("%s", ""), 0);
  EXPECT_EQ(marker_.write("\xff\xfe not UTF-8"), 12);
  EXPECT_THAT(texts(),
              ElementsAre("plain", "fmt -1 0xff (nil)", "with\nline x", "\xff\xfe not UTF-8"));
  EXPECT_EQ(marker_.counts().cut, 0u);
  EXPECT_EQ(marker_.counts().refused, 0u);
}

TEST_F(MarkerTest, FourThreadsComeBackCompleteWholeAndInOrder) {
  constexpr int kThreads = 4;
  constexpr int kEvents = 5000;
  ASSERT_TRUE(instance_->set("buffer_size_kb", "8192"));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < kEvents; ++i) {
        marker_.printf("thread %d event %d %.*s|", t, i, i % 300,
                       std::string(300, static_cast<char>('a' + t)).c_str());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(instance_->lost(), 0);
  std::map<int, int> next;
  std::map<int, int> pids;
  for (const auto& marker : instance_->markers()) {
    int t = -1;
    int i = -1;
    ASSERT_EQ(std::sscanf(marker.text.c_str(), "thread %d event %d", &t, &i), 2) << marker.text;
    EXPECT_EQ(i, next[t]++);
    const auto [pid, first] = pids.try_emplace(t, marker.pid);
    EXPECT_EQ(pid->second, marker.pid);
    const std::string tail(static_cast<std::size_t>(i % 300), static_cast<char>('a' + t));
    EXPECT_TRUE(marker.text.ends_with(" " + tail + "|"));
  }
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(next[t], kEvents);
}

TEST_F(MarkerTest, LongTextIsOneEventCutOnceAndCounted) {
  std::vector<std::size_t> kept;
  std::uint64_t cuts = 0;
  for (const std::size_t size : {1000u, 4000u, 4054u, 4055u, 4095u, 4096u, 5000u, 100'000u}) {
    const std::string text(size, 'x');
    const ssize_t taken = marker_.write(text);
    ASSERT_GT(taken, 0);
    kept.push_back(static_cast<std::size_t>(taken));
    if (static_cast<std::size_t>(taken) < size) ++cuts;
    marker_.printf("%s", text.c_str());
    if (static_cast<std::size_t>(taken) < size) ++cuts;
  }
  EXPECT_EQ(kept[0], 1000u);
  EXPECT_LE(kept.back(), 4096u);
  EXPECT_EQ(marker_.counts().cut, cuts);
  const auto found = texts();
  ASSERT_EQ(found.size(), 16u);  // never a second event with the rest
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i], std::string(found[i].size(), 'x'));
    EXPECT_NEAR(static_cast<double>(found[i].size()), static_cast<double>(kept[i / 2]), 2.0);
  }
}

TEST_F(MarkerTest, WhatTheKernelRefusesIsCountedAndErrnoKept) {
  ASSERT_TRUE(instance_->set("tracing_on", "0"));
  errno = 4711;
  EXPECT_EQ(marker_.write("off"), -1);
  EXPECT_EQ(marker_.printf("off %d", 2), -1);
  EXPECT_EQ(errno, 4711);
  EXPECT_EQ(marker_.counts().refused, 2u);
  EXPECT_NE(marker_.counts().last_errno, 0);
  ASSERT_TRUE(instance_->set("tracing_on", "1"));
  EXPECT_EQ(marker_.write("on"), 2);
  EXPECT_THAT(texts(), ElementsAre("on"));
}

TEST_F(MarkerTest, AClosedDescriptorIsCounted) {
  ::close(marker_.fd());
  EXPECT_EQ(marker_.write("x"), -1);
  EXPECT_EQ(marker_.counts().last_errno, EBADF);
  (void)::open("/dev/null", O_WRONLY);  // what the destructor will close
}

TEST_F(MarkerTest, TheInstanceCanBeRemovedWhileWriting) {
  std::atomic<bool> stop{false};
  std::atomic<long> calls{0};
  std::vector<std::thread> writers;
  for (int t = 0; t < 2; ++t) {
    writers.emplace_back([&] {
      while (!stop) {
        marker_.write("busy");
        ++calls;
      }
    });
  }
  while (calls < 1000) std::this_thread::yield();
  // An open trace_marker holds its instance; turned off, every write is refused and counted.
  ASSERT_TRUE(instance_->set("tracing_on", "0"));
  (void)instance_->remove();
  const long before = calls;
  while (calls < before + 1000) std::this_thread::yield();
  stop = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_GT(marker_.counts().refused, 0u);
  const std::string name = instance_->name();
  marker_ = Marker();
  EXPECT_TRUE(::access(instance_->path("").c_str(), F_OK) != 0 || instance_->remove());
  std::string error;
  EXPECT_FALSE(Marker::open({name, {}}, &error));
  EXPECT_THAT(error, HasSubstr("no such instance; create it as root: mkdir "));
}

TEST_F(MarkerTest, AChildWritesThroughTheSameMarkerUnderItsOwnPid) {
  marker_.write("parent before");
  const pid_t child = ::fork();
  if (child == 0) {
    marker_.printf("child %d", ::getpid());
    ::_exit(marker_.counts().refused == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  marker_.write("parent after");
  EXPECT_THAT(texts(),
              ElementsAre("parent before", "child " + std::to_string(child), "parent after"));
}

Marker* signal_marker = nullptr;
std::atomic<int> signals_seen{0};

TEST_F(MarkerTest, SignalHandlersMayWrite) {
  signal_marker = &marker_;
  struct sigaction action {};
  action.sa_handler = [](int) {
    signal_marker->printf("signal %d", signals_seen.load());
    ++signals_seen;
  };
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::thread sender([thread = ::pthread_self()] {
    for (int i = 0; i < 200; ++i) {
      const int seen = signals_seen;
      ::pthread_kill(thread, SIGUSR1);
      while (signals_seen == seen) std::this_thread::yield();
    }
  });
  int written = 0;
  while (signals_seen < 200) {
    marker_.printf("main %d", written++);
    if (written % 100 != 0) continue;
    ASSERT_TRUE(instance_->set("trace", ""));  // keep the buffer small
  }
  sender.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(marker_.counts().refused, 0u);
  for (const std::string& text : texts()) {
    EXPECT_TRUE(text.starts_with("main ") || text.starts_with("signal ")) << text;
  }
}

TEST_F(MarkerTest, ADescriptorThatSomebodyElseOpenedServes) {
  const int fd = ::open(instance_->path("trace_marker").c_str(), O_WRONLY);
  std::string error;
  auto handed = Marker::from_fd(fd, &error);
  ::close(fd);
  ASSERT_TRUE(handed) << error;
  EXPECT_EQ(handed->write("handed"), 6);
  EXPECT_FALSE(Marker::from_fd(4000, &error));
  EXPECT_THAT(error, HasSubstr("descriptor 4000"));
  const int readable = ::open("/dev/null", O_RDONLY);
  EXPECT_FALSE(Marker::from_fd(readable, &error));
  EXPECT_THAT(error, HasSubstr("not open for writing"));
  ::close(readable);
}

TEST_F(MarkerTest, AnUnprivilegedUserLearnsTheCauseAndTheFix) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(2);
    std::string error;
    if (Marker::open({instance_->name(), {}}, &error)) ::_exit(3);
    const bool good = error.find("not permitted") != std::string::npos &&
                      error.find("chgrp") != std::string::npos;
    if (!good) std::fprintf(stderr, "%s\n", error.c_str());
    // What was opened before the privileges were dropped goes on.
    ::_exit(good && marker_.write("after the drop") == 14 ? 0 : 4);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(MarkerTest, SyncBracketsHoldTheKernelsStampOnAMonoInstance) {
  ASSERT_TRUE(marker_.sync(16));
  SyncCollector collector;
  std::vector<SyncPoint> points;
  for (const auto& marker : instance_->markers()) {
    const auto record = parse_sync(marker.text);
    ASSERT_TRUE(record) << marker.text;
    if (auto point = collector.add(*record, marker.stamp)) points.push_back(*point);
  }
  ASSERT_EQ(points.size(), 16u);
  for (const SyncPoint& point : points) {
    EXPECT_LE(point.before.at(ClockId::kMono), point.stamp);
    EXPECT_GE(point.after.at(ClockId::kMono), point.stamp);
  }
  const auto best = std::min_element(points.begin(), points.end(), narrower);
  EXPECT_LT(best->width(ClockId::kMono), 100'000u);
}

TEST(MarkerWithoutKernel, ANullMarkerDoesNothing) {
  EXPECT_EQ(trapline_ftrace_write(nullptr, "x", 1), 0);
  EXPECT_EQ(trapline_ftrace_printf(nullptr, "%d", 1), 0);
  EXPECT_EQ(trapline_ftrace_sync(nullptr, 1), -1);
  EXPECT_EQ(trapline_ftrace_fd(nullptr), -1);
  trapline_ftrace_close(nullptr);
  const Marker empty;
  EXPECT_EQ(empty.write("x"), 0);
}

TEST(Tracefs, IsFoundInTheMountTable) {
  const test::TemporaryFolder folder;
  const std::string root = folder / "trapline tracefs";
  ::mkdir(root.c_str(), 0755);
  std::ofstream(root + "/trace_marker");
  const std::string table = folder / "mounts";
  std::string escaped = root;
  escaped.replace(escaped.find(' '), 1, "\\040");
  std::ofstream(table) << "proc /proc proc rw 0 0\ntracefs " << escaped << " tracefs rw 0 0\n";
  char found[tracefs::kMaxPath];
  ASSERT_TRUE(tracefs::find(found, "/nonexistent", table.c_str()));
  EXPECT_EQ(found, root);
  std::ofstream(table) << "proc /proc proc rw 0 0\n";
  EXPECT_FALSE(tracefs::find(found, "/nonexistent", table.c_str()));
  ::mkdir((root + "/tracing").c_str(), 0755);
  std::ofstream(root + "/tracing/trace_marker");
  std::ofstream(table) << "none " << escaped << " debugfs rw 0 0\n";
  ASSERT_TRUE(tracefs::find(found, "/nonexistent", table.c_str()));
  EXPECT_EQ(found, root + "/tracing");
}

TEST(Tracefs, ErrorsNameThePlaceAndTheFix) {
  char error[512];
  EXPECT_EQ(
      tracefs::open_file("/nonexistent", nullptr, "trace_marker", O_WRONLY, error, sizeof error),
      -1);
  EXPECT_THAT(error, HasSubstr("mount -t tracefs nodev /nonexistent"));
  EXPECT_EQ(tracefs::open_file(nullptr, "../x", "trace_marker", O_WRONLY, error, sizeof error), -1);
  EXPECT_THAT(error, HasSubstr("'../x' is not an instance name"));
}

}  // namespace
}  // namespace trapline
