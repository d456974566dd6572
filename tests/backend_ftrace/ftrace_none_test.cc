// What a program gets where there is no ftrace: every call exists, nothing happens, one message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trapline/ftrace.hpp"

namespace trapline {
namespace {

TEST(FtraceElsewhere, TheCallsExistAndDoNothingWithOneMessage) {
  ::testing::internal::CaptureStderr();
  std::string error;
  EXPECT_FALSE(Marker::open({}, &error));
  EXPECT_THAT(error, ::testing::HasSubstr("Linux only"));
  EXPECT_FALSE(Marker::from_fd(1, &error));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "trapline: ftrace exists on Linux only; events do not reach it\n");
  const Marker none;
  EXPECT_EQ(none.write("text"), 0);
  EXPECT_EQ(none.printf("%d", 1), 0);
  EXPECT_FALSE(none.sync());
  EXPECT_EQ(none.counts().refused, 0u);
  EXPECT_EQ(none.fd(), -1);
}

}  // namespace
}  // namespace trapline
