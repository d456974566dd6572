// The layouts of simpletrace files; docs/formats/simpletrace.md has them byte by byte.
//
// QEMU's (versions 2 to 4): a header, then records. From version 4 on each record begins with its
// type, and mapping records give the names of the event ids; before, ids count the events of the
// trace-events-all that the program was built with.
// RFC (the design of 2011): a header with the process id and the start, then events whose arguments
// each carry their size.
// All numbers are in the byte order of the machine that wrote the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trapline::simpletrace {

inline constexpr std::uint64_t kHeaderId = ~std::uint64_t{0};
inline constexpr std::uint64_t kHeaderMagic = 0xf2b177cb0aa429b4;
inline constexpr std::uint64_t kDroppedId = ~std::uint64_t{0} - 1;
inline constexpr std::uint64_t kVersion = 4;  // the version that this writer produces
inline constexpr std::uint64_t kOldestVersion = 2;

inline constexpr std::uint64_t kRecordMapping = 0;
inline constexpr std::uint64_t kRecordEvent = 1;

struct Header {
  std::uint64_t id = kHeaderId;
  std::uint64_t magic = kHeaderMagic;
  std::uint64_t version = kVersion;
};

// The header from version 3 on; version 2 has the same fields, with a 32-bit length and pid.
// `length` counts from here, without the type before the header.
struct RecordHeader {
  std::uint64_t id = 0;
  std::uint64_t timestamp = 0;  // CLOCK_MONOTONIC, ns
  std::uint32_t length = 0;
  std::uint32_t pid = 0;
};

inline constexpr std::uint64_t kRfcHeaderMagic = 0xAA0011FF;
inline constexpr std::uint64_t kRfcEventMagic = 0xA1B2C3D4;
inline constexpr std::uint64_t kRfcVersion = 1;

struct RfcHeader {
  std::uint64_t magic = kRfcHeaderMagic;
  std::uint64_t pid = 0;
  std::uint64_t version = kRfcVersion;
  std::uint64_t timestamp = 0;
};

struct RfcEvent {
  std::uint64_t magic = kRfcEventMagic;
  std::uint64_t id = 0;
  std::uint64_t timestamp = 0;
  std::uint64_t num_args = 0;
};

static_assert(sizeof(Header) == 24 && std::is_trivially_copyable_v<Header>);
static_assert(sizeof(RecordHeader) == 24 && std::is_trivially_copyable_v<RecordHeader>);
static_assert(sizeof(RfcHeader) == 32 && std::is_trivially_copyable_v<RfcHeader>);
static_assert(sizeof(RfcEvent) == 32 && std::is_trivially_copyable_v<RfcEvent>);

inline constexpr std::size_t kMaxString = 512;      // longer ones are cut, as QEMU does
inline constexpr std::size_t kMaxRecord = 1 << 16;  // no valid record is longer

}  // namespace trapline::simpletrace
