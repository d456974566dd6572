// What takes the samples, and what is told of threads and samples that are missing.
#include "merge/record/kernel_sampler.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "merge/record/setup.h"
#include "tests/support/temporary_folder.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

bool is_counter(const perf_event_attr& attr) { return attr.type == PERF_TYPE_HARDWARE; }

// A kernel that refuses the counter a clock that no NMI can read.
int counts(const perf_event_attr& attr) {
  return is_counter(attr) && attr.clockid != CLOCK_MONOTONIC ? EINVAL : 0;
}

TEST(SampleEvent, TheCounterTakesNoSamplesInAGuestAndATimerDoes) {
  const auto counter = SampleEvent::choose(100, "mono", 1, counts);
  ASSERT_TRUE(counter);
  EXPECT_FALSE(counter->by_timer());
  EXPECT_TRUE(is_counter(counter->attr()));
  EXPECT_EQ(counter->attr().exclude_guest, 1u);
  const auto timer = SampleEvent::choose(100, "mono", 0, counts);
  ASSERT_TRUE(timer);
  EXPECT_FALSE(is_counter(timer->attr()));
  EXPECT_EQ(timer->attr().exclude_guest, 0u);
  EXPECT_EQ(timer->timer_since, "no counter of cycles here");
  EXPECT_THAT(timer->advice, HasSubstr("one more exit"));
}

TEST(SampleEvent, ATimerTakesThemWhereTheCounterCannot) {
  const auto cores = SampleEvent::choose(100, "mono", 2, counts);
  ASSERT_TRUE(cores);
  EXPECT_THAT(cores->timer_since, HasSubstr("several kinds of cores"));
  const auto boot = SampleEvent::choose(100, "boot", 1, counts);
  ASSERT_TRUE(boot);
  EXPECT_EQ(boot->timer_since, "perf's counter has no clock 'boot'");
  EXPECT_EQ(boot->advice, "record with --clock mono");
  const auto none = [](const perf_event_attr& attr) { return is_counter(attr) ? ENOENT : 0; };
  const auto without = SampleEvent::choose(100, "boot", 1, none);
  ASSERT_TRUE(without);
  EXPECT_EQ(without->timer_since, "no counter of cycles here");
}

TEST(SampleEvent, WhatTheKernelRefusesIsAnError) {
  const auto error = [](const char* clock, int cause) {
    const auto event =
        SampleEvent::choose(100, clock, 1, [cause](const perf_event_attr&) { return cause; });
    return event ? Error{} : event.error();
  };
  EXPECT_THAT(error("local", 0).message, HasSubstr("perf has no clock 'local'"));
  EXPECT_THAT(error("mono", EACCES).message, HasSubstr("perf may not sample"));
  EXPECT_EQ(error("mono", EINVAL).kind, ErrorKind::kUsage);
}

TEST(SampleEvent, KindsOfCoresAreCountedAndNotOtherCounters) {
  const test::TemporaryFolder root;
  const std::string devices = root / "sys/bus/event_source/devices/";
  EXPECT_EQ(core_counters(root.path()), 0u);
  const auto device = [&devices](const std::string& name, const std::string& file) {
    fs::create_directories(devices + name);
    std::ofstream(devices + name + "/" + file) << "0-3\n";
  };
  device("uncore_imc_0", "cpumask");
  device("cpu", "type");
  EXPECT_EQ(core_counters(root.path()), 1u);
  fs::remove_all(devices + "cpu");
  device("cpu_core", "cpus");
  device("cpu_atom", "cpus");
  EXPECT_EQ(core_counters(root.path()), 2u);
}

std::string record_of(std::uint32_t type, std::uint64_t second = 0) {
  std::string bytes(24, '\0');
  const std::uint16_t size = 24;
  bytes.replace(0, 4, reinterpret_cast<const char*>(&type), 4);
  bytes.replace(6, 2, reinterpret_cast<const char*>(&size), 2);
  bytes.replace(16, 8, reinterpret_cast<const char*>(&second), 8);
  return bytes;
}

TEST(SampleCounts, LossesAndPausesAreCounted) {
  SampleCounts counts;
  counts.add(record_of(PERF_RECORD_SAMPLE) + record_of(PERF_RECORD_LOST, 7) +
             record_of(PERF_RECORD_THROTTLE) + record_of(PERF_RECORD_UNTHROTTLE) +
             record_of(PERF_RECORD_SAMPLE));
  EXPECT_EQ(counts.samples, 2u);
  EXPECT_EQ(counts.lost, 7u);
  EXPECT_EQ(counts.throttled, 1u);
}

TEST(KernelSampler, ANameHasTheTimeSinceWhichItsThreadIsSampled) {
  const std::string bytes = name_record(7, {5, "vcpu"}, 0x1234);
  std::uint64_t time = 0;
  ASSERT_EQ(bytes.copy(reinterpret_cast<char*>(&time), 8, bytes.size() - 16), 8u);
  EXPECT_EQ(time, 0x1234u);
}

TEST(KernelSampler, AllBuffersTogetherAreBounded) {
  EXPECT_EQ(KernelSampler::kMostMemory / KernelSampler::buffer_size(kMostSamplesHz), 64u);
  EXPECT_EQ(KernelSampler::kMostMemory / KernelSampler::buffer_size(1), 4096u);
}

TEST(KernelSampler, AFileAsLargeAsItsLimitIsAnErrorAndNoSignal) {
  const test::TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto signals = open_signals();
    const rlimit none{0, 0};
    (void)::setrlimit(RLIMIT_FSIZE, &none);
    std::FILE* file = std::fopen((folder / "file").c_str(), "w");
    const bool wrote = ::write(::fileno(file), "x", 1) == 1;
    ::_exit(!signals || wrote || errno != EFBIG ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Those that need perf's permission.
class SamplingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = KernelSampler::make(1, "mono");
    if (!made) GTEST_SKIP() << made.error().message;
    sampler_.emplace(std::move(*made));
  }
  void TearDown() override {
    for (const pid_t child : children_) end(child);
  }
  pid_t child() {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::pause();
      ::_exit(0);
    }
    children_.insert(pid);
    threads_[pid] = {pid, "child"};
    return pid;
  }
  static void end(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  void open(std::size_t memory) {
    ASSERT_TRUE(sampler_->open(*Folder::open(folder_.path()), memory));
  }
  static std::size_t events() {
    std::size_t count = 0;
    std::error_code ignored;
    for (const auto& file : fs::directory_iterator("/proc/self/fd"))
      if (fs::read_symlink(file, ignored) == "anon_inode:[perf_event]") ++count;
    return count;
  }

  test::TemporaryFolder folder_;
  std::optional<KernelSampler> sampler_;
  std::set<pid_t> children_;
  std::map<pid_t, Thread> threads_;
};

TEST_F(SamplingTest, AThreadThatFindsNoRoomIsCountedOnceAndTold) {
  open(KernelSampler::buffer_size(1));
  child(), child(), child();
  for (int again = 0; again < 2; ++again) sampler_->follow(threads_);
  EXPECT_EQ(events(), 1u);
  EXPECT_THAT(sampler_->warning(), HasSubstr("2 threads lack samples, the first ("));
  EXPECT_THAT(sampler_->warning(), HasSubstr("no room for its samples"));
}

TEST_F(SamplingTest, TheRoomOfAThreadThatEndedIsForOthersAndStopLeavesNoEvent) {
  open(KernelSampler::buffer_size(1));
  const pid_t first = child();
  sampler_->follow(threads_);
  end(first);
  children_.erase(first);
  child();
  sampler_->follow(threads_);  // the first is still named: its id might be another thread's
  EXPECT_EQ(events(), 1u);
  EXPECT_EQ(sampler_->warning(), "");
  ASSERT_TRUE(sampler_->stop());
  EXPECT_EQ(events(), 0u);
}

TEST_F(SamplingTest, DescriptorsAreLeftToOthers) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  open(KernelSampler::buffer_size(1) * 4);
  rlimit raised{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &raised), 0);
  EXPECT_GE(raised.rlim_cur, std::min(before.rlim_cur + 4, before.rlim_max));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace trapline::record
