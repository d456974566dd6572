// A recording of kvm_exit alone: nothing ends an exit, and no sentence may say that there was none.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "merge/explain/advise.h"
#include "merge/explain/explain.h"
#include "merge/explain/stalls.h"
#include "merge/render/print.h"
#include "merge/report/report.h"
#include "merge/report/run.h"
#include "tests/support/temporary_folder.h"

namespace trapline::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class NoEntriesTest : public testing::Test {
 protected:
  NoEntriesTest() {
    std::ofstream out(folder_ / "trace.txt");
    out << "cpus=1\n";
    for (int i = 0; i < 4; ++i)
      out << " qemu-system-x86-101 [000] 6.79200" << i << ": kvm_exit: reason HLT rip 0x10\n";
    what_.input.paths = {folder_ / "trace.txt"};
  }

  TemporaryFolder folder_;
  PassOptions what_;
};

TEST_F(NoEntriesTest, ReportSaysSoAndWhatIsMadeOfExitsIsRefused) {
  const auto report = run_report(what_, {}, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(report->report.notes, Contains(HasSubstr("kvm_entry was not recorded")));
  // Its exits are counted; none of its times is known, which is not 0.
  std::ostringstream text, json;
  const Report made = make_report(report->report, {"run", ""});
  print_text(made, text, TextStyle());
  EXPECT_THAT(text.str(), HasSubstr("How long the exits took was not recorded (kvm:kvm_entry); "
                                    "100.0% of them were HLT."));
  EXPECT_THAT(text.str(), HasSubstr("4 exits in 3.00"));
  print_json(made, json);
  for (const char* part :
       {"\"count\": 4", "\"total_ns\": null", "\"guest_ns\": null", "\"overhead\": null"})
    EXPECT_THAT(json.str(), HasSubstr(part));
  what_.longest = true;
  const auto longest = Pass::open(what_, {});
  ASSERT_FALSE(longest);
  EXPECT_THAT(longest.error().message, HasSubstr("record kvm:kvm_entry"));
  what_.longest = false;
  const auto advice = run_advise(what_, false, {});
  ASSERT_FALSE(advice);
  EXPECT_EQ(advice.error().kind, ErrorKind::kRuntime);
  EXPECT_THAT(advice.error().message, HasSubstr("record kvm:kvm_entry"));
  const auto stalls = run_stalls(what_, 10, {});
  ASSERT_FALSE(stalls);
  EXPECT_THAT(stalls.error().message, HasSubstr("record kvm:kvm_entry"));
  const auto explained = run_explain(what_, std::nullopt, {});
  ASSERT_FALSE(explained);
  EXPECT_THAT(explained.error().message, HasSubstr("record kvm:kvm_entry"));
}

// timeline --around max: where nothing ends the time in user space, no exit is the longest.
TEST(NoDurationsTest, TheLongestExitIsRefusedWithWhatToRecord) {
  PassOptions what;
  what.input.paths = {std::string(TRAPLINE_TEST_DATA) + "/box/demo-userspace-open.dat"};
  EXPECT_TRUE(Pass::open(what, {}));
  what.longest = true;
  const auto refused = Pass::open(what, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(refused.error().message, HasSubstr("have no durations; record syscalls:sys_enter_"));
}

}  // namespace
}  // namespace trapline::test
