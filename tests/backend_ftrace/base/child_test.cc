#include "backend_ftrace/base/child.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <string>

namespace trapline {
namespace {

// A child that waits for a signal, at most 10 s.
Result<Child> waiting_child() {
  return Child::start([](UniqueFd&) {
    ::alarm(10);
    for (;;) ::pause();
    return 0;
  });
}

TEST(ChildTest, ItsStatusIsTheWorksOr128AndTheSignal) {
  auto done = Child::start([](UniqueFd&) { return 7; });
  ASSERT_TRUE(done);
  EXPECT_EQ(done->wait(), 7);
  EXPECT_EQ(done->reap(), 7) << "what was reaped is remembered";
  auto killed = waiting_child();
  ASSERT_TRUE(killed);
  EXPECT_FALSE(killed->reap());
  killed->send(SIGTERM);
  EXPECT_EQ(killed->wait(), 128 + SIGTERM);
}

TEST(ChildTest, WhatItWritesIsRead) {
  auto child =
      Child::start([](UniqueFd& output) { return ::write(output.get(), "text", 4) == 4 ? 0 : 1; });
  ASSERT_TRUE(child);
  char text[16];
  EXPECT_EQ(::read(child->output().get(), text, sizeof text), 4);
  EXPECT_EQ(std::string(text, 4), "text");
  EXPECT_EQ(::read(child->output().get(), text, sizeof text), 0) << "its end was left open";
  EXPECT_EQ(child->wait(), 0);
}

TEST(ChildTest, EndsWithItsObjectAndLeavesNoZombie) {
  pid_t pid = 0;
  {
    auto child = waiting_child();
    ASSERT_TRUE(child);
    pid = child->pid();
    const Child moved(std::move(*child));
    EXPECT_EQ(moved.pid(), pid);
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(ChildTest, OneWhoseStatusTheKernelDroppedHasEnded) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  auto child = Child::start([](UniqueFd&) { return 7; });
  ASSERT_TRUE(child);
  EXPECT_EQ(child->wait(), -1);
  EXPECT_EQ(child->reap(), -1);
  ::signal(SIGCHLD, before);
}

TEST(ChildTest, OneThatWasLetGoGoesOn) {
  pid_t pid = 0;
  {
    auto child = waiting_child();
    ASSERT_TRUE(child);
    pid = child->pid();
    child->let_go();
  }
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), 0) << "it has ended";
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
}

}  // namespace
}  // namespace trapline
