// What the doctor says of hosts that the tests make.
#include "merge/record/doctor.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "backend_ftrace/base/size.h"
#include "merge/model/kernel_events.h"
#include "tests/support/temporary_folder.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

class DoctorTest : public ::testing::Test {
 protected:
  DoctorTest() {
    host_.root = root_;
    host_.tracefs = root_ + "/sys/kernel/tracing";
    host_.superuser = true;
    host_.open_error = [this](const std::string& path, int) {
      return path == refused_ ? cause_ : 0;
    };
    file("/proc/cpuinfo",
         "vendor_id\t: GenuineIntel\nflags\t\t: fpu vmx constant_tsc nonstop_tsc\n");
    file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    file("/sys/kernel/tracing/trace_clock", "[local] global mono\n");
  }

  void file(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void event(const std::string& name, unsigned size = 8) {
    const std::string folder = "/sys/kernel/tracing/events/" + name;
    file(folder + "/enable", "0\n");
    file(folder + "/format",
         fmt::format("name: a\nID: {}\nformat:\n\tfield:char a[{}];\toffset:8;\tsize:{};"
                     "\tsigned:0;\n\nprint fmt: \"\"\n",
                     ++events_, size, size));
  }
  void refuse(const std::string& path, int cause) { refused_ = root_ + path, cause_ = cause; }

  unsigned events_ = 0;
  test::TemporaryFolder temporary_;
  std::string root_ = temporary_.path();
  std::string refused_;
  int cause_ = 0;
  Host host_;
};

Finding find(const std::vector<Finding>& findings, const std::string& check) {
  const auto at = std::find_if(findings.begin(), findings.end(),
                               [&](const Finding& one) { return one.check == check; });
  return at == findings.end() ? Finding{} : *at;
}

TEST_F(DoctorTest, TracefsThatIsNotMountedIsMissingWithTheMountCommand) {
  host_.tracefs.clear();
  const Finding finding = find(check_tracefs(host_), "tracefs");
  EXPECT_EQ(finding.level, Level::kMissing);
  EXPECT_EQ(finding.command, "mount -t tracefs nodev /sys/kernel/tracing");
}

TEST_F(DoctorTest, TheVerdictIsWhichExitsCanBeRecordedAndHowManyThingsAreNotFine) {
  const Finding fine{"processor", Level::kOk, "arm64"}, own{"processor", Level::kLimited, ""};
  const Finding limited{"QEMU", Level::kLimited, ""}, no_kvm{"/dev/kvm", Level::kMissing, ""};
  EXPECT_EQ(verdict_of({fine}),
            "This host: VM exits can be recorded. Nothing is missing, nothing is limited");
  EXPECT_EQ(verdict_of({own, limited}),
            "This host: exits to user space only; no kvm_exit. Nothing is missing, 2 things are "
            "limited");
  EXPECT_EQ(
      verdict_of({own, no_kvm}),
      "This host: no VM exits; a guest under TCG can be recorded. 1 thing is missing, 1 thing "
      "is limited");
  EXPECT_EQ(verdict_of({no_kvm, {"tracefs", Level::kMissing, "not mounted"}}),
            "This host: not ready to record. 2 things are missing, nothing is limited");
}

TEST_F(DoctorTest, WhyNoExitComesIsTheFirstGapElseTheVmsElseTheProcessor) {
  event("kvm/kvm_exit");
  event("kvm/kvm_entry");
  EXPECT_EQ(why_no_exit(host_, false),
            "no VM ran, or it was idle or paused, or never left its guest");
  EXPECT_EQ(why_no_exit(host_, true), "its VMs may have been idle");
  file("/proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu\n");
  EXPECT_EQ(why_no_exit(host_, true), "this host's KVM may write no kvm_exit");
  refuse("/dev/kvm", ENODEV);
  EXPECT_EQ(why_no_exit(host_, true), "processor: x86 without VMX and without SVM");
  file("/proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu vmx\n");
  refuse("/dev/kvm", ENOENT);
  EXPECT_EQ(why_no_exit(host_, true), "/dev/kvm: not there");
}

TEST_F(DoctorTest, FileThatRootMayNotOpenIsLocked) {
  EXPECT_EQ(worst_of(check_tracefs(host_)), Level::kOk);
  refuse("/sys/kernel/tracing/printk_formats", EPERM);
  EXPECT_EQ(worst_of(check_tracefs(host_)), Level::kLimited);
  EXPECT_THAT(find(check_tracefs(host_), "tracefs files").found, HasSubstr("locked"));
  refuse("/sys/kernel/tracing/trace_marker", EPERM);
  EXPECT_EQ(worst_of(check_tracefs(host_)), Level::kMissing);
}

TEST_F(DoctorTest, FilesThatOnlyRootMayOpenAreOneFindingForAUser) {
  host_.superuser = false;
  refuse("/sys/kernel/tracing/set_event_pid", EACCES);
  EXPECT_EQ(worst_of(check_tracefs(host_)), Level::kLimited);
  host_.open_error = [](const std::string&, int) { return EACCES; };
  const std::vector<Finding> findings = check_tracefs(host_);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].level, Level::kMissing);
  EXPECT_THAT(findings[1].found,
              HasSubstr("/instances: Permission denied, and 9 more of its files"));
  EXPECT_EQ(findings[1].command, "sudo trapline doctor");
}

TEST_F(DoctorTest, KvmWithoutItsModuleNamesTheModuleOfTheProcessor) {
  EXPECT_EQ(find(check_events(host_), "kvm events").command, "modprobe kvm_intel");
  file("/proc/cpuinfo", "vendor_id\t: AuthenticAMD\nflags\t\t: fpu svm\n");
  EXPECT_EQ(find(check_events(host_), "kvm events").command, "modprobe kvm_amd");
  file("/proc/cpuinfo", "vendor_id\t: AuthenticAMD\nflags\t\t: fpu\n");
  // Guests run there where /dev/kvm opens.
  EXPECT_EQ(find(check_kvm(host_), "processor").level, Level::kLimited);
  refuse("/dev/kvm", ENOENT);
  EXPECT_EQ(find(check_kvm(host_), "processor").level, Level::kMissing);
}

TEST_F(DoctorTest, EventsThatTheKernelLacksAreNamedWithTheirCost) {
  event("kvm/kvm_exit");
  event("kvm/kvm_pio");
  std::vector<Finding> findings = check_events(host_);
  EXPECT_EQ(worst_of(findings), Level::kMissing);  // no kvm_entry
  event("kvm/kvm_entry");
  findings = check_events(host_);
  EXPECT_EQ(worst_of(findings), Level::kLimited);
  EXPECT_THAT(findings,
              Contains(::testing::Field(&Finding::found, HasSubstr("kvm_userspace_exit"))));
  EXPECT_THAT(findings, Not(Contains(::testing::Field(&Finding::found, HasSubstr("kvm_pio")))));
  EXPECT_THAT(findings, Not(Contains(::testing::Field(&Finding::found, HasSubstr("arm64")))));
}

TEST_F(DoctorTest, KernelFunctionsNeedTheTracerAndAKernelThatHasItInInstances) {
  const auto level = [this](const std::string& tracers, const std::string& release) {
    file("/sys/kernel/tracing/available_tracers", tracers + '\n');
    file("/proc/sys/kernel/osrelease", release + '\n');
    return find(check_kernel_functions(host_), "kernel functions").level;
  };
  EXPECT_EQ(level("function nop", "6.12.95"), Level::kLimited);
  EXPECT_EQ(level("function_graph function nop", "6.10.14-cloud"), Level::kLimited);
  EXPECT_EQ(level("function_graph function nop", "5.15.0"), Level::kLimited);
  EXPECT_EQ(level("function_graph function nop", "6.11.0-rc1"), Level::kOk);
  EXPECT_EQ(level("function_graph function nop", "7.3.1"), Level::kOk);
}

TEST_F(DoctorTest, ClocksWithoutMonoOrTscAreSeen) {
  EXPECT_EQ(worst_of(check_clocks(host_)), Level::kOk);
  file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  EXPECT_EQ(find(check_clocks(host_), "TSC").level, Level::kLimited);
  file("/sys/kernel/tracing/trace_clock", "[local] global mono_raw\n");
  EXPECT_EQ(find(check_clocks(host_), "trace clock").level, Level::kMissing);
}

TEST_F(DoctorTest, SmallBuffersAreLimitedAndTheirCommandClosesTheGap) {
  fs::create_directories(host_.tracefs + "/per_cpu/cpu0");
  event("kvm/kvm_exit", 64);
  EXPECT_EQ(bytes_per_exit(host_), 76u);
  host_.buffer_kb = 64;
  const Finding finding = find(check_buffer(host_), "buffer");
  EXPECT_EQ(finding.level, Level::kLimited);
  const auto size = parse_size("", finding.command.substr(finding.command.rfind(' ') + 1));
  ASSERT_TRUE(size);
  host_.buffer_kb = *size / kKib;
  EXPECT_EQ(worst_of(check_buffer(host_)), Level::kOk);
  file("/proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    100 kB\n");
  EXPECT_EQ(worst_of(check_buffer(host_)), Level::kMissing);
}

TEST_F(DoctorTest, BuffersThatAreMoreThanThereIsAreRefused) {
  file("/proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    1000000 kB\n");
  const std::uint64_t available = available_memory_kb(host_.root);
  EXPECT_TRUE(check_buffer_size(500'000, 2, available));
  EXPECT_TRUE(check_buffer_size(4 << 20, 8, available_memory_kb("/nonexistent")));
  const auto refused = check_buffer_size(1 << 20, 2, available);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(refused.error().message,
            "--buffer-size 1G: 2 CPUs need 2G, and 1000000K of memory are available; give 122M or "
            "less");
}

TEST_F(DoctorTest, GuestIsAskedForPtp) {
  EXPECT_EQ(check_guest(host_).size(), 1u);
  file("/proc/cpuinfo", "flags\t\t: fpu hypervisor\n");
  EXPECT_EQ(find(check_guest(host_), "PTP_KVM").command, "sudo modprobe ptp_kvm");
  file("/sys/class/ptp/ptp0/clock_name", "KVM virtual PTP\n");
  EXPECT_EQ(find(check_guest(host_), "PTP_KVM").level, Level::kOk);
}

TEST(DoctorFactsTest, QemuAndDiskAreJudgedByTheirFacts) {
  EXPECT_EQ(worst_of(check_qemu(std::nullopt)), Level::kLimited);
  QemuProgram qemu{"/q", {QemuTracing::kLog, false, "10.0.0", ""}, true};
  EXPECT_EQ(worst_of(check_qemu(qemu)), Level::kOk);
  qemu.facts.tracing = QemuTracing::kNone;
  EXPECT_EQ(worst_of(check_qemu(qemu)), Level::kLimited);
  constexpr std::uint64_t kGib = 1ull << 30;
  EXPECT_EQ(worst_of(check_disk({"/d", 64 * kGib, kGib, ""}, 300)), Level::kOk);
  EXPECT_EQ(worst_of(check_disk({"/d", 64 * kGib, 1 << 20, ""}, 300)), Level::kLimited);
  EXPECT_EQ(worst_of(check_disk({"/d", 1 << 20, kGib, ""}, 300)), Level::kMissing);
  EXPECT_EQ(worst_of(check_disk({"/d", 64 * kGib, kGib, "read-only"}, 300)), Level::kMissing);
}

TEST(DoctorFactsTest, EveryKvmEventThatRecordSelectsHasItsCost) {
  for (const KernelEvent& event : events::all()) {
    if ((event.recorded.options & RecordedBy::kKvm) != 0) {
      EXPECT_NE(event.recorded.without, "") << event.full_name;
    }
  }
}

}  // namespace
}  // namespace trapline::record
