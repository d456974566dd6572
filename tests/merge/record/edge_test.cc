// What QEMU's monitor prints of memory slots; it may be anything.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "merge/record/session_writer.h"

namespace trapline::record {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> told(const std::vector<std::string>& lines) {
  std::vector<std::string> told;
  for (const SessionSlot& slot : slots_in(lines))
    told.push_back(std::to_string(slot.first) + '-' + std::to_string(slot.last) + ' ' + slot.name +
                   (slot.offset ? fmt::format(" +{}", *slot.offset) : ""));
  return told;
}

TEST(EdgeTest, TheSlotsAreThoseOfMemoryThatKvmHas) {
  EXPECT_THAT(told({"FlatView #0", "AS \"I/O\", root: io", "Root memory region: io",
                    "0000000000000000-0000000000000007 (prio 0, ram): a port KVM", "FlatView #1",
                    "AS \"cpu-memory-0\", root: system", "AS \"memory\", root: system",
                    "Root memory region: system",
                    "0000000000000000-000000000009ffff (prio 0, ram): pc.ram KVM",
                    "00000000000a0000-00000000000bffff (prio 1, i/o): vga-lowmem",
                    "00000000000c0000-00000000000dffff (prio 1, rom): pc.rom @0000000000001000 KVM",
                    "FlatView #2", "0000000000100000-00000000001fffff (prio 0, ram): not KVM"}),
              ElementsAre("0-655359 pc.ram +0", "786432-917503 pc.rom +4096"));
}

TEST(EdgeTest, LinesThatAreNoneAreLeftOut) {
  const std::string memory = "AS \"memory\", root: system", line = " (prio 0, ram): x KVM";
  EXPECT_THAT(told({memory, "1-" + line, "2-1" + line, "-" + line, " KVM", "1-2 (prio 0, ram) KVM",
                    "fffffffffffffffff-1" + line, "1-2 (prio 0, ram): \x1b[2J KVM", "3-4" + line}),
              ElementsAre("1-2 \\x1b[2J +0", "3-4 x +0"));
  const std::vector<std::string> many(10'000, "3-4" + line);
  std::vector<std::string> lines = {memory};
  lines.insert(lines.end(), many.begin(), many.end());
  EXPECT_THAT(slots_in(lines), IsEmpty());  // a part of them would name too much
}

}  // namespace
}  // namespace trapline::record
