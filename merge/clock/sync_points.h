// Pairs sync records into brackets: what all clocks read just before and after a marker. Pure;
// merge/source/uftrace/sync_file.h reads the files. docs/formats/sync.md.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "backend_ftrace/sync.h"

namespace trapline::clocks {

// A bracket and the series that it is from.
struct SyncEntry {
  std::uint64_t series = 0;
  SyncPoint point;
};

// Pairs records of several writers, mixed in any way, into brackets. Bounded: once there are kMany
// brackets, a series that ends keeps only its narrowest one.
class SyncGatherer {
 public:
  static constexpr std::size_t kMany = 4096;
  void add(const SyncRecord& record, std::uint64_t stamp);
  // Returns the brackets found since the last call, in the order of their stamps.
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
