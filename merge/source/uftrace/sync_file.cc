#include "merge/source/uftrace/sync_file.h"

#include <charconv>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/source/file.h"

namespace trapline {
Result<StampedSyncs> read_stamped_syncs(const std::string& path) {
  StampedSyncs result;
  if (!is_there(path)) return result;
  const auto text = read_text(path);
  if (!text) return tl::unexpected(text.error());
  constexpr std::string_view kClock = "# clock: ";
  // The file holds sections, each with its own comment; all name the same clock.
  for (std::string_view rest = *text; result.records.size() < kMostSyncRecords && !rest.empty();) {
    std::string_view line = take_line(rest);
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
