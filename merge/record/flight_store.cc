#include "merge/record/flight_store.h"

#include <fmt/chrono.h>
#include <sys/file.h>

#include <algorithm>
#include <tuple>

#include "backend_ftrace/base/text.h"
#include "merge/session/session_folder.h"

namespace trapline::record {
namespace {

constexpr std::size_t kTimeSize = 16;  // of a snapshot's name

// Returns whether the name is a snapshot's: 20261121T224510Z, with -2, -3, … if there were several
// in one second.
bool is_snapshot_name(const std::string& name) {
  std::string shape = name;
  for (char& c : shape) c = c >= '0' && c <= '9' ? '0' : c;
  if (!shape.starts_with("00000000T000000Z")) return false;
  return shape.size() == kTimeSize || (shape.size() > kTimeSize + 1 && shape[kTimeSize] == '-' &&
                                       shape.find_first_not_of('0', kTimeSize + 1) == shape.npos);
}

}  // namespace

Result<FlightStore> FlightStore::open(const std::string& path, std::uint64_t budget) {
  auto folder = open_own_folder(path);
  if (!folder) return tl::unexpected(std::move(folder).error());
  const auto names = folder->names();
  if (!names) return tl::unexpected(names.error());
  const bool is_new = names->empty();
  if (!is_new && !folder->has("lock")) {
    return fail(ErrorKind::kUsage,
                "{} exists but is not a flight recorder's folder; choose another folder with -o",
                path);
  }
  if (is_new) {
    if (auto closed = folder->set_mode(0700); !closed) return tl::unexpected(closed.error());
  }
  auto lock = is_new ? folder->create("lock") : folder->open_file("lock", O_WRONLY);
  if (!lock) return tl::unexpected(std::move(lock).error());
  if (::flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(
        "{}: another flight recorder writes its snapshots there; choose another folder with -o",
        path);
  }
  return FlightStore(std::move(*folder), budget, std::move(*lock));
}

std::vector<std::string> snapshots_in(const Folder& folder) {
  std::vector<std::string> names = folder.names().value_or(std::vector<std::string>());
  std::erase_if(names, [&folder](const std::string& name) {
    return !is_snapshot_name(name) || !folder.has_folder(name);
  });
  std::ranges::sort(names, {}, [](const std::string& name) {  // by time, then by number
    return std::tuple(name.substr(0, kTimeSize), name.size(), name);
  });
  return names;
}

// Leaves a locked snapshot alone: somebody is just finishing it.
std::vector<std::string> FlightStore::remove_halves() const {
  std::vector<std::string> removed;
  for (const std::string& name : snapshots_in(folder_)) {
    const auto snapshot = folder_.open_folder(name);
    if (!snapshot || !snapshot->has_folder("raw") || !lock_session(*snapshot)) continue;
    const bool is_whole = snapshot->has_file("trace.dat");
    const auto gone = is_whole ? snapshot->remove_tree("raw") : folder_.remove_tree(name);
    if (gone && !is_whole) removed.push_back(name);
  }
  return removed;
}

Result<std::vector<std::string>> FlightStore::make_room(std::uint64_t bytes) const {
  if (bytes > budget_) {
    return fail(
        "the snapshot needs {:.0f} MiB, more than all snapshots may take; give more: "
        "--disk-budget {:.0f}M",
        mib(bytes) + 1, 2 * mib(bytes) + 1);
  }
  std::vector<std::string> removed;
  const std::vector<std::string> names = snapshots_in(folder_);
  std::vector<std::uint64_t> sizes;
  std::uint64_t taken = 0;
  for (const std::string& name : names) {
    sizes.push_back(size_on_disk(folder_, name));
    taken += sizes.back();
  }
  for (std::size_t i = 0; i < names.size() && taken + bytes > budget_; ++i) {
    if (auto gone = folder_.remove_tree(names[i]); !gone) return tl::unexpected(gone.error());
    taken -= sizes[i];
    removed.push_back(names[i]);
  }
  return removed;
}

std::string FlightStore::name_for(std::uint64_t real_ns) const {
  const auto seconds = static_cast<std::time_t>(real_ns / 1'000'000'000);
  const std::string name = fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(seconds));
  std::string free = name;
  for (unsigned number = 2; folder_.has(free); ++number) free = fmt::format("{}-{}", name, number);
  return free;
}

}  // namespace trapline::record
