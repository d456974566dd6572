#include "merge/record/page_reader.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace trapline::record {
namespace {

class OtherReadersTest : public ::testing::Test {
 protected:
  OtherReadersTest() { kernel_counts(0); }

  void kernel_counts(unsigned events) {
    std::ofstream(path_) << "entries: 5\noverrun: 3\ndropped events: 0\nread events: " << events
                         << "\n";
  }
  void read_ourselves(unsigned events_then) {
    readers_.before();
    kernel_counts(events_then);
    readers_.after();
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_ / "stats";
  // Made first: the file that the object opens.
  const bool made_ = std::ofstream(path_).good();
  OtherReaders readers_ = OtherReaders(path_);
};

TEST_F(OtherReadersTest, OurOwnReadsAreNobodyElses) {
  read_ourselves(100);
  read_ourselves(250);
  EXPECT_EQ(readers_.events(), 0u);
}

TEST_F(OtherReadersTest, EventsThatGoBetweenOurReadsWereReadByOthers) {
  kernel_counts(7);  // before the first of ours
  read_ourselves(100);
  kernel_counts(130);
  read_ourselves(200);
  EXPECT_EQ(readers_.events(), 37u);
}

TEST_F(OtherReadersTest, ABufferThatWasEmptiedIsNotCompared) {
  read_ourselves(100);
  kernel_counts(4);
  read_ourselves(20);
  kernel_counts(25);
  read_ourselves(30);
  EXPECT_EQ(readers_.events(), 5u);
}

TEST(OtherReaders, WithoutTheKernelsCountsNothingIsCounted) {
  OtherReaders readers("/nonexistent/stats");
  readers.before();
  readers.after();
  EXPECT_EQ(readers.events(), 0u);
}

}  // namespace
}  // namespace trapline::record
