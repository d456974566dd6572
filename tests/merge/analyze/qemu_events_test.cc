#include "merge/analyze/qemu_events.h"

#include <gtest/gtest.h>

namespace trapline {
namespace {

class QemuEventReaderTest : public testing::Test {
 protected:
  QemuEvent read(std::string_view text) {
    QemuEvent event;
    EXPECT_TRUE(reader_.read(text, event)) << text;
    return event;
  }
  Names names_;
  QemuEventReader reader_{names_};
};

TEST_F(QemuEventReaderTest, ReadsARegionsAddressAndName) {
  const QemuEvent event = read(
      "memory_region_ops_read cpu 0 mr 0x55f8cfab62e0 addr 0xcfc value 0x1af4 size 2 name "
      "'pci-conf-data'\n");
  EXPECT_EQ(event.kind, QemuEvent::Kind::kRegionRead);
  EXPECT_TRUE(event.has_address);
  EXPECT_EQ(event.address, 0xcfcu);
  EXPECT_EQ(names_[event.region], "pci-conf-data");
}

TEST_F(QemuEventReaderTest, ARegionsNameMayHoldQuotesAndBlanks) {
  const QemuEvent event =
      read("memory_region_ops_write cpu 0 mr 0x1 addr 0x10 value 0x0 size 1 name 'a 'b' name'");
  EXPECT_EQ(names_[event.region], "a 'b' name");
}

TEST_F(QemuEventReaderTest, LeavesOutTheLogBackendsPrefix) {
  const QemuEvent event = read("1234@1700000000.123456:kvm_run_exit cpu_index 3, reason 2\n");
  EXPECT_EQ(names_[event.name], "kvm_run_exit");
  EXPECT_EQ(event.kind, QemuEvent::Kind::kAccelerator);
  EXPECT_EQ(event.vcpu, 3);
}

TEST_F(QemuEventReaderTest, TextsThatAreNoEventsAreRefused) {
  QemuEvent event;
  for (const std::string_view text :
       {"", "\n", "trapline: sync 1 2 3", "12 monkeys", " leading blank", "name:with colon"}) {
    EXPECT_FALSE(reader_.read(text, event)) << text;
  }
}

TEST_F(QemuEventReaderTest, AnEventWithoutArgumentsIsOne) {
  EXPECT_EQ(names_[read("serial_update\n").name], "serial_update");
}

TEST_F(QemuEventReaderTest, DamagedNumbersAreAbsent) {
  EXPECT_FALSE(read("memory_region_ops_write cpu 0 addr 0xzz").has_address);
  EXPECT_FALSE(read("memory_region_ops_write").has_address);
  EXPECT_EQ(read("kvm_run_exit cpu_index 99999999999999").vcpu, kNoVcpu);
}

TEST_F(QemuEventReaderTest, AnotherDeclarationIsReadByItsOwnFormat) {
  const auto file = tracetool::parse_trace_events(
      "memory_region_ops_read(const char *name, uint64_t addr) \"%s at %\"PRIx64\n", "test");
  ASSERT_TRUE(file.errors.empty());
  QemuEventReader reader(names_, file.events);
  QemuEvent event;
  ASSERT_TRUE(reader.read("memory_region_ops_read new region at 71\n", event));
  EXPECT_TRUE(event.has_address);
  EXPECT_EQ(event.address, 0x71u);
  EXPECT_EQ(names_[event.region], "new region");
}

TEST_F(QemuEventReaderTest, MoreNamesThanAreKeptBecomeOne) {
  QemuEvent event;
  for (std::size_t i = 0; i < Names::kMost + 10; ++i) {
    ASSERT_TRUE(reader_.read("event_" + std::to_string(i), event));
  }
  EXPECT_EQ(event.name, Names::kOther);
  EXPECT_EQ(names_.size(), Names::kMost);
}

}  // namespace
}  // namespace trapline
