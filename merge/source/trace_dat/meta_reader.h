// Reads a trace.dat's header forward, from the file or from a section that was decompressed.
//
// The first read that does not fit is remembered: from then on every read gives zero or an empty
// string and changes nothing, so a caller reads a whole structure and asks status() once, before it
// believes any of it. Loops over counts from the file check ok() each time round.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "backend_ftrace/base/bytes.h"
#include "merge/source/file.h"

namespace trapline::trace_dat {

class MetaReader {
 public:
  MetaReader(const File& file, std::uint64_t offset, std::uint64_t end)
      : file_(&file), at_(offset), end_(end) {}
  MetaReader(const File& file, std::string bytes)
      : file_(&file), memory_(std::move(bytes)), in_memory_(true), end_(memory_.size()) {}

  void set_order(std::endian order) { order_ = order; }
  [[nodiscard]] bool ok() const { return status_.has_value(); }
  [[nodiscard]] const Result<void>& status() const { return status_; }
  [[nodiscard]] std::uint64_t position() const { return at_; }
  [[nodiscard]] std::uint64_t left() const { return ok() ? end_ - at_ : 0; }

  template <std::unsigned_integral T>
  [[nodiscard]] T number() {
    std::byte bytes[sizeof(T)] = {};
    fill(bytes);
    return load<T>(bytes, order_);
  }
  [[nodiscard]] std::string bytes(std::uint64_t size);
  [[nodiscard]] std::string c_string();  // at most 4,096 bytes
  void expect(std::string_view magic);   // fails when other bytes stand here
  void skip(std::uint64_t size);
  void fail_here(std::string_view what);

 private:
  bool fits(std::uint64_t size);
  void fill(std::span<std::byte> into);

  const File* file_;
  std::string memory_;
  bool in_memory_ = false;
  std::uint64_t at_ = 0;
  std::uint64_t end_;
  std::endian order_ = std::endian::little;
  Result<void> status_;
};

}  // namespace trapline::trace_dat
