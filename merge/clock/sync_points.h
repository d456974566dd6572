// Sync records put together: what two clocks read around one moment. Pure; where the records are
// kept is merge/source/uftrace/sync_file.h. docs/formats/sync.md.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "backend_ftrace/sync.h"

namespace trapline::clocks {

// One bracket and the series that it was taken in.
struct SyncEntry {
  std::uint64_t series = 0;
  SyncPoint point;
};

// Puts brackets together from records of several writers, mixed in any way. Bounded: once there are
// kMany, a series that ends keeps its narrowest bracket only.
class SyncGatherer {
 public:
  static constexpr std::size_t kMany = 4096;
  void add(const SyncRecord& record, std::uint64_t stamp);
  // Those that were added, in the order of their stamps.
  [[nodiscard]] std::vector<SyncEntry> take();

 private:
  struct Series {
    SyncCollector collector;
    std::vector<SyncEntry> entries;
  };
  void close(std::uint64_t series);
  static constexpr std::size_t kMostOpen = 64;  // series at a time
  std::map<std::uint64_t, Series> open_;
  std::vector<SyncEntry> entries_;
};

}  // namespace trapline::clocks
