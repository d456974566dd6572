#include "merge/source/qemu_log/qemu_log_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "merge/session/open.h"
#include "tests/plugin/qemu_run.h"
#include "tests/support/open_by_path.h"
#include "tests/support/require.h"

namespace trapline::test {
namespace {

TEST(QemuLog, LinesAreThoseWithATimestampOnly) {
  const auto line =
      parse_qemu_log_line("31963@1795250191.908053:qemu_mutex_unlock mutex 0x7f (a:5)");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->thread, 31963);
  EXPECT_EQ(line->at, 1'795'250'191'908'053'000u);
  EXPECT_EQ(line->text, "qemu_mutex_unlock mutex 0x7f (a:5)");
  for (const char* bad :
       {"", "qemu_mutex_unlock", "1@2.3:x", "1@2.000003:", "-1@2.000003:x",
        "1@99999999999.000003:x", "1@2.0000031:x", "@2.000003:x", "1@.000003:x"}) {
    EXPECT_FALSE(parse_qemu_log_line(bad)) << bad;
  }
}

TEST(QemuLog, PrefixesOfJournalsAndOfGrepAreRemoved) {
  for (const char* prefix :
       {"  ", "> ", ">> ", "Nov 29 12:00:01 host qemu-system-x86[123]: ", "2026-11-29T12:00:01Z ",
        "2026-11-29T12:00:01+0000 host qemu[123]: ", "2026-11-29 12:00:01.123 ", "12:", "12\t",
        "qemu.log:", "/var/log/qemu.log:12:", "[   12.345678] "}) {
    const auto line =
        parse_qemu_log_line(std::string(prefix) + "7@1795250191.908053:kvm_run_exit a: 1@2");
    ASSERT_TRUE(line) << prefix;
    EXPECT_EQ(line->thread, 7) << prefix;
    EXPECT_EQ(line->at, 1'795'250'191'908'053'000u) << prefix;
    EXPECT_EQ(line->text, "kvm_run_exit a: 1@2") << prefix;
  }
  for (const char* bad : {"a word 7@1795250191.908053:x", "-7@1795250191.908053:x",
                          "qemu-7 [000] 1.000001: print: tracing_mark_write: 7@2.000003:x"})
    EXPECT_FALSE(parse_qemu_log_line(bad)) << bad;
}

TEST(QemuLog, ARealQemusLinesComeInOrderOfTime) {
  const std::string qemu = qemu_folder("10");
  TRAPLINE_REQUIRE(!qemu.empty(), "QEMU 10 cannot be had");
  TemporaryFolder folder;
  const std::string log = folder / "qemu.log";
  (void)run({qemu + "/bin/qemu-system-x86_64", "-accel", "tcg", "-display", "none", "-nodefaults",
             "-S", "-trace", "qemu_mutex*", "-D", log, "-msg", "timestamp=on"},
            3);
  ASSERT_EQ(kind_of_source(log), SourceKind::kQemuLog);
  auto source = open_source(log, {});
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->info().clock, "real");
  EXPECT_EQ((*source)->info().resolution_ns, 1000u);
  std::ifstream file(log);
  const auto lines =
      static_cast<std::uint64_t>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
  Event event;
  std::uint64_t last = 0;
  while ((*source)->next(event) == Read::kEvent) {
    EXPECT_GE(event.at.ns(), last);
    last = event.at.ns();
    EXPECT_TRUE((*source)->event_name(event).starts_with("qemu_mutex"));
  }
  EXPECT_EQ((*source)->counters().events, lines);
  EXPECT_GT(lines, 50u);
}

// More than a block long, its first and last lines out of order.
TEST(QemuLog, KnowsItsIntervalWithoutBeingRead) {
  TemporaryFolder folder;
  std::ofstream log(folder / "qemu.log");
  log << "a line of -d guest_errors\n1@1795250191.000002:b\n1@1795250191.000001:a\n";
  for (int i = 0; i < 20'000; ++i) log << fmt::format("1@1795250192.{:06}:an_event {}\n", i, i);
  log << "1@1795250195.000009:y\n1@1795250195.000008:x\n1@1795250199.000000:cut off";
  log.close();
  auto source = open_source(folder / "qemu.log", {});
  ASSERT_TRUE(source);
  const auto range = (*source)->range();
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first.ns(), 1'795'250'191'000'001'000u);
  EXPECT_EQ(range->second.ns(), 1'795'250'195'000'009'000u);
}

}  // namespace
}  // namespace trapline::test
