// Evidence of clocks belongs to the guest that gave it: what open_input() makes of recordings of
// one host, of several guests and of other machines. The host's recording is real (tests/merge/
// guest-clock), what lies beside it is written here.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "backend_ftrace/base/text_file.h"
#include "merge/session/input.h"
#include "merge/session/open.h"
#include "plugin/format/directory_writer.h"
#include "plugin/format/record.h"
#include "tests/support/source_clock.h"
#include "tests/support/temporary_folder.h"

namespace trapline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kGuestClock = TRAPLINE_SOURCE_DIR "/tests/merge/guest-clock/";

class EvidenceTest : public ::testing::Test {
 protected:
  EvidenceTest() {
    auto host = open_source(host_, {});
    syncs_ = collect(**host, {}).syncs;
  }

  // The host's TSC at a time of its CLOCK_MONOTONIC, by its recording's own sync records.
  std::uint64_t host_tsc(std::uint64_t mono) const {
    const SyncPoint &a = syncs_.front().point, &b = syncs_.back().point;
    const auto mono0 = static_cast<double>(a.before.at(ClockId::kMono));
    const auto tsc0 = static_cast<double>(a.before.at(ClockId::kTsc));
    const double rate = (static_cast<double>(b.before.at(ClockId::kTsc)) - tsc0) /
                        (static_cast<double>(b.before.at(ClockId::kMono)) - mono0);
    return static_cast<std::uint64_t>(tsc0 + (static_cast<double>(mono) - mono0) * rate);
  }
  // A directory of the plugin in a QEMU of the host, on the host's mono: calls of its guest, and
  // the magic no-ops of a `trapline sync` there, which read that guest's own clocks. Its TSC is
  // `ticks` of the host's before it.
  std::string plugin_directory(const std::string& hostname, std::uint64_t ticks, int tries = 16) {
    const std::string path = folder_ + "/uftrace.data";
    UftraceInfo info;
    info.hostname = hostname;
    auto writer = DirectoryWriter::create(path, info);
    EXPECT_TRUE(writer);
    std::ofstream(path + "/sid-0.map")
        << "000000001000-000000002000 r-xp 00000000 00:00 0 /vm/guest.elf\n"
           "7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]\n";
    EXPECT_TRUE(writer->add_task(100, "cpu0", kFirst));
    auto data = writer->open_data(100);
    EXPECT_TRUE(data);
    std::ofstream syncs(path + "/sync.txt");
    syncs << "# clock: mono\n";
    for (std::uint32_t series = 1; series <= 2; ++series) {
      std::uint64_t now = kFirst + series * 5'000'000'000;
      for (const RecordType type : {RecordType::kEntry, RecordType::kExit}) {
        const Record record(type, now += 1'000, 0, 0x1000);
        EXPECT_EQ(write_bytes(data->get(), {reinterpret_cast<const char*>(&record), sizeof record}),
                  0);
      }
      for (int i = 0; i <= tries; ++i, now += 2'000) {
        const auto reading = [&](std::uint64_t at) {
          return fmt::format("mono={} tsc={}", at - kFirst, host_tsc(at) - ticks);
        };
        syncs << fmt::format("{} trapline: guest 1 {} {}", now, series * 8 + 70'000, i);
        if (i < tries) syncs << " before " << reading(now + 300);
        if (i > 0) syncs << " after " << reading(now - 300);
        syncs << '\n';
      }
    }
    return path;
  }
  Result<Input> open(std::vector<std::string> paths, std::vector<std::string> offsets = {}) {
    InputOptions options;
    options.paths = std::move(paths);
    options.offsets = std::move(offsets);
    return open_input(options);
  }

  static constexpr std::uint64_t kFirst = 10'000'000'000;
  const std::string host_ = kGuestClock + "host.dat";
  test::TemporaryFolder temporary_;
  std::string folder_ = temporary_.path();
  std::vector<clocks::SyncEntry> syncs_;
};

// A KVM guest ran on the host, whose recording says how far that guest's TSC is off; and a guest of
// another QEMU under TCG, which read a TSC of its own. The plugin stamps what it saw there with the
// host's mono: the clock of the host's recording.
TEST_F(EvidenceTest, APluginsDirectoryOfTheSameHostAndClockIsNotShiftedByAnotherGuestsTsc) {
  for (const char* hostname : {"host", "", "(none)"}) {
    const auto input = open({host_, plugin_directory(hostname, 9'000'000'000)});
    ASSERT_TRUE(input) << input.error().message;
    ASSERT_EQ(input->sources.size(), 2u);
    const SourceInfo& info = input->sources[1]->info();
    EXPECT_TRUE(info.aligned.is_same_clock()) << hostname;
    EXPECT_EQ(info.aligned.offset_ns, 0);
    EXPECT_FALSE(info.aligned.error_ns) << "nothing shows that both are of one boot";
    EXPECT_EQ(info.aligned.one_boot_error_ns, 0u);
    Event event;
    ASSERT_EQ(input->sources[1]->next(event), Read::kEvent);
    EXPECT_EQ(event.at.ns(), kFirst + 5'000'001'000);
    std::filesystem::remove_all(folder_ + "/uftrace.data");
  }
}

TEST_F(EvidenceTest, OneReadingOfAnotherGuestDoesNotMakeItsDirectoryUnreadable) {
  const auto input = open({host_, plugin_directory("host", 9'000'000'000, 1)});
  ASSERT_TRUE(input) << input.error().message;
  EXPECT_TRUE(input->sources[1]->info().aligned.is_same_clock());
}

// The readings of a guest's TSC, as if its counter were 3 ms off: nothing else is given that would
// tell which guest they are of, and its own records show that they are wrong.
TEST_F(EvidenceTest, ARelationThatPutsTheGuestsRecordsIntoExitsIsRefused) {
  const std::string path = folder_ + "/sync.txt";
  for (const std::uint64_t off : {std::uint64_t{0}, std::uint64_t{3'000'000}}) {
    std::ofstream out(path);
    auto syncs = read_sync_file(kGuestClock + "sync.txt");
    ASSERT_TRUE(syncs);
    for (GuestSyncLine& line : syncs->guest) {
      if (line.record.series % 8 != 0) continue;  // no-ops only
      for (auto* reading : {&line.record.before, &line.record.after})
        if (*reading) (*reading)->counter += off;
      out << format_guest_sync(line.record) << '\n';
    }
    out.close();
    const auto input = open({host_, kGuestClock + "uftrace.data", path});
    if (off == 0) {
      ASSERT_TRUE(input) << input.error().message;
      EXPECT_THAT(input->sources[1]->info().aligned.method, HasSubstr("TSC readings"));
    } else {
      ASSERT_FALSE(input) << input->sources[1]->info().aligned.method;
      EXPECT_THAT(input.error().message,
                  AllOf(HasSubstr("its vCPU left the guest at"), HasSubstr("host.dat"),
                        HasSubstr("--offset " + kGuestClock + "uftrace.data=NS")));
    }
  }
}

TEST_F(EvidenceTest, PrintedSyncRecordsOfOneGuestAreNotTakenForTwo) {
  const std::string other = folder_ + "/other.data";
  std::filesystem::copy(kGuestClock + "uftrace.data", other);
  std::ifstream in(other + "/info");
  std::string info(std::istreambuf_iterator<char>(in), {});
  const auto name = info.find("hostname=guest");
  ASSERT_NE(name, std::string::npos);
  std::ofstream(other + "/info") << info.replace(name, 14, "hostname=other");
  const auto input = open({host_, kGuestClock + "uftrace.data", other, kGuestClock + "sync.txt"});
  ASSERT_FALSE(input);
  EXPECT_THAT(input.error().message,
              AllOf(HasSubstr("sync records of one guest"), HasSubstr("other.data")));
}

// A guest's switch is a switch of the guest: it keeps its payload, and no host thread takes its
// number.
TEST_F(EvidenceTest, EventsOfTheGuestsKernelKeepTheirMeaningAndSayWhoseTheyAre) {
  const std::string guest = kGuestClock + "guest.dat";
  std::uint64_t switches = 0, on_vcpus = 0;
  std::set<ThreadId> next;
  {
    auto alone = open_source(guest, {});
    ASSERT_TRUE(alone) << alone.error().message;
    Event event;
    while ((*alone)->next(event) == Read::kEvent) {
      if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) {
        ++switches;
        next.insert(sched->next);
      }
    }
  }
  ASSERT_GT(switches, 0u);
  InputOptions options;
  options.paths = {host_, guest};
  auto input = open_input(options);
  ASSERT_TRUE(input) << input.error().message;
  ASSERT_EQ(input->sources.size(), 2u);
  Source& placed = *input->sources[1];
  std::uint64_t found = 0;
  Event event;
  while (placed.next(event) == Read::kEvent) {
    EXPECT_EQ(event.machine, guest_machine(1));
    EXPECT_GE(static_cast<std::int32_t>(event.thread), 0);
    if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) {
      ++found;
      EXPECT_TRUE(next.contains(sched->next));
      on_vcpus += event.thread != ThreadId{} && event.thread != event.task;
    }
  }
  EXPECT_EQ(found, switches);
  EXPECT_EQ(on_vcpus, switches);
}

// What the pass for evidence shows to whoever wants to know something of the recording first.
TEST_F(EvidenceTest, AnObserverSeesWhatTheHostsRecordingYields) {
  struct Count final : EvidenceObserver {
    void begin(const Source& host, const Capabilities& has, Processes) override {
      path = host.info().path;
      kvm = has.kvm_exit;
    }
    void on(const Event&) override { ++events; }
    void end(const Result<void>& status) override { ended = status.has_value(); }
    std::string path;
    bool kvm = false, ended = false;
    std::uint64_t events = 0;
  } count;
  InputOptions options;
  options.paths = {kGuestClock + "uftrace.data", host_, kGuestClock + "sync.txt"};
  options.observer = &count;
  const auto input = open_input(options);
  ASSERT_TRUE(input) << input.error().message;
  EXPECT_TRUE(input->observed);
  EXPECT_EQ(count.path, host_);
  EXPECT_TRUE(count.kvm);
  EXPECT_TRUE(count.ended);
  std::uint64_t events = 0;
  for (Event event; input->sources[0]->next(event) == Read::kEvent;) ++events;
  EXPECT_EQ(count.events, events);
}

// trace-cmd record -A moved the guest's times onto its host's clock and named the guest in the
// host's file: its switches are the guest's.
TEST_F(EvidenceTest, AGuestWhoseTimesWereShiftedIsAMachineOfItsOwn) {
  const std::string pair = TRAPLINE_SOURCE_DIR "/tests/merge/time-shift/";
  InputOptions options;
  options.paths = {pair + "guest.dat", pair + "host.dat"};
  auto input = open_input(options);
  ASSERT_TRUE(input) << input.error().message;
  ASSERT_EQ(input->sources.size(), 2u);
  std::uint64_t of_host = 0, of_guest = 0;
  for (const auto& source : input->sources) {
    const bool is_guest = source->info().path == options.paths[0];
    EXPECT_EQ(source->info().role, is_guest ? Role::kGuest : Role::kHostKernel);
    for (Event event; source->next(event) == Read::kEvent;) {
      EXPECT_EQ(event.machine, is_guest ? guest_machine(1) : MachineId::kHost);
      EXPECT_GE(static_cast<std::int32_t>(event.thread), -1);
      ++(is_guest ? of_guest : of_host);
    }
  }
  EXPECT_GT(of_guest, 100u);
  EXPECT_GT(of_host, 10'000u);
  // Alone it is a recording like others.
  options.paths.pop_back();
  input = open_input(options);
  ASSERT_TRUE(input);
  EXPECT_EQ(input->sources.front()->info().role, Role::kHostKernel);
}

// Two recordings of two boots that began at the same time after their boots. Each names neither its
// boot nor its machine; both say which thread was on the only CPU.
TEST_F(EvidenceTest, TwoBootsWhoseThreadsShareACpuAreRefusedWithTheEvents) {
  const std::string data = TRAPLINE_SOURCE_DIR "/tests/data/";
  const std::vector<std::string> two{data + "svm-mono.dat", data + "box/demo-ioctl.dat"};
  const auto refused = open(two);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("svm-mono.dat"), HasSubstr("demo-ioctl.dat"), HasSubstr("on CPU 0"),
                    HasSubstr("thread 1"), HasSubstr(" at "), HasSubstr("--offset " + data),
                    HasSubstr("not of one boot")));
  EXPECT_TRUE(open(two, {"demo-ioctl.dat=0"})) << "the user says that it is one clock";
  // arm64 writes a vCPU's timers after the switch that takes its CPU.
  const auto arm64 = open({data + "arm64/kvm-arm64-linux.dat", data + "arm64/kvm-arm64-mono.dat"});
  ASSERT_FALSE(arm64);
  EXPECT_THAT(arm64.error().message, HasSubstr("not of one boot"));
}

// perf.data names the kernel as trace-cmd does.
TEST_F(EvidenceTest, RecordingsOfTwoKernelsAreRefused) {
  const std::string data = TRAPLINE_SOURCE_DIR "/tests/data/";
  const auto system_of = [](const std::string& path) {
    const auto input = open_source(path, {});
    return input ? (*input)->describe().machine.system : input.error().message;
  };
  EXPECT_EQ(system_of(data + "perf/kvm-stat.perf.data"), system_of(data + "svm-mono.dat"));
  const auto refused = open({data + "svm-mono.dat", data + "kernels/demo-7.3.dat"});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("6.1.0"), HasSubstr("7.3")));
}

// Two sessions of one host: what their session.json says of the boot decides.
TEST_F(EvidenceTest, TheBootsOfTwoSessionsDecide) {
  const auto session = [this](const std::string& name, const std::string& boot) {
    std::filesystem::create_directories(folder_ + "/" + name);
    std::filesystem::copy(host_, folder_ + "/" + name + "/trace.dat",
                          std::filesystem::copy_options::skip_existing);
    std::ofstream(folder_ + "/" + name + "/session.json")
        << "{\"version\": 1, \"closed\": true, \"host\": {"
        << (boot.empty() ? "" : "\"boot_id\": \"" + boot + "\"") << "}}";
    return folder_ + "/" + name;
  };
  const auto error_of_second = [this](const std::vector<std::string>& paths) {
    const auto input = open(paths);
    EXPECT_TRUE(input) << input.error().message;
    return input ? input->sources[1]->info().aligned.error_ns : 77;
  };
  const std::string a = session("a", "0b3c"), b = session("b", "0b3c");
  EXPECT_EQ(error_of_second({a, b}), 0u);
  EXPECT_EQ(error_of_second({a, host_}), std::nullopt);
  session("b", "");
  EXPECT_EQ(error_of_second({a, b}), std::nullopt);
  session("b", "77f1");
  const auto refused = open({a, b});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("0b3c"), HasSubstr("77f1")));
}

}  // namespace
}  // namespace trapline
