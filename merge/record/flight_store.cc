#include "merge/record/flight_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;

// 20261121T224510Z, or with -2, -3, … where there were several in a second.
bool is_snapshot_name(const std::string& name) {
  constexpr std::string_view kShape = "00000000T000000Z";
  if (name.size() < kShape.size()) return false;
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = name[i] >= '0' && name[i] <= '9';
    if (kShape[i] == '0' ? !digit : name[i] != kShape[i]) return false;
  }
  return name.size() == kShape.size() || name[kShape.size()] == '-';
}

std::uint64_t bytes_below(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat status {};
    if (::lstat(entry->path().c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
      bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
  }
  return bytes;
}

}  // namespace

Result<FlightStore> FlightStore::open(const std::string& folder, std::uint64_t budget) {
  std::error_code error;
  const std::string lock = folder + "/lock";
  if (is_there(folder) && !is_there(lock) && !fs::is_empty(folder, error)) {
    return fail(ErrorKind::kUsage,
                "{} exists but is not a flight recorder's folder; choose another folder with -o",
                folder);
  }
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail("{}: {}", folder, std::strerror(errno));
  }
  UniqueFd fd(::open(lock.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail("{}: {}", lock, std::strerror(errno));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(
        "{}: another flight recorder writes its snapshots there; choose another folder with -o",
        folder);
  }
  return FlightStore(folder, budget, std::move(fd));
}

std::vector<std::string> FlightStore::snapshots() const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (is_snapshot_name(name) && entry->is_directory(error) && !entry->is_symlink(error)) {
      names.push_back(std::move(name));
    }
  }
  // By time, and of one second by the number, which has no leading zeros.
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    const int order = a.compare(0, 16, b, 0, 16);
    return order != 0 ? order < 0 : std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  return names;
}

Result<std::vector<std::string>> FlightStore::make_room(std::uint64_t bytes) const {
  if (bytes > budget_) {
    return fail(
        "the snapshot needs {:.0f} MiB, more than all snapshots may take; give more: "
        "--disk-budget {:.0f}",
        mib(bytes) + 1, 2 * mib(bytes) + 1);
  }
  std::vector<std::string> removed;
  const std::vector<std::string> names = snapshots();
  std::vector<std::uint64_t> sizes;
  std::uint64_t taken = 0;
  for (const std::string& name : names) {
    sizes.push_back(bytes_below(fs::path(folder_) / name));
    taken += sizes.back();
  }
  for (std::size_t i = 0; i < names.size() && taken + bytes > budget_; ++i) {
    std::error_code error;
    fs::remove_all(fs::path(folder_) / names[i], error);
    if (error) return fail("{}/{}: {}", folder_, names[i], error.message());
    taken -= sizes[i];
    removed.push_back(names[i]);
  }
  return removed;
}

std::string FlightStore::path_for(std::uint64_t real_ns) const {
  const auto seconds = static_cast<std::time_t>(real_ns / 1'000'000'000);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char name[32];
  (void)std::strftime(name, sizeof name, "%Y%m%dT%H%M%SZ", &utc);
  std::string path = fmt::format("{}/{}", folder_, name);
  for (unsigned number = 2; is_there(path); ++number) {
    path = fmt::format("{}/{}-{}", folder_, name, number);
  }
  return path;
}

}  // namespace trapline::record
