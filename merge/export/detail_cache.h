// What an exporter made of an exit's detail, kept by the detail: a guest uses a few ports,
// addresses and registers all the time.
#pragma once

#include <array>
#include <cstdint>

#include "merge/model/exit_span.h"

namespace trapline {

// Direct-mapped: of details that share a place the last is kept.
template <typename Value>
class DetailCache {
 public:
  // The value of a detail of a kind, from make() where it is not kept. Valid until the next call.
  template <typename Make>
  [[nodiscard]] const Value& of(const KvmDetail& detail, Make&& make) {
    const std::uint64_t mixed = (detail.value ^ detail.value >> 12) * 8 +
                                static_cast<std::uint64_t>(detail.kind) * 3 +
                                static_cast<std::uint64_t>(detail.access);
    Entry& entry = entries_[mixed % kEntries];
    if (entry.detail.kind != detail.kind || entry.detail.value != detail.value ||
        entry.detail.access != detail.access) {
      entry = {detail, make()};
    }
    return entry.value;
  }

 private:
  static constexpr std::size_t kEntries = 4096;
  struct Entry {
    KvmDetail detail = kNoDetail;
    Value value;
  };
  std::array<Entry, kEntries> entries_;
};

}  // namespace trapline
