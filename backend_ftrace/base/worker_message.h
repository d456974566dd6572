// The messages between a program and its worker (worker.h; the worker's side is merge/worker):
//
//   u32 kind | u32 size | size bytes of payload        in the machine's own byte order
//
// Texts are u32 length and bytes. A worker's task is the first word of its command line:
//
//   task     request                                     answer
//   any      kStatus                                     kStatus: u32 bits, WorkerStatus
//   events   kFormats: u32 byte order (0 little), u32    kFormat for each format, empty if it is
//            size of long, then pairs of texts: system,  not read: u32 type, 1 for a print format
//            format. Again for more formats              that is read, u32 number of fields, each
//                                                        text name, u32 offset, size, 1 for an
//                                                        array; then __print_symbolic tables, each
//                                                        text field, u32 number of names, each u32
//                                                        value, text name
//            kPrintk: text printk_formats                none
//            kKallsyms: text kallsyms                    none
//            kPrint: u32 CPU, text event; any number     kTexts, several: a text each, in order
//   symbols  kFile, with a descriptor                    kFile: text build-id, text debug link,
//                                                        u32 its checksum, u32 1 where it has a
//                                                        symbol table, then pairs of u64: the
//                                                        ranges of code
//            kChecksum                                   kChecksum: u32
//            kSymbols: u32 0 .symtab, 1 .dynsym          kSymbols: u64 address, size, limit, u32
//                                                        type, u32 1 where it is typed, text name;
//                                                        any number, again and again, then kEnd
//            kLines                                      kLines: u64 address, u32 line, text file;
//                                                        as above, then kEnd
//            kDemangle: a text each                      kTexts: as many; empty: it stays
//
// kRefused is an answer to any: u32 kind of the Error (result.h), text why the file cannot be read.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/bytes.h"

namespace trapline {

enum class MessageKind : std::uint32_t {
  kStatus = 1,
  kFormats,
  kFormat,
  kPrintk,
  kPrint,
  kTexts,
  kFile,
  kChecksum,
  kSymbols,
  kLines,
  kDemangle,
  kEnd,
  kRefused,
  kKallsyms,
};

// Bits of kStatus: the confinement that works, and whether root started the worker.
enum class WorkerStatus : std::uint32_t { kFiltered = 1, kLimited = 2, kRoots = 4 };

struct MessageHead {
  MessageKind kind;
  std::uint32_t size;
};
static_assert(sizeof(MessageHead) == 8);
inline constexpr std::uint32_t kLargestMessage = 16u << 20;
// Answers that come in pieces are sent whenever a piece has reached this size, in bytes.
inline constexpr std::size_t kMessagePiece = 256u << 10;

// The worker's exit status when it runs out of memory.
inline constexpr int kNoMemoryStatus = 77;

class MessageWriter {
 public:
  template <std::unsigned_integral T>
  void number(T value) {
    append(&value, sizeof value);
  }
  void text(std::string_view text) {
    number(static_cast<std::uint32_t>(text.size()));
    if (!text.empty()) append(text.data(), text.size());
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  void clear() { bytes_.clear(); }

 private:
  void append(const void* data, std::size_t size) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + size);
    std::memcpy(bytes_.data() + at, data, size);
  }
  std::vector<std::byte> bytes_;
};

// Reads a payload from its front. After the first value that exceeds the payload, all reads fail.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> payload)
      : cursor_(payload, std::endian::native) {}

  template <std::unsigned_integral T>
  [[nodiscard]] std::optional<T> number() {
    return cursor_.number<T>();
  }
  [[nodiscard]] std::optional<std::string_view> text() {
    const auto size = cursor_.number<std::uint32_t>();
    const auto bytes = size ? cursor_.take(*size) : std::nullopt;
    if (!bytes) return std::nullopt;
    return std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }
  [[nodiscard]] bool at_end() const { return cursor_.left() == 0; }
  [[nodiscard]] bool failed() const { return cursor_.failed(); }

 private:
  ByteCursor cursor_;
};

}  // namespace trapline
