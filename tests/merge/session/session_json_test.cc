// session.json: what is written is read again, and what is damaged is left out.
#include "merge/session/session_json.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace trapline {
namespace {

using test::TemporaryFolder;

using nlohmann::json;

SessionSync sync_at(std::uint64_t stamp) {
  SessionSync sync;
  sync.series = 7;
  sync.index = 3;
  sync.before.values[0] = stamp - 100;
  sync.after.values[0] = stamp + 100;
  sync.stamp = stamp;
  sync.adjustment = ClockAdjustment{64, -5, 10'000, 0, 2, 0};
  return sync;
}

SessionJson full_session() {
  SessionJson session;
  session.closed = true;
  session.command = {"qemu-system-x86_64", "-m", "64"};
  session.added = {"-D marker"};
  session.pid = 42;
  session.user = "nobody";
  session.host = {"6.1.0", "x86_64", "hostname", 4, "0b3c-boot", true, false};
  session.trapline_version = "0.1.0";
  session.qemu_version = "10.0";
  session.clocks = {{"trace.dat", "mono"}, {"uftrace.data", "mono"}};
  session.start_real_ns = 1'700'000'000'000'000'001;
  session.end_real_ns = 1'700'000'000'000'000'002;
  session.instance = "trapline-1";
  session.recorder_pid = 41;
  session.buffer_kb = 8192;
  session.ended_by = "command";
  session.warnings = {"a warning"};
  session.exit_status = 137;
  session.losses = {{1, 2, 3, 4, 5, 6}};
  session.events = {"kvm:kvm_exit"};
  session.edges = {{"[always] madvise never",
                    "0",
                    {"254:16"},
                    {{43, 1, 2, 3, 4}},
                    {{0, 0x9ffff, "pc.ram", 4096}}},
                   {"always [madvise] never", "1", {}, {}, {}}};
  session.vms = {{43, "web-1"}};
  session.threads = {{44, 43, "CPU 0/KVM", {{100, 82'600'100}}, {{5, 755}}}, {45, 43, "worker"}};
  session.cgroups = {{"/vm", {1, 3}, {500, 700}, {44}, {{82, 1082}}}};
  session.sync = {sync_at(2000), sync_at(1000)};
  session.parts = {{"trace.dat", 4096}};
  SessionSnapshot& snapshot = session.snapshot.emplace();
  snapshot.on = "exit > 1ms";
  snapshot.around_ns = 5;
  snapshot.hits = 1;
  snapshot.left_out_events = 12;
  snapshot.whole_run = {"uftrace.data"};
  snapshot.longest = SessionHit{10, 20, "io", 44, 0, true, true};
  snapshot.first_hits = {*snapshot.longest};
  snapshot.windows = 1;
  snapshot.first_windows = {{5, 35}};
  session.flight = SessionFlight{"expression", "exit > 1ms", 60, 5, 35, true, 3};
  return session;
}

TEST(SessionJsonTest, WhatIsWrittenIsRead) {
  const SessionJson session = full_session();
  const auto read = parse_session_json(to_text(session));
  ASSERT_TRUE(read);
  EXPECT_EQ(to_text(*read), to_text(session));
  EXPECT_EQ(read->host.cpus, 4);
  EXPECT_EQ(read->host.boot_id, "0b3c-boot");
  EXPECT_EQ(read->host.irq_time_apart, true);
  EXPECT_EQ(read->host.steal_time_apart, false);
  ASSERT_EQ(read->threads.size(), 2u);
  EXPECT_EQ(read->threads[0].ran_ns, (std::array<std::uint64_t, 2>{100, 82'600'100}));
  EXPECT_EQ(read->threads[0].turns, (std::array<std::uint64_t, 2>{5, 755}));
  EXPECT_EQ(read->threads[1].ran_ns, std::nullopt);
  ASSERT_EQ(read->vms.size(), 1u);
  EXPECT_EQ(read->vms[0].pid, 43);
  EXPECT_EQ(read->vms[0].name, "web-1");
  EXPECT_EQ(read->exit_status, 137);
  ASSERT_TRUE(read->snapshot && read->snapshot->longest);
  EXPECT_EQ(read->snapshot->longest->vcpu, 0);
  EXPECT_EQ(read->snapshot->left_out_events, 12u);
  ASSERT_TRUE(read->flight);
  EXPECT_EQ(read->flight->why, "exit > 1ms");
  EXPECT_EQ(read->flight->to_ns, 35u);
  EXPECT_TRUE(read->flight->shortened);
}

TEST(SessionJsonTest, AClosedSessionListsItsPartsWithTheirSizes) {
  const TemporaryFolder folder;
  std::ofstream(folder / "trace.dat") << "12345";
  std::ofstream(folder / "qemu.log") << "";
  std::filesystem::create_directory(folder / "uftrace.data");
  std::ofstream(folder / "uftrace.data/info") << "123";
  std::ofstream(folder / "uftrace.data/task.txt") << "45";
  const auto session = Folder::open(folder.path());
  ASSERT_TRUE(session);
  SessionJson facts = full_session();
  for (const bool closed : {false, true}) {
    facts.closed = closed;
    ASSERT_TRUE(write_session_json(*session, facts));
    std::vector<std::pair<std::string, std::uint64_t>> parts;
    const auto read = read_session_json(folder.path());
    ASSERT_TRUE(read);
    for (const SessionPart& part : read->parts) parts.emplace_back(part.name, part.size);
    EXPECT_EQ(parts, closed ? (decltype(parts){{"trace.dat", 5}, {"uftrace.data", 5}})
                            : decltype(parts)());
  }
}

TEST(SessionJsonTest, BracketsAreThoseWithAStampInTheirOrder) {
  SessionJson session = full_session();
  SessionSync unstamped = sync_at(3000);
  unstamped.stamp.reset();
  SessionSync backwards = sync_at(4000);
  std::swap(backwards.before, backwards.after);
  session.sync.push_back(unstamped);
  session.sync.push_back(backwards);
  const auto read = parse_session_json(to_text(session));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->sync.size(), 4u);
  const auto brackets = read->brackets();
  ASSERT_EQ(brackets.size(), 2u);
  EXPECT_EQ(brackets[0].point.stamp, 1000u);
  EXPECT_EQ(brackets[0].point.adjustment, sync_at(1000).adjustment);
  EXPECT_EQ(brackets[1].point.stamp, 2000u);
  EXPECT_EQ(brackets[1].series, 7u);
  EXPECT_EQ(brackets[1].point.before.values[0], 1900u);
  EXPECT_EQ(brackets[1].point.after.values[0], 2100u);
}

TEST(SessionJsonTest, AClosedSessionThatWasNotThinnedOutHasAllItsSyncs) {
  SessionJson session = full_session();
  session.snapshot.reset();
  EXPECT_FALSE(session.has_all_syncs());  // the flight recorder's are in the recording
  session.flight.reset();
  EXPECT_TRUE(session.has_all_syncs());
  session.closed = false;
  EXPECT_FALSE(session.has_all_syncs());
  session.closed = true;
  session.sync.assign(64, sync_at(1000));
  EXPECT_FALSE(session.has_all_syncs());
}

TEST(SessionJsonTest, DamagedFieldsAreLeftOut) {
  json text = json::parse(to_text(full_session()));
  text["pid"] = "many";
  text["host"] = 7;
  text["threads"].push_back("damaged");
  text["threads"].push_back({{"tid", 1}});
  text["threads"].push_back({{"tid", 1ull << 40}, {"pid", 2}});
  text["sync"].push_back({{"stamp_ns", 5}, {"before", {{"mono", 9}}}});
  text["sync"][0]["stamp_ns"] = -5;
  text["cgroups"].push_back("damaged");
  text["cgroups"].push_back({{"path", "/a"}, {"nr_throttled", {9, 3}}, {"throttled_ns", 4}});
  text["cgroups"].push_back({{"threads", {{"tid", 1}}}});
  text["cgroups"][0]["threads"].push_back(1ull << 40);
  text["vms"] = {{"pid", 1}};
  const auto read = parse_session_json(text.dump());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->pid, 0);
  EXPECT_EQ(read->host.name, "");
  EXPECT_EQ(read->threads.size(), 2u);
  EXPECT_EQ(read->sync.size(), 2u);
  EXPECT_EQ(read->brackets().size(), 1u);
  EXPECT_TRUE(read->vms.empty());
  ASSERT_EQ(read->cgroups.size(), 3u);
  EXPECT_EQ(read->cgroups[0].throttled_ns[1], 700u);
  EXPECT_EQ(read->cgroups[0].threads, std::vector{44});
  EXPECT_THAT(read->cgroups[0].usage_usec, testing::Optional(testing::ElementsAre(82, 1082)));
  EXPECT_EQ(read->cgroups[1].usage_usec, std::nullopt);
  // What went back, or has no pair, proves nothing.
  EXPECT_EQ(read->cgroups[1].throttled[1], read->cgroups[1].throttled[0]);
  EXPECT_EQ(read->cgroups[1].throttled_ns[1], 0u);
  EXPECT_TRUE(read->cgroups[2].threads.empty());
  EXPECT_FALSE(parse_session_json("[]"));
  EXPECT_FALSE(parse_session_json("{\"closed\": tr"));
}

}  // namespace
}  // namespace trapline
