// Texts that exporters use repeatedly, each made once.
//
// The texts of culprits are made while a recording is read, so a vCPU without an exit so far is
// named as a thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "merge/analyze/culprit.h"
#include "merge/analyze/pipeline.h"
#include "merge/model/exit_span.h"
#include "merge/source/timeline.h"

namespace trapline {

class CulpritTexts {
 public:
  // `form` is applied to each text when it is made. Borrows the timeline.
  CulpritTexts(const Timeline& timeline, std::function<std::string(std::string)> form)
      : timeline_(timeline), form_(std::move(form)) {}

  // Returns a text that is valid until the next call.
  [[nodiscard]] const std::string& of(const Culprit& culprit, const Pipeline& pipeline);

 private:
  static constexpr std::size_t kMost = 1u << 16;
  const Timeline& timeline_;
  std::function<std::string(std::string)> form_;
  std::unordered_map<std::uint64_t, std::string> texts_;
};

// Caches a value made from an exit's reason and detail: a guest uses only a few ports, addresses
// and registers most of the time.

// A direct-mapped cache: of exits that share a slot, only the last one's value is kept.
template <typename Value>
class ExitTexts {
 public:
  // Returns the value for exits like this one, from make() if it is not cached. Valid until the
  // next call.
  [[nodiscard]] const Value& of(const ExitSpan& exit, auto&& make) {
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
