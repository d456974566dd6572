#include "merge/source/uftrace/sync_file.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "backend_ftrace/base/text.h"
#include "merge/source/file.h"

namespace trapline {
Result<StampedSyncs> read_stamped_syncs(const std::string& path) {
  StampedSyncs result;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (errno == ENOENT) return result;
    return fail("cannot open {}: {}", path, std::strerror(errno));
  }
  constexpr std::string_view kClock = "# clock: ";
  std::string text;
  // The file holds sections, each with its own comment; all name the same clock.
  while (result.records.size() < kMostSyncRecords && std::getline(file, text)) {
    std::string_view line = text;
    if (line.size() > kLongestLine) {
      return fail(ErrorKind::kDamaged, "{}: a line of {} bytes is too long for a sync record", path,
                  line.size());
    }
    if (line.starts_with(kClock)) {
      result.clock = trimmed(line.substr(kClock.size()));
      continue;
    }
    std::uint64_t stamp = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), stamp);
    if (error != std::errc{} || end == line.data() + line.size() || *end != ' ') continue;
    line.remove_prefix(static_cast<std::size_t>(end + 1 - line.data()));
    if (const auto record = parse_sync(line)) result.records.emplace_back(stamp, *record);
  }
  return result;
}

}  // namespace trapline
