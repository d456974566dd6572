// One record of a <tid>.dat file (uftrace file version 4, little-endian):
//   word 0  time, ns
//   word 1  type 2 [1:0] | more 1 [2] | magic 3 [5:3] = 5 | depth 10 [15:6] | address 48 [63:16]
// Shifts, not bit-fields: their order is the compiler's choice. Depth saturates and addresses are
// cut: a field never spills into its neighbour. docs/formats/uftrace.md has the rest.
#pragma once

#include <cstdint>
#include <type_traits>

namespace trapline {

enum class RecordType : std::uint8_t {
  kEntry = 0,
  kExit = 1,
  kLost = 2,   // address: number of lost records
  kEvent = 3,  // address: number of the event
};

class Record {
 public:
  static constexpr std::uint64_t kMagic = 5;
  static constexpr unsigned kMaxDepth = 1023;
  static constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << 48) - 1;

  Record() = default;
  constexpr Record(RecordType type, std::uint64_t time, std::uint64_t depth, std::uint64_t address)
      : Record(time, word(type, depth, address)) {}
  // Makes a record as read from a file, or from a word of an earlier record.
  constexpr Record(std::uint64_t time, std::uint64_t word) : time_(time), word_(word) {}

  [[nodiscard]] static constexpr std::uint64_t word(RecordType type, std::uint64_t depth,
                                                    std::uint64_t address) {
    return static_cast<std::uint64_t>(type) | kMagic << 3 |
           (depth < kMaxDepth ? depth : kMaxDepth) << 6 | address << 16;
  }
  // Returns the second word of the exit record that belongs to an entry record's word.
  [[nodiscard]] static constexpr std::uint64_t exit_of(std::uint64_t entry) {
    return entry | static_cast<std::uint64_t>(RecordType::kExit);
  }

  [[nodiscard]] constexpr std::uint64_t time() const { return time_; }
  [[nodiscard]] constexpr RecordType type() const { return static_cast<RecordType>(word_ & 3); }
  [[nodiscard]] constexpr bool has_payload() const { return (word_ >> 2 & 1) != 0; }
  [[nodiscard]] constexpr bool valid() const { return (word_ >> 3 & 7) == kMagic; }
  [[nodiscard]] constexpr unsigned depth() const {
    return static_cast<unsigned>(word_ >> 6 & kMaxDepth);
  }
  [[nodiscard]] constexpr std::uint64_t address() const { return word_ >> 16; }

 private:
  std::uint64_t time_ = 0;
  std::uint64_t word_ = kMagic << 3;
};
static_assert(sizeof(Record) == 16 && std::is_trivially_copyable_v<Record>);

}  // namespace trapline
