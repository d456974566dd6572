#include "merge/report/notes.h"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "merge/report/run.h"
#include "tests/support/temporary_folder.h"

namespace trapline::test {
namespace {

using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(NotesTest, LossesWithoutAnyCountAreOfAnUnknownNumberOfEvents) {
  EXPECT_EQ(losses_text({0, 1, 1}), "an unknown number of events in 1 loss");
  EXPECT_EQ(losses_text({0, 3, 3}), "an unknown number of events in 3 losses");
  EXPECT_EQ(losses_text({1, 1, 0}), "1 event in 1 loss");
  EXPECT_EQ(losses_text({1262, 15, 3}),
            "at least 1,262 events in 15 losses (3 of them without a count)");
  EXPECT_THAT(losses_note({0, 1, 1}),
              StartsWith("an unknown number of events were lost in 1 loss:"));
  EXPECT_THAT(losses_note({1262, 15, 3}),
              StartsWith("at least 1,262 events were lost in 15 losses (3 without a count):"));
}

TEST(NotesTest, UserTimeIsSaidToBeInTheColumnThatHasIt) {
  ReportData report;
  report.model.userspace_exits = false;
  Capabilities capabilities;
  capabilities.kvm_exit = true;
  EXPECT_THAT(notes_of(report, capabilities, false),
              Contains(EndsWith("user time is in \"kernel or QEMU\"")));
}

TEST(NotesTest, ATraceEventsFileOfAnotherProgramIsNamed) {
  TemporaryFolder folder;
  const auto note = HasSubstr("events declares none of QEMU's events in the recording");
  PassOptions what;
  what.input.paths = {std::string(TRAPLINE_TEST_DATA) + "/svm-mono.dat"};
  what.input.trace_events = folder / "events";
  for (const bool is_qemus : {false, true}) {
    std::ofstream(folder / "events")
        << (is_qemus ? R"(memory_region_ops_write(int a, void *mr, uint64_t addr) "a %d")"
                     : R"(hello(int count) "count %d")")
        << '\n';
    const auto run = run_report(what, {}, {});
    ASSERT_TRUE(run) << run.error().message;
    if (is_qemus) {
      EXPECT_THAT(run->report.notes, Not(Contains(note)));
    } else {
      EXPECT_THAT(run->report.notes, Contains(note));
    }
  }
}

TEST(NotesTest, LossesWithoutAPlaceAreNoted) {
  TemporaryFolder folder;
  std::ifstream in(std::string(TRAPLINE_TEST_DATA) + "/svm-mono.dat", std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto at = bytes.find("\ndropped events: 0\n");
  ASSERT_NE(at, std::string::npos);
  bytes[at + std::string_view("\ndropped events: ").size()] = '9';
  std::ofstream(folder / "trace.dat", std::ios::binary) << bytes;
  PassOptions what;
  what.input.paths = {folder / "trace.dat"};
  const auto run = run_report(what, {}, {});
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->report.sources.at(0).lost, 9u);
  EXPECT_THAT(run->report.notes, Contains(HasSubstr("9 lost events, by CPUSTAT")));
}

}  // namespace
}  // namespace trapline::test
