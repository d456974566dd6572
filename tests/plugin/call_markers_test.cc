// The markers alone: a pipe in place of trace_marker, which refuses while it is full.
#include "plugin/call_markers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "backend_ftrace/base/unique_fd.h"

namespace trapline {
namespace {

using ::testing::ElementsAre;

class CallMarkersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_DIRECT | O_NONBLOCK), 0);  // a write is a message
    ASSERT_GT(::fcntl(ends[0], F_SETPIPE_SZ, 1 << 18), 0);
    out_ = UniqueFd(ends[0]);
    in_ = UniqueFd(ends[1]);
    auto marker = Marker::from_fd(in_.get());
    ASSERT_TRUE(marker);
    markers_.emplace(std::move(*marker), SymbolTable(),
                     CallMarkers::Run{"7-9", "x86_64", "vcpu", "ftrace"});
    cpu0_.emplace(*markers_, 0);
    cpu1_.emplace(*markers_, 1);
  }
  void fill() {
    while (::write(in_.get(), "x", 1) == 1) {
    }
  }
  std::vector<std::string> taken() {
    std::vector<std::string> texts;
    char text[1024];
    for (ssize_t size; (size = ::read(out_.get(), text, sizeof text)) > 0;)
      if (const std::string one(text, static_cast<std::size_t>(size)); one != "x")
        texts.push_back(one);
    return texts;
  }
  UniqueFd out_, in_;
  std::optional<CallMarkers> markers_;
  std::optional<VcpuMarkers> cpu0_, cpu1_;
};

TEST_F(CallMarkersTest, ACallIsAnEntryAndAnExit) {
  cpu0_->write(true, 100, 3, 0xffffffff81000000);
  cpu0_->write(false, 100, 3, 0xffffffff81000000);
  EXPECT_THAT(taken(), ElementsAre("trapline: E cpu0 d=3 0xffffffff81000000 ?",
                                   "trapline: X cpu0 d=3 0xffffffff81000000 ?"));
  EXPECT_EQ(markers_->written(), 2u);
  EXPECT_EQ(markers_->lost(), 0u);
}

TEST_F(CallMarkersTest, WhatWasLostIsSaidByTheVcpuThatLostItBeforeItsNextCall) {
  cpu0_->write(true, 100, 0, 0x1000);
  fill();
  cpu0_->write(true, 100, 1, 0x2000);
  cpu0_->write(false, 100, 1, 0x2000);
  EXPECT_THAT(taken(), ElementsAre("trapline: E cpu0 d=0 0x1000 ?"));
  cpu1_->write(true, 200, 0, 0x3000);
  cpu0_->write(false, 100, 0, 0x1000);
  EXPECT_THAT(taken(), ElementsAre("trapline: E cpu1 d=0 0x3000 ?", "trapline: L cpu0 2",
                                   "trapline: X cpu0 d=0 0x1000 ?"));
  EXPECT_EQ(markers_->written(), 3u);
  EXPECT_EQ(markers_->lost(), 2u);
  EXPECT_TRUE(cpu0_->say_losses());
  EXPECT_THAT(taken(), ElementsAre());
}

TEST_F(CallMarkersTest, TheEndSaysTheCounts) {
  cpu0_->write(true, 100, 0, 0x1000);
  fill();
  cpu0_->write(false, 100, 0, 0x1000);
  (void)taken();
  (void)cpu0_->say_losses();
  markers_->end();
  EXPECT_EQ(taken().back(), "trapline: calls 1 end run=7-9 written=1 lost=1");
}

}  // namespace
}  // namespace trapline
