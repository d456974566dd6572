// What an exporter made of an exit's reason and detail, kept by both: a guest uses a few ports,
// addresses and registers all the time.
#pragma once

#include <array>
#include <cstdint>

#include "merge/model/exit_span.h"

namespace trapline {

// Direct-mapped: of exits that share a place the last one's is kept.
template <typename Value>
class ExitTexts {
 public:
  // The value of exits like this one, from make() where it is not kept. Valid until the next call.
  template <typename Make>
  [[nodiscard]] const Value& of(const ExitSpan& exit, Make&& make) {
    const KvmDetail& detail = exit.detail;
    const std::uint64_t mixed =
        (detail.value ^ detail.value >> 12) * 8 + static_cast<std::uint64_t>(detail.kind) * 3 +
        static_cast<std::uint64_t>(detail.access) + std::uint64_t{exit.reason.reason} * 41;
    Entry& entry = entries_[mixed % kEntries];
    if (!entry.is_kept || entry.detail.value != detail.value || entry.detail.kind != detail.kind ||
        entry.detail.access != detail.access || entry.reason != exit.reason ||
        entry.source != exit.source) {
      entry = {detail, exit.reason, exit.source, true, make()};
    }
    return entry.value;
  }

 private:
  static constexpr std::size_t kEntries = 4096;
  struct Entry {
    KvmDetail detail = kNoDetail;
    ExitReason reason;
    std::uint16_t source = 0;
    bool is_kept = false;
    Value value;
  };
  std::array<Entry, kEntries> entries_;
};

}  // namespace trapline
