#include "merge/source/uftrace/sync_file.h"

#include <charconv>
#include <optional>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/source/file.h"

namespace trapline {
namespace {

// The number that a line begins with, before a blank; both are taken off.
template <typename Number>
std::optional<Number> take_number(std::string_view& line) {
  Number number{};
  const char* const end = line.data() + line.size();
  const auto [after, error] = std::from_chars(line.data(), end, number);
  if (error != std::errc{} || after == end || *after != ' ') return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(after + 1 - line.data()));
  return number;
}

// The file holds sections, each with its own comments; all name the same clock.
void read_comment(std::string_view line, SyncFile& file) {
  constexpr std::string_view kClock = "# clock: ", kRun = "# run: ", kThread = "# thread: cpu";
  if (line.starts_with(kClock)) {
    file.clock = trimmed(line.substr(kClock.size()));
  } else if (line.starts_with(kRun)) {
    if (file.run.empty()) file.run = trimmed(line.substr(kRun.size()));
  } else if (line.starts_with(kThread)) {
    line.remove_prefix(kThread.size());
    const auto vcpu = take_number<std::int32_t>(line);
    const auto thread = parse_number(trimmed(line));
    if (vcpu && thread && *thread > 0 && *thread <= INT32_MAX) {
      file.threads[*vcpu] = ThreadId{static_cast<std::int32_t>(*thread)};
    }
  }
}

}  // namespace

Result<SyncFile> read_sync_file(const std::string& path) {
  SyncFile file;
  if (!is_there(path)) return file;
  const auto text = read_text(path);
  if (!text) return tl::unexpected(text.error());
  for (std::string_view rest = *text; !rest.empty();) {
    std::string_view line = take_line(rest);
    if (line.size() > kLongestLine) {
      return fail(ErrorKind::kDamaged, "{}: a line of {} bytes is too long for a sync record", path,
                  line.size());
    }
    if (line.starts_with('#')) {
      read_comment(line, file);
      continue;
    }
    const auto stamp = take_number<std::uint64_t>(line);
    if (const auto guest = parse_guest_sync(line)) {
      if (file.guest.size() < kMostGuestSyncs) file.guest.push_back({stamp, *guest});
    } else if (const auto record = stamp ? parse_sync(line) : std::nullopt) {
      if (file.records.size() < kMostSyncRecords) file.records.emplace_back(*stamp, *record);
    }
  }
  return file;
}

}  // namespace trapline
