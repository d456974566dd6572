// Who runs a vCPU is told by the names of its process and thread, and by what it wrote.
#include "merge/pass/naming.h"

#include <gmock/gmock.h>

#include <fstream>
#include <string>

#include "merge/explain/explain.h"
#include "tests/support/temporary_folder.h"

namespace trapline::test {
namespace {

// The VMM of a vCPU whose thread has this name, which is all that is known of its process, where
// each exit holds an event of this text.
std::string vmm_of(const std::string& comm, const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream out(folder / "trace.txt");
  out << "cpus=1\n";
  for (int i = 0; i < 4; ++i) {
    const std::string begin = " " + comm + "-101 [000] 6.79" + std::to_string(i);
    out << begin << "000: kvm_exit: reason IO_INSTRUCTION rip 0x10\n"
        << begin << "010: tracing_mark_write: " << text << '\n'
        << begin << "400: kvm_entry: vcpu 0\n";
  }
  out.close();
  PassOptions what;
  what.input.paths = {folder / "trace.txt"};
  const auto explained = run_explain(what, std::nullopt, {});
  if (!explained) return explained.error().message;
  return explained->vmm;
}

constexpr auto* kOther = "vmm_device_read addr 0x71 value 0x1 size 1 name 'rtc'";
constexpr auto* kAccess =
    "memory_region_ops_read cpu 0 mr 0x55 addr 0x71 value 0x1 size 1 name 'rtc'";

TEST(NamingTest, AWrappedQemuIsQemu) {
  EXPECT_EQ(vmm_of("qemu-system-x86", kOther), "QEMU");
  EXPECT_EQ(vmm_of(".qemu-system-x8", kOther), "QEMU");
}

TEST(NamingTest, AQemuWithAnotherNameIsKnownByItsEvents) {
  EXPECT_EQ(vmm_of("web01", kOther), "the VMM");
  EXPECT_EQ(vmm_of("web01", kAccess), "QEMU");
}

TEST(NamingTest, TheThreadOfAnotherVmmIsNotQemus) {
  EXPECT_EQ(vmm_of("kvm-vcpu-0", kOther), "the VMM");
  EXPECT_EQ(vmm_of("kvm", kOther), "QEMU");
}

// A text may be of trace.dat or of perf.data.
TEST(NamingTest, OfATextTheBinaryRecordingIsAskedForWhateverItIs) {
  const Timeline timeline({});
  const Pipeline pipeline(PipelineOptions(), {});
  EXPECT_EQ(Naming(timeline, pipeline).text(unknown_for(Missing::kFlags)),
            "unknown (the text has no flags; give the binary recording)");
}

}  // namespace
}  // namespace trapline::test
