// Where sync records are kept, and reading them: markers of a recording, sync.txt of a uftrace
// directory, the `sync` list of a session.json. docs/formats/sync.md.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/sync.h"
#include "merge/source/source.h"

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

// Reads the source to its end. Damage ends the reading, not the answer: what came before holds.
[[nodiscard]] std::vector<SyncEntry> read_sync_markers(Source& source);

// A uftrace directory's sync.txt: the records' clock and the brackets on it. Lines that are no sync
// record are passed over. Nothing, without an error, where there is no such file.
struct SyncFile {
  std::string clock;  // empty: the file does not say
  std::vector<SyncEntry> entries;
};
[[nodiscard]] Result<SyncFile> read_sync_file(const std::string& path);

// One element of session.json's `sync`:
//   {"series": 7, "stamp_ns": 17000004500, "before": {"mono": 1, …}, "after": {"mono": 9, …}}
[[nodiscard]] nlohmann::json to_json(const SyncEntry& entry);
// The brackets of the list; elements that are damaged are left out.
[[nodiscard]] std::vector<SyncEntry> sync_from_json(const nlohmann::json& list);

}  // namespace trapline::clocks
