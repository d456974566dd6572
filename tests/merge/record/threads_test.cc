#include "merge/record/threads.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace trapline::record {
namespace {

using ::testing::HasSubstr;

constexpr pid_t kFirst = 100'000;

std::string saved_cmdlines(pid_t from, std::size_t count, const char* name = "x") {
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text += fmt::format("{} {}\n", from + static_cast<pid_t>(i), name);
  return text;
}

TEST(ThreadNames, ThoseThatFindNoPlaceAreCountedOnce) {
  ThreadTable threads(1);
  threads.add_names(saved_cmdlines(kFirst, ThreadTable::kMostThreads));
  EXPECT_EQ(threads.left_out(), 0u);
  EXPECT_EQ(threads.warning(), "");
  for (int again = 0; again < 2; ++again) {
    threads.add_names(saved_cmdlines(kFirst + ThreadTable::kMostThreads - 1, 8));
    EXPECT_EQ(threads.left_out(), 7u);
  }
  EXPECT_THAT(threads.warning(), HasSubstr("the names of 7 threads are missing"));
}

TEST(ThreadNames, OneThatIsKeptStillChangesWhenNoOtherFindsAPlace) {
  ThreadTable threads(1);
  threads.add_names(saved_cmdlines(kFirst, ThreadTable::kMostThreads + 1));
  threads.add_names(saved_cmdlines(kFirst + 5, 1, "renamed"));
  EXPECT_THAT(threads.cmdlines(), HasSubstr(fmt::format("{} renamed\n", kFirst + 5)));
  EXPECT_EQ(threads.left_out(), 1u);
}

TEST(ThreadNames, WhatAnOlderTableLeftOutStaysCounted) {
  ThreadTable older(1), threads(1);
  older.add_names(saved_cmdlines(kFirst, ThreadTable::kMostThreads + 2));
  threads.add_names(saved_cmdlines(kFirst + ThreadTable::kMostThreads, 1));  // one of the two
  threads.add_missing(older);
  EXPECT_EQ(threads.left_out(), 1u);
}

}  // namespace
}  // namespace trapline::record
