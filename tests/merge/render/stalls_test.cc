#include "merge/explain/stalls.h"

#include <gmock/gmock.h>

#include <sstream>
#include <utility>

#include "merge/render/print.h"

namespace trapline {
namespace {

using testing::HasSubstr;
using testing::Not;

class StallsTextTest : public testing::Test {
 protected:
  StallsTextTest() { found_.recording = "trace.dat"; }

  // One of a vCPU; `exit`: when its longest exit began, 0: none ended as one.
  StallRow& add(std::uint64_t begin, std::uint64_t length, std::uint64_t exit) {
    StallRow row;
    row.stall.begin = Timestamp(begin);
    row.stall.end = Timestamp(begin + length);
    row.stall.exits = 1;
    if (exit != 0) row.stall.longest.emplace().start = Timestamp(exit);
    row.name = "vCPU 0";
    row.vcpu = 0;
    row.causes.push_back({"kernel", "", "", "the host's kernel worked for it", length});
    found_.rows.push_back(std::move(row));
    ++found_.count;
    found_.total_ns += length;
    return found_.rows.back();
  }
  [[nodiscard]] std::string text() const {
    std::ostringstream out;
    print_text(make_report(found_), out, {});
    return out.str();
  }
  StallsFound found_;
};

TEST_F(StallsTextTest, TheLongestExitOfTheLongestIsExplained) {
  add(1'000'000'000, 30'000'000, 1'005'000'000);
  add(2'000'000'000, 20'000'000, 2'000'000'000);
  EXPECT_THAT(text(), HasSubstr("\nnext: trapline explain trace.dat --around 1.005000000 --vcpu 0  "
                                "# why its longest exit took so long\n"));
}

TEST_F(StallsTextTest, OneThatNoExitEndedIsNotExplained) {
  add(1'000'000'000, 30'000'000, 0);
  EXPECT_THAT(text(), Not(HasSubstr("next:")));
  add(2'000'000'000, 20'000'000, 2'000'000'000);
  EXPECT_THAT(text(), HasSubstr("\nnext: trapline explain trace.dat --around 2.000000000 --vcpu 0  "
                                "# why the longest exit of the stall of 20.0 ms took so long\n"));
}

TEST_F(StallsTextTest, TheVmIsInTheCommandWhereTheVcpuHasNoNumber) {
  StallRow& row = add(1'000'000'000, 30'000'000, 1'000'000'000);
  row.name = "VM 50 tid 51";
  row.vm = "50";
  row.vcpu = kNoVcpu;
  EXPECT_THAT(text(), HasSubstr(" --around 1.000000000 --vm 50  # why"));
}

TEST_F(StallsTextTest, AVmIsQuotedAsAShellWantsIt) {
  StallRow& row = add(1'000'000'000, 30'000'000, 1'000'000'000);
  row.name = "VM it's, vCPU 0";
  row.vm = "it's";
  EXPECT_THAT(text(), HasSubstr(R"(--vm 'it'\''s' --vcpu 0)"));
}

}  // namespace
}  // namespace trapline
