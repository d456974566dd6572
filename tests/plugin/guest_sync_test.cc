// The magic no-op, executed by real guests: what the plugin puts into sync.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "backend_ftrace/guest_sync.h"
#include "tests/plugin/qemu_run.h"
#include "tests/support/require.h"

namespace trapline::test {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Stamped {
  std::uint64_t stamp;
  GuestSyncRecord record;
};

std::vector<Stamped> guest_records(const std::string& directory) {
  std::ifstream file(directory + "/sync.txt");
  std::vector<Stamped> records;
  for (std::string line; std::getline(file, line);) {
    const auto blank = line.find(' ');
    if (blank == line.npos) continue;
    if (const auto record = parse_guest_sync(line.substr(blank + 1)))
      records.push_back({std::stoull(line), *record});
  }
  return records;
}

class NoOpTest : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(NoOpTest, IsStampedWithTheReadingsThatTheGuestTook) {
  const auto [version, arch] = GetParam();
  TRAPLINE_REQUIRE(!qemu_folder(version).empty(), std::string("scripts/fetch qemu") + version);
  TemporaryFolder folder;
  const std::string data = folder / "uftrace.data";
  for (const char* variant : {"O0", "O2"}) {
    const Output output =
        run(guest_command(version, arch, variant, "out=" + data + ",include=0x0-0x1"));
    const auto records = guest_records(data);
    ASSERT_THAT(records, SizeIs(2)) << output.err;
    EXPECT_EQ(records[0].record.series, 4711U);
    EXPECT_EQ(records[0].record.index, 0U);
    EXPECT_EQ(records[1].record.index, 1U);
    ASSERT_TRUE(records[0].record.before && records[1].record.after);
    EXPECT_FALSE(records[0].record.after || records[1].record.before);
    EXPECT_LT(records[0].stamp, records[1].stamp);
    EXPECT_GT(records[0].record.before->counter, 0U);
    EXPECT_GE(records[1].record.after->counter, records[0].record.before->counter);
  }
}

INSTANTIATE_TEST_SUITE_P(All, NoOpTest,
                         ::testing::Combine(::testing::Values("10", "11"),
                                            ::testing::Values("x86_64", "aarch64", "riscv64")),
                         [](const auto& test) {
                           return std::string("Qemu") + std::get<0>(test.param) + "_" +
                                  std::get<1>(test.param);
                         });

TEST(DemoGuestTest, BracketsEachPortWriteAndOnlyTheCodeAskedForIsFollowed) {
  TRAPLINE_REQUIRE(!qemu_folder("10").empty(), "scripts/fetch qemu10");
  TemporaryFolder folder;
  const std::string data = folder / "uftrace.data";
  const std::string elf = std::string(TRAPLINE_BINARY_DIR) + "/tests/guest/demo-guest.elf";
  // With SeaBIOS, which calls functions of its own before the guest and is not followed.
  const Output output =
      run({qemu_folder("10") + "/bin/qemu-system-x86_64", "-accel", "tcg", "-machine", "pc,hpet=on",
           "-m", "64", "-display", "none", "-nodefaults", "-no-reboot", "-kernel", elf, "-device",
           "isa-debug-exit,iobase=0x501", "-plugin",
           plugin_path() + ",out=" + data + ",symbols=" + elf + ",code=symbols,exclude=start*"});
  EXPECT_EQ(output.exit_code(), 1) << output.err;
  const std::map<std::string, std::uint64_t> expected = {
      {"kmain", 1},       {"console_write", 3}, {"console_char", 41}, {"rtc_read", 400},
      {"hpet_read", 400}, {"cpuid_read", 10},   {"msr_read", 10},     {"touch_page", 16},
      {"compute", 400},   {"id", 400},          {"clock_sync", 2},    {"port_write", 32},
      {"leave", 1}};
  const auto calls = reported_calls(data);
  EXPECT_EQ(calls, expected);
  EXPECT_THAT(imbalances(data), IsEmpty());
  const auto records = guest_records(data);
  ASSERT_THAT(records, SizeIs(34));
  for (std::size_t i = 1; i < records.size(); ++i) {
    EXPECT_LT(records[i - 1].stamp, records[i].stamp);
    if (records[i].record.index == 0) continue;
    const GuestSyncRecord& before = records[i - 1].record;
    ASSERT_TRUE(before.before && before.write && records[i].record.after);
    EXPECT_EQ(before.write->where, 0x80U);
    EXPECT_GE(records[i].record.after->counter, before.before->counter);
  }
}

}  // namespace
}  // namespace trapline::test
