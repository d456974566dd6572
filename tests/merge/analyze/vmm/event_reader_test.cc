#include "merge/analyze/vmm/event_reader.h"

#include <gtest/gtest.h>

namespace trapline {
namespace {

class VmmEventReaderTest : public testing::Test {
 protected:
  VmmEvent read(std::string_view text) {
    VmmEvent event;
    EXPECT_TRUE(reader_.read(text, event)) << text;
    return event;
  }
  Names names_;
  VmmEventReader reader_{names_};
};

TEST_F(VmmEventReaderTest, ReadsARegionsAddressAndName) {
  const VmmEvent event = read(
      "memory_region_ops_read cpu 0 mr 0x55f8cfab62e0 addr 0xcfc value 0x1af4 size 2 name "
      "'pci-conf-data'\n");
  EXPECT_EQ(event.kind, VmmEvent::Kind::kRegionRead);
  EXPECT_TRUE(event.has_address);
  EXPECT_EQ(event.address, 0xcfcu);
  EXPECT_EQ(names_[event.region], "pci-conf-data");
}

TEST_F(VmmEventReaderTest, ARegionsNameMayHoldQuotesAndBlanks) {
  const VmmEvent event =
      read("memory_region_ops_write cpu 0 mr 0x1 addr 0x10 value 0x0 size 1 name 'a 'b' name'");
  EXPECT_EQ(names_[event.region], "a 'b' name");
}

TEST_F(VmmEventReaderTest, LeavesOutTheLogBackendsPrefix) {
  const VmmEvent event = read("1234@1700000000.123456:kvm_run_exit cpu_index 3, reason 2\n");
  EXPECT_EQ(names_[event.name], "kvm_run_exit");
  EXPECT_EQ(event.kind, VmmEvent::Kind::kRunExit);
  EXPECT_EQ(event.number, 2);
  EXPECT_EQ(event.vcpu, 3);
}

TEST_F(VmmEventReaderTest, TextsThatAreNoEventsAreRefused) {
  VmmEvent event;
  for (const std::string_view text :
       {"", "\n", "trapline: sync 1 2 3", "12 monkeys", " leading blank", "name:with colon"}) {
    EXPECT_FALSE(reader_.read(text, event)) << text;
  }
}

TEST_F(VmmEventReaderTest, AnEventWithoutArgumentsIsOne) {
  EXPECT_EQ(names_[read("serial_update\n").name], "serial_update");
}

TEST_F(VmmEventReaderTest, DamagedNumbersAreAbsent) {
  EXPECT_FALSE(read("memory_region_ops_write cpu 0 addr 0xzz").has_address);
  EXPECT_FALSE(read("memory_region_ops_write").has_address);
  EXPECT_EQ(read("kvm_run_exit cpu_index 99999999999999").vcpu, kNoVcpu);
}

TEST_F(VmmEventReaderTest, AnotherDeclarationIsReadByItsOwnFormat) {
  const tracetool::Declarations declared(
      "memory_region_ops_read(const char *name, uint64_t addr) \"%s at %\"PRIx64\n");
  VmmEventReader reader(names_, &declared);
  VmmEvent event;
  ASSERT_TRUE(reader.read("memory_region_ops_read new region at 71\n", event));
  EXPECT_TRUE(event.has_address);
  EXPECT_EQ(event.address, 0x71u);
  EXPECT_EQ(names_[event.region], "new region");
}

TEST_F(VmmEventReaderTest, ReadsTheDeviceEventsOfAVmmOfOnesOwn) {
  const VmmEvent event = read("vmm_device_write addr 0x402 value 0x41 size 1 name 'debug-port'\n");
  EXPECT_EQ(event.kind, VmmEventKind::kRegionWrite);
  ASSERT_TRUE(event.has_address);
  EXPECT_EQ(event.address, 0x402u);
  EXPECT_EQ(names_[event.region], "debug-port");
  EXPECT_EQ(read("vmm_device_read addr 0x71 value 0x1 size 1 name 'rtc'\n").kind,
            VmmEventKind::kRegionRead);
}

// A VMM whose events print otherwise, as a newcomer would describe it.
const VmmEventMeaning* other_meaning(std::string_view name) {
  static constexpr VmmEventMeaning kExit{
      VmmEventKind::kRegionRead, {"at", "@0x"}, {"dev", "<'"}, {"vcpu", "vcpu="}};
  return name == "io_exit" ? &kExit : nullptr;
}

TEST_F(VmmEventReaderTest, AnotherVmmSaysWhatItsEventsMean) {
  VmmEventReader reader(names_, nullptr, other_meaning);
  VmmEvent event;
  ASSERT_TRUE(reader.read("io_exit @0x3f8 <'uart'> vcpu=7", event));
  EXPECT_EQ(event.address, 0x3f8u);
  EXPECT_EQ(names_[event.region], "uart");
  EXPECT_EQ(event.vcpu, 7);
  ASSERT_TRUE(reader.read("kvm_run_exit cpu_index 3, reason 2", event));
  EXPECT_EQ(event.vcpu, kNoVcpu);  // QEMU's, and this reader does not know QEMU
  EXPECT_EQ(event.kind, VmmEventKind::kDevice);
}

TEST_F(VmmEventReaderTest, MoreNamesThanAreKeptBecomeOne) {
  VmmEvent event;
  for (std::size_t i = 0; i < Names::kMost + 10; ++i) {
    ASSERT_TRUE(reader_.read("event_" + std::to_string(i), event));
  }
  EXPECT_EQ(event.name, Names::kOther);
  EXPECT_EQ(names_.size(), Names::kMost);
}

}  // namespace
}  // namespace trapline
