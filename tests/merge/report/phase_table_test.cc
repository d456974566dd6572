#include "merge/report/phases.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;

TEST(PhaseSpec, IsATextAFunctionOrAddresses) {
  const auto text = parse_phase_spec("init=Run /init"),
             function = parse_phase_spec("k=function:start_*"),
             addresses = parse_phase_spec("rom=0xf0000..0xfffff");
  ASSERT_TRUE(text && function && addresses);
  EXPECT_EQ(text->kind, PhaseSpec::Kind::kText);
  EXPECT_EQ(text->text, "Run /init");
  EXPECT_EQ(function->kind, PhaseSpec::Kind::kFunction);
  EXPECT_EQ(function->text, "start_*");
  EXPECT_EQ(addresses->kind, PhaseSpec::Kind::kAddresses);
  EXPECT_EQ(addresses->last, 0xfffffu);
}

TEST(PhaseSpec, ErrorsSayWhatIsWrong) {
  for (const char* wrong : {"init", "=x", "init=", "rom=0x20..0x10"}) {
    const auto spec = parse_phase_spec(wrong);
    ASSERT_FALSE(spec) << wrong;
    EXPECT_EQ(spec.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(spec.error().message, testing::StartsWith("--phase: "));
  }
}

TEST(PhaseColumns, WithoutExitsToUserSpaceTheKernelsTimeMayBeQemus) {
  ReportData report;
  const std::vector<PhaseRow> rows(1);
  const auto title = [&] {
    const Table table = phase_table(rows, report);
    const auto found = std::ranges::find(table.columns, "kernel_ns", &Table::Described::key);
    return found == table.columns.end() ? std::string("none") : found->title;
  };
  EXPECT_EQ(title(), "kernel");
  report.model.userspace_exits = false;
  EXPECT_EQ(title(), "kernel or QEMU");
}

TEST(PhaseColumns, AStateThatIsRareIsShownWhereAVcpuWasInIt) {
  const ReportData report;
  std::vector<PhaseRow> rows(2);
  const auto title = [&] {
    const Table table = phase_table(rows, report);
    const auto found = std::ranges::find(table.columns, "offline_ns", &Table::Described::key);
    return found == table.columns.end() ? std::string("none") : found->title;
  };
  EXPECT_EQ(title(), "");
  rows.back().totals.offline_ns = 5;
  EXPECT_EQ(title(), "offline");
}

class PhaseTableTest : public testing::Test {
 protected:
  // Feeds the table as the report does.
  struct Sink : SpanSink {
    explicit Sink(PhaseTable& the_table) : table(the_table) {}
    [[nodiscard]] SpanClass selects() const override {
      return SpanClass::kEvents | SpanClass::kExits | SpanClass::kStateRuns;
    }
    void event(const Event& event, const Pipeline& pipeline) override {
      table.event(event, pipeline);
    }
    void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
      table.exit(exit, pipeline);
    }
    void states(std::span<const StateRun> runs, const Pipeline& pipeline) override {
      table.states(runs, pipeline);
    }
    PhaseTable& table;
  };
  // The phases, and those that did not begin.
  struct Played {
    std::vector<PhaseRow> rows;
    std::vector<std::string> never;
  };
  Played play(std::initializer_list<const char*> specs, std::initializer_list<Event> events) {
    std::vector<PhaseSpec> parsed;
    for (const char* spec : specs) parsed.push_back(*parse_phase_spec(spec));
    PhaseTable table(std::move(parsed));
    Sink sink(table);
    Pipeline pipeline(PipelineOptions(), {&sink});
    for (const Event& event : events) EXPECT_TRUE(pipeline.push(event));
    pipeline.finish();
    return {table.rows(pipeline, 1000), table.never()};
  }
  static Event byte(std::uint64_t at, char value) {
    return make(at, 0, kVcpu0,
                KvmDetail{0x3f8, static_cast<std::uint64_t>(value), DetailKind::kPort,
                          Access::kWrite, false});
  }
  static Event exit_at(std::uint64_t at, std::uint64_t rip) {
    return make(at, 0, kVcpu0, KvmExit{kSvmIo, kSvm, 0, 0, rip});
  }
  static std::vector<std::string> texts(const Played& report) {
    std::vector<std::string> all;
    for (const PhaseRow& row : report.rows) {
      all.push_back(row.name + " at " + std::to_string(row.start_ns) + " for " +
                    std::to_string(row.ns) + ", exits " + std::to_string(row.totals.exits) +
                    ", guest " + std::to_string(row.totals.guest_ns));
    }
    return all;
  }
};

TEST_F(PhaseTableTest, ATextOnTheConsoleBeginsAPhase) {
  const Played report = play({"second=ab"}, {exit(100), byte(110, 'a'), entry(120), exit(200),
                                             byte(210, 'b'), entry(220), exit(300), entry(330)});
  EXPECT_THAT(texts(report), ElementsAre("before second at 100 for 110, exits 2, guest 80",
                                         "second at 210 for 790, exits 1, guest 80"));
  EXPECT_EQ(report.rows[1].totals.parts[0], 30u);
}

TEST_F(PhaseTableTest, AWildcardWaitsForTheLinesEnd) {
  const Played report =
      play({"x=a*c"}, {exit(100), byte(110, 'a'), byte(120, 'b'), byte(130, 'c'), byte(140, '\r'),
                       byte(150, '\n'), byte(160, 'z'), entry(170)});
  EXPECT_THAT(texts(report), ElementsAre("before x at 100 for 50, exits 1, guest 0",
                                         "x at 150 for 850, exits 0, guest 0"));
}

TEST_F(PhaseTableTest, AnAddressBeginsAPhaseWithItsExit) {
  const Played report =
      play({"kernel=0xffff000000000000..0xffffffffffffffff"},
           {exit_at(100, 0x1000), entry(120), exit_at(200, 0xffffffff81000000), entry(260)});
  EXPECT_THAT(texts(report), ElementsAre("before kernel at 100 for 100, exits 1, guest 80",
                                         "kernel at 200 for 800, exits 1, guest 0"));
}

TEST_F(PhaseTableTest, AMarkerBeginsAPhaseAndAPassedOneNoMore) {
  const Played report =
      play({"one=1", "two=2"}, {exit(100), marker(110, "has 2"), marker(120, "has 1"), entry(130)});
  EXPECT_THAT(texts(report), ElementsAre("before two at 100 for 10, exits 1, guest 0",
                                         "two at 110 for 890, exits 0, guest 0"));
  EXPECT_THAT(report.never, ElementsAre("one: 1"));
}

// Those that never run a vCPU have no such time.
TEST_F(PhaseTableTest, AnOfflineTimeIsDividedAmongThePhasesThatItLiesIn) {
  const Played report =
      play({"second=ab"},
           {exit(100), byte(110, 'a'), make(115, 0, kOtherThread, NewThread{kVcpu1, true}),
            reload(118, ThreadId{102}), entry(120), exit(200), byte(210, 'b'), entry(220),
            entry(300, kVcpu1), exit(400), entry(410)});
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_EQ(report.rows[0].totals.offline_ns, 95u);
  EXPECT_EQ(report.rows[1].totals.offline_ns, 90u);
  EXPECT_EQ(report.rows[1].totals.paused_ns, 0u);
}

TEST_F(PhaseTableTest, ALineIsCutAtItsMost) {
  ConsoleLines lines;
  bool ended = false;
  for (std::size_t i = 0; i < 3 * ConsoleLines::kMostLength; ++i) {
    const std::string_view line =
        lines.add({0x3f8, 'x', DetailKind::kPort, Access::kWrite, false}, ended);
    ASSERT_LE(line.size(), ConsoleLines::kMostLength);
  }
}

}  // namespace
}  // namespace trapline::test
