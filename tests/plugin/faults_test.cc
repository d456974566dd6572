// Nothing that happens to the plugin or its output stops the guest, and what was written stays
// readable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "plugin/format/directory.h"
#include "plugin/format/symbol_table.h"
#include "tests/plugin/qemu_run.h"
#include "tests/support/require.h"

namespace trapline::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Count {
  std::uint64_t records = 0;
  std::uint64_t lost = 0;
};

// As the files of the directory have it.
Count counted(const std::string& path) {
  Count count;
  auto directory = DataDirectory::open(path);
  if (!directory) return count;
  for (const std::uint32_t tid : directory->tids()) {
    auto reader = directory->records(tid);
    if (!reader) continue;
    for (auto next = reader->next(); next && *next; next = reader->next()) {
      if ((*next)->type() == RecordType::kLost)
        count.lost += (*next)->address();
      else
        ++count.records;
    }
  }
  return count;
}

std::uint64_t lost_records(const std::string& path) { return counted(path).lost; }

// As the plugin says at the end.
Count told(const std::string& text) {
  Count count;
  const auto at = text.find(" records, ");
  const auto begin = text.rfind(": ", at);
  if (at == std::string::npos || begin == std::string::npos) return count;
  count.records = std::strtoull(text.c_str() + begin + 2, nullptr, 10);
  count.lost = std::strtoull(text.c_str() + at + 10, nullptr, 10);
  return count;
}

// A shell that runs QEMU as its child: `qemu` is the command, `recorded BYTES` waits until the
// records are that much, `until_true COMMAND` for a command to succeed; both for at most 30 s.
Output shell(const std::vector<std::string>& qemu, const std::string& data,
             const std::string& script) {
  std::string command = "qemu() { exec";
  for (const std::string& word : qemu) command += " '" + word + "'";
  command +=
      " \"$@\"; }; "
      "until_true() { for _ in {1..1500}; do ! \"$@\" || return 0; sleep 0.02; done; }; "
      "enough() { [ \"$(cat '" +
      data +
      "'/*.dat 2>/dev/null | wc -c)\" -ge \"$1\" ]; }; "
      "recorded() { until_true enough \"$1\"; }; ";
  return run({"bash", "-c", command + script}, 200);
}

// The guest takes about a second. Where the machine stalls for as long, it ends before a test has
// done what it wanted to do with it, and is tried again.
constexpr int kMostTries = 5;

struct Shape {
  std::uint64_t shortest = ~std::uint64_t{0};  // ns, of a call
  std::size_t deepest = 0;
};
Shape shape_of(const std::string& path) {
  Shape shape;
  auto directory = DataDirectory::open(path);
  if (!directory) return {0, 0};
  for (const std::uint32_t tid : directory->tids()) {
    auto reader = directory->records(tid);
    if (!reader) return {0, 0};
    std::vector<std::uint64_t> entered;
    for (auto next = reader->next(); next && *next; next = reader->next()) {
      const Record record = **next;
      if (record.type() == RecordType::kEntry) {
        entered.push_back(record.time());
        shape.deepest = std::max(shape.deepest, entered.size());
      } else if (record.type() == RecordType::kExit && !entered.empty()) {
        shape.shortest = std::min(shape.shortest, record.time() - entered.back());
        entered.pop_back();
      }
    }
  }
  return shape;
}

class FaultsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    TRAPLINE_REQUIRE(!qemu_folder(GetParam()).empty(),
                     std::string("scripts/fetch qemu") + GetParam());
  }
  // The guest that does nothing but call, for about a second.
  std::vector<std::string> calls(const std::string& options) const {
    return guest_command(
        GetParam(), "x86_64", "calls-O2",
        options.empty() ? "" : "symbols=" + guest_path("x86_64", "calls-O2") + "," + options);
  }
  TemporaryFolder folder_;
  std::string data_ = folder_ / "data";
};

TEST_P(FaultsTest, AfterSigtermTheRecordsAreWholeAndBalanced) {
  const Output output =
      shell(calls("out=" + data_), data_, "qemu & recorded 1000000; kill -TERM $!; wait $!");
  EXPECT_THAT(output.err, HasSubstr("records, 0 lost"));
  EXPECT_THAT(imbalances(data_), IsEmpty());
  EXPECT_EQ(reported_calls(data_)["guest_main"], 1u);
}

TEST_P(FaultsTest, AfterSigkillWhatWasWrittenIsReadable) {
  (void)shell(calls("out=" + data_), data_, "qemu & recorded 1000000; kill -KILL $!; wait $!");
  EXPECT_THAT(imbalances(data_, true), IsEmpty());
  EXPECT_GT(reported_calls(data_)["fib"], 1000u);
}

TEST_P(FaultsTest, OnAFullDiskTheGuestGoesOnAndTheLossIsCounted) {
  TRAPLINE_REQUIRE(::geteuid() == 0, "mounting a tmpfs needs root");
  const std::string mount = folder_ / "full";
  std::filesystem::create_directory(mount);
  ASSERT_EQ(run({"mount", "-t", "tmpfs", "-o", "size=3m", "none", mount}).exit_code(), 0);
  const std::string data = mount + "/data";
  const Output output = run(calls("out=" + data));
  const auto faults = imbalances(data, true);
  const Count there = counted(data);
  const std::uint64_t calls = reported_calls(data)["fib"];
  (void)run({"umount", mount});
  EXPECT_EQ(output.exit_code(), 1) << output.err;  // the guest's own end
  EXPECT_THAT(output.err, HasSubstr("the guest goes on"));
  EXPECT_THAT(faults, IsEmpty());
  EXPECT_GT(calls, 1000u);
  // All records that the plugin calls written are there, and the rest of fib(33)'s 11,405,773 calls
  // and returns is lost. A disk that is full to the end takes no last LOST record: the files may
  // tell less.
  const Count count = told(output.err);
  EXPECT_EQ(there.records, count.records) << output.err;
  EXPECT_GT(count.lost, 0u) << output.err;
  EXPECT_LE(there.lost, count.lost) << output.err;
  EXPECT_GE(count.records + count.lost, 2u * 11'405'773) << output.err;
  EXPECT_LE(count.records + count.lost, 2u * 11'450'000) << output.err;
}

TEST_P(FaultsTest, WhenTheDiskHasRoomAgainTheRecordsSayWhatWasLostAndGoOn) {
  TRAPLINE_REQUIRE(::geteuid() == 0, "mounting a tmpfs needs root");
  const std::string mount = folder_ / "full";
  std::filesystem::create_directory(mount);
  const std::string data = mount + "/data";
  const std::string told = folder_ / "told";
  std::uint64_t lost = 0;
  for (int tries = 0; tries < kMostTries && lost == 0; ++tries) {
    std::filesystem::remove(told);
    ASSERT_EQ(run({"mount", "-t", "tmpfs", "-o", "size=3m", "none", mount}).exit_code(), 0);
    const Output output =
        shell(calls("out=" + data), data,
              "qemu 2>'" + told + "' & until_true grep -q 'the guest goes on' '" + told +
                  "'; mount -o remount,size=1g '" + mount + "'; wait $!; cat '" + told + "' >&2");
    const auto faults = imbalances(data);
    lost = lost_records(data);
    (void)run({"umount", mount});
    if (lost != 0) {
      EXPECT_THAT(faults, IsEmpty()) << output.err;
    }
  }
  EXPECT_GT(lost, 0u);
}

TEST_P(FaultsTest, ARemovedDirectoryDoesNotStopTheGuest) {
  const Output output = shell(calls("out=" + data_), data_,
                              "qemu & recorded 1000000; rm -r '" + data_ + "'; wait $!");
  EXPECT_EQ(output.exit_code(), 1) << output.err;
  EXPECT_THAT(output.err, HasSubstr("cannot write " + data_ + "/sync.txt: "));
}

TEST_P(FaultsTest, AfterAResetTheRecordsAreBalancedAndGoOn) {
  auto command = calls("out=" + data_);
  std::erase(command, "-no-reboot");
  command.insert(command.end(), {"-monitor", "stdio"});
  std::uint64_t begun = 0;
  for (int tries = 0; tries < kMostTries && begun != 2; ++tries) {
    std::filesystem::remove_all(data_);
    const Output output = shell(command, data_,
                                "(recorded 1000000; echo system_reset; sleep 0.1;"
                                " before=$(cat '" +
                                    data_ +
                                    "'/*.dat | wc -c); recorded $((before + 100000000)); echo quit)"
                                    " | qemu; true");
    EXPECT_THAT(imbalances(data_), IsEmpty()) << output.err;
    begun = reported_calls(data_)["guest_main"];
  }
  EXPECT_EQ(begun, 2u);
}

TEST_P(FaultsTest, AHotPluggedProcessorIsNoTrouble) {
  auto command = calls("out=" + data_);
  *std::find(command.begin(), command.end(), "2") = "1,maxcpus=2";
  command.insert(command.end(), {"-monitor", "stdio"});
  const Output output =
      shell(command, data_,
            "(recorded 1000000;"
            " echo device_add qemu64-x86_64-cpu,socket-id=1,core-id=0,thread-id=0,id=c1;"
            " recorded 20000000; echo quit) | qemu; true");
  EXPECT_THAT(imbalances(data_), IsEmpty()) << output.err;
  EXPECT_THAT(output.err, HasSubstr("records, 0 lost"));
}

TEST_P(FaultsTest, ASavedAndLoadedMachineGoesOn) {
  const std::string state = folder_ / "state";
  auto command = calls("out=" + data_);
  command.insert(command.end(), {"-monitor", "stdio"});
  const std::string second = folder_ / "second";
  Output output;
  for (int tries = 0; tries < kMostTries && reported_calls(second)["fib"] <= 1000; ++tries) {
    std::filesystem::remove_all(data_);
    std::filesystem::remove_all(second);
    // The monitor reads on when the state is saved.
    (void)shell(
        command, data_,
        "(recorded 1000000; echo 'migrate exec:cat>" + state + "'; echo quit) | qemu; true");
    auto load = calls("out=" + second);
    load.insert(load.end(), {"-incoming", "exec:cat " + state});
    output = run(load);
  }
  EXPECT_EQ(output.exit_code(), 1) << output.err;
  EXPECT_THAT(imbalances(second), IsEmpty());
  EXPECT_GT(reported_calls(second)["fib"], 1000u);
}

TEST_P(FaultsTest, AnEarlierRecordingStaysUntilTheNewOneHasBegun) {
  (void)run(guest_command(GetParam(), "x86_64", "O2",
                          "out=" + data_ + ",include=fib,symbols=" + guest_path("x86_64", "O2")));
  const std::map<std::string, std::uint64_t> fib{{"fib", 1973}};
  ASSERT_EQ(reported_calls(data_), fib);
  // Refused by the plugin, by QEMU after the plugin has started, and killed before it has written.
  const Output refused = run(calls("out=" + data_ + ",include=no_such_function"));
  EXPECT_THAT(refused.err, HasSubstr("no function of the symbol files matches"));
  EXPECT_EQ(reported_calls(data_), fib);
  auto bad = calls("out=" + data_);
  bad.insert(bad.end(), {"-device", "no-such-device"});
  EXPECT_EQ(run(bad).exit_code(), 1);
  EXPECT_EQ(reported_calls(data_), fib);
  auto paused = calls("out=" + data_);
  paused.push_back("-S");
  (void)shell(paused, data_,
              "qemu & until_true grep -q libtrapline_plugin /proc/$!/maps; kill -KILL $!; wait $!");
  EXPECT_EQ(reported_calls(data_), fib);
  // A run that records replaces it, and leaves nothing of its own beside it.
  (void)run(
      guest_command(GetParam(), "x86_64", "O2",
                    "out=" + data_ + ",include=is_odd,symbols=" + guest_path("x86_64", "O2")));
  const std::map<std::string, std::uint64_t> odd{{"is_odd", 1500}};
  EXPECT_EQ(reported_calls(data_), odd);
}

TEST_P(FaultsTest, WhatCannotBeWrittenDoesNotReplaceAnEarlierRecording) {
  TRAPLINE_REQUIRE(::geteuid() == 0, "mounting a tmpfs needs root");
  const std::string mount = folder_ / "full";
  std::filesystem::create_directory(mount);
  ASSERT_EQ(run({"mount", "-t", "tmpfs", "-o", "size=1m", "none", mount}).exit_code(), 0);
  const std::string data = mount + "/data";
  (void)run(guest_command(GetParam(), "x86_64", "O2",
                          "out=" + data + ",include=fib,symbols=" + guest_path("x86_64", "O2")));
  const auto before = reported_calls(data);
  (void)run({"bash", "-c", "cat /dev/zero >" + mount + "/filler"});
  const Output output = run(calls("out=" + data));
  const auto after = reported_calls(data);
  (void)run({"umount", mount});
  EXPECT_EQ(before.at("fib"), 1973u);
  EXPECT_EQ(after, before) << output.err;
}

TEST_P(FaultsTest, ASmallBufferRecordsTheSame) {
  const Output output =
      run(guest_command(GetParam(), "x86_64", "O2",
                        "out=" + data_ + ",buffer=4K,symbols=" + guest_path("x86_64", "O2")));
  EXPECT_EQ(output.exit_code(), 1) << output.err;
  EXPECT_EQ(reported_calls(data_)["fib"], 1973u);
  EXPECT_THAT(imbalances(data_), IsEmpty());
}

// A plugin sees what TCG translates: of a guest that is not started, as of one under KVM, nothing.
TEST_P(FaultsTest, AGuestThatPluginsDoNotSeeIsToldOf) {
  (void)run(guest_command(GetParam(), "x86_64", "O2",
                          "out=" + data_ + ",include=fib,symbols=" + guest_path("x86_64", "O2")));
  auto unseen = calls("out=" + data_);
  unseen.insert(unseen.end(), {"-S", "-monitor", "stdio"});
  const Output output = shell(unseen, data_, "echo quit | qemu; true");
  EXPECT_THAT(output.err, HasSubstr("a plugin sees no other: no function was recorded"));
  EXPECT_THAT(output.err, HasSubstr("is the earlier recording"));
  EXPECT_EQ(reported_calls(data_)["fib"], 1973u);
}

TEST_P(FaultsTest, AFramePointerChainIsFollowedOverAThousandFrames) {
  const std::string guest = guest_path("x86_64", "O0");
  const auto symbols = load_symbol_file(guest);
  ASSERT_TRUE(symbols);
  const Symbol* recurse = symbols->by_name("recurse");
  ASSERT_NE(recurse, nullptr);
  // Only what runs after the call in it is seen: by then it is 3,000 frames deep.
  const Output output =
      run(guest_command(GetParam(), "x86_64", "O0",
                        "out=" + data_ + ",mode=frame-pointer,include=recurse,symbols=" + guest +
                            fmt::format(",code={:#x}-{:#x}", recurse->address + recurse->size / 2,
                                        recurse->address + recurse->size)));
  // And the innermost, whose start was not seen.
  EXPECT_EQ(shape_of(data_).deepest, 1023u) << output.err;
  EXPECT_THAT(imbalances(data_), IsEmpty());
  const auto told = output.err.find("more than 1024 frames");
  ASSERT_NE(told, std::string::npos) << output.err;
  EXPECT_EQ(output.err.find("more than 1024 frames", told + 1), std::string::npos);
}

// QEMU is killed for a child that its sandbox denies: the symbols are added afterwards.
TEST_P(FaultsTest, ASandboxThatDeniesChildrenLeavesSymbolsForAfterwards) {
  const std::string guest = guest_path("x86_64", "O2");
  auto command = guest_command(GetParam(), "x86_64", "O2", "out=" + data_ + ",symbols=" + guest);
  command.insert(command.end(), {"-sandbox", "on,obsolete=deny,spawn=deny"});
  const Output output = run(command);
  EXPECT_EQ(output.exit_code(), 1) << output.err;
  const auto told = output.err.find("after the run: trapline symbols -o " + data_ + " " + guest);
  ASSERT_NE(told, std::string::npos) << output.err;
  EXPECT_EQ(output.err.find("after the run:", told + 1), std::string::npos);
  const Output symbols =
      run({std::string(TRAPLINE_BINARY_DIR) + "/merge/trapline", "symbols", "-o", data_, guest});
  EXPECT_EQ(symbols.exit_code(), 0) << symbols.err;
  EXPECT_EQ(reported_calls(data_)["fib"], 1973u);
}

TEST_P(FaultsTest, TwoPluginsRecordTheSame) {
  const std::string copy = folder_ / "other.so";
  std::filesystem::copy_file(plugin_path(), copy);
  auto command = guest_command(GetParam(), "x86_64", "O2",
                               "out=" + data_ + ",symbols=" + guest_path("x86_64", "O2"));
  const std::string second = folder_ / "second";
  command.insert(command.end(),
                 {"-plugin", copy + ",out=" + second + ",symbols=" + guest_path("x86_64", "O2")});
  const Output output = run(command);
  EXPECT_EQ(output.exit_code(), 1) << output.err;
  auto first_calls = reported_calls(data_);
  EXPECT_EQ(first_calls["fib"], 1973u);
  EXPECT_EQ(reported_calls(second)["fib"], 1973u);
}

TEST_P(FaultsTest, TheSizeLimitEndsTheRecordingNotTheGuest) {
  const Output output = run(calls("out=" + data_ + ",limit=1M"));
  EXPECT_EQ(output.exit_code(), 1) << output.err;
  std::uint64_t size = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data_))
    if (entry.path().extension() == ".dat") size += entry.file_size();
  EXPECT_LE(size, 1u << 20);
  EXPECT_GT(size, 800u << 10);
  EXPECT_THAT(imbalances(data_, true), IsEmpty());
}

struct Refusal {
  const char* options;
  const char* message;
};

TEST_P(FaultsTest, BadOptionsAreRefusedBeforeTheGuestStarts) {
  const Refusal refusals[] = {
      {"ouput=ftrace", "no option is called 'ouput' (did you mean 'output'?)"},
      {"clock=local", "expected clock=mono|boot|real|tsc"},
      {"buffer=1K", "expected buffer=SIZE(K|M)"},
      {"output=both,min-duration=1us", "min-duration= needs output=uftrace"},
      {"min-duration=5", "expected min-duration=TIME(ns|us|ms|s)"},
      {"limit=5000000", "expected limit=SIZE(K|M|G)"},
      {"limit=many", "expected limit=SIZE(K|M|G)"},
      {"max-depth=0", "expected max-depth=N"},
      {"symbols=/nowhere/vmlinux", "cannot open /nowhere/vmlinux"},
      {"include=no_such_function", "a name needs symbols=FILE"},
      {"start=no_such_function", "neither an address nor a function"},
      {"out=/proc/data", "cannot create the directory /proc/data"},
      {"out=/usr", "is not empty and holds no earlier recording"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string out = std::string(refusal.options).starts_with("out=") ? "" : ",out=" + data_;
    const Output output = run(guest_command(GetParam(), "x86_64", "O2", refusal.options + out));
    EXPECT_THAT(output.err, HasSubstr(refusal.message)) << refusal.options;
    EXPECT_THAT(output.err, HasSubstr("trapline plugin: "));
    EXPECT_EQ(output.exit_code(), 1);
  }
}

TEST_P(FaultsTest, HelpListsTheOptions) {
  const Output output = run(guest_command(GetParam(), "x86_64", "O2", "help=on"));
  EXPECT_THAT(output.out, HasSubstr("symbols=FILE[@OFFSET]"));
  EXPECT_THAT(output.out, HasSubstr("min-duration=TIME"));
}

TEST_P(FaultsTest, FiltersSelectWhatIsRecorded) {
  const std::string guest = "symbols=" + guest_path("x86_64", "O2") + ",out=" + data_;
  (void)run(guest_command(GetParam(), "x86_64", "O2",
                          guest + ",include=fib,include=tail_*,exclude=tail_last"));
  const std::map<std::string, std::uint64_t> selected{
      {"fib", 1973}, {"tail_first", 100}, {"tail_middle", 100}};
  EXPECT_EQ(reported_calls(data_), selected);
  (void)run(guest_command(GetParam(), "x86_64", "O2", guest + ",include=recurse,max-depth=10"));
  EXPECT_EQ(reported_calls(data_)["recurse"], 10u);
  (void)run(
      guest_command(GetParam(), "x86_64", "O2",
                    guest + ",start=jump_once,stop=machine_exception,include=j*,include=fib"));
  const std::map<std::string, std::uint64_t> between{{"jump_once", 50}, {"jump_out", 250}};
  EXPECT_EQ(reported_calls(data_), between);
  (void)run(guest_command(GetParam(), "x86_64", "O2", guest + ",min-duration=10ms"));
  EXPECT_EQ(reported_calls(data_)["guest_main"], 1u);
  EXPECT_GE(shape_of(data_).shortest, 10'000'000u);
  EXPECT_THAT(imbalances(data_), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Qemu, FaultsTest, ::testing::Values("10", "11"));

}  // namespace
}  // namespace trapline::test
