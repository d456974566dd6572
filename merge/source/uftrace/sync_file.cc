#include "merge/source/uftrace/sync_file.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/source/file.h"

namespace trapline {

std::string clock_option(std::string_view cmdline) {
  constexpr std::string_view kOption = "--clock";
  const auto at = cmdline.find(kOption);
  if (at == cmdline.npos) return {};
  std::string_view rest = cmdline.substr(at + kOption.size());
  if (rest.empty() || (rest.front() != '=' && rest.front() != ' ')) return {};
  rest.remove_prefix(1);
  return std::string(rest.substr(0, rest.find(' ')));
}

std::string left_out(const std::string& path, bool with_kernel) {
  std::vector<std::string> names;
  for (const std::string& name : names_in(path)) {
    const bool data = name.ends_with(".dat") &&
                      ((!with_kernel && name.starts_with("kernel-cpu")) || name == "extern.dat");
    const auto status = data ? status_of(path + '/' + name) : std::nullopt;
    if (status && S_ISREG(status->st_mode) && status->st_size > 0) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::int32_t vcpu_of_task(std::uint32_t tid) {
  constexpr std::uint32_t kFirstStackTask = 100'000;
  return tid >= 100 && tid < kFirstStackTask ? static_cast<std::int32_t>(tid / 100) - 1 : kNoVcpu;
}

namespace {

// Parses a comment. The file has sections with comments of their own, which all name the same
// clock.
void read_comment(std::string_view line, SyncFile& file) {
  constexpr std::string_view kClock = "# clock: ", kRun = "# run: ", kThread = "# thread: cpu";
  if (line.starts_with(kClock)) {
    file.clock = trimmed(line.substr(kClock.size()));
  } else if (line.starts_with(kRun)) {
    if (file.run.empty()) file.run = trimmed(line.substr(kRun.size()));
  } else if (take_text(line, kThread)) {
    std::int32_t vcpu = 0;
    if (!take_number_to(line, vcpu, ' ')) return;
    const auto thread = parse_number(trimmed(line));
    if (thread && *thread > 0 && *thread <= INT32_MAX)
      file.threads[vcpu] = ThreadId{static_cast<std::int32_t>(*thread)};
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
    std::optional<std::uint64_t> stamp;
    if (std::uint64_t ns = 0; take_number_to(line, ns, ' ')) stamp = ns;
    if (const auto guest = parse_guest_sync(line)) {
      if (file.guest.size() < kMostGuestSyncs) file.guest.push_back({stamp, *guest});
    } else if (const auto record = stamp ? parse_sync(line) : std::nullopt) {
      if (file.records.size() < kMostSyncRecords) file.records.emplace_back(*stamp, *record);
    }
  }
  return file;
}

}  // namespace trapline
