#include "plugin/format/directory_writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "plugin/format/task.h"

namespace trapline {
namespace {

// The kinds of files that a recording consists of; nothing else is ever removed.
bool of_a_recording(std::string_view name) {
  if (name == "info" || name == "task.txt" || name == "sync.txt" || name == "default.opts")
    return true;
  if (name.starts_with("sid-") && name.ends_with(".map")) return true;
  for (const std::string_view ending : {".sym", ".dbg", ".tmp"})
    if (name.ends_with(ending)) return true;
  if (name.starts_with("perf-cpu") && name.ends_with(".dat")) return true;
  return name.ends_with(".dat") && name.find_first_not_of("0123456789") == name.size() - 4;
}

Result<std::vector<std::string>> names_in(int folder, const std::string& path) {
  const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(copy), &::closedir);
  if (!listing) {
    const int error = errno;
    if (copy >= 0) ::close(copy);
    return fail("cannot list {}: {}", path, std::strerror(error));
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

// Removes a recording; what is of none goes to the folder `keep`, where there is one.
Result<void> remove_recording(const std::string& path, int keep) {
  const UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return fail("cannot open {}: {}", path, std::strerror(errno));
  auto names = names_in(folder.get(), path);
  if (!names) return tl::unexpected(std::move(names).error());
  for (const std::string& name : *names) {
    const bool gone = of_a_recording(name)
                          ? ::unlinkat(folder.get(), name.c_str(), 0) == 0
                          : keep >= 0 && ::renameat2(folder.get(), name.c_str(), keep, name.c_str(),
                                                     RENAME_NOREPLACE) == 0;
    if (!gone) return fail("cannot remove {}/{}: {}", path, name, std::strerror(errno));
  }
  if (::rmdir(path.c_str()) == 0) return {};
  return fail("cannot remove {}: {}", path, std::strerror(errno));
}

// Two folders change places; some file systems can only rename, and then an instant passes in which
// there is none.
int swap_folders(const std::string& one, const std::string& other) {
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  const std::string aside = other + ".old";
  if (::rename(other.c_str(), aside.c_str()) != 0) return errno;
  if (::rename(one.c_str(), other.c_str()) != 0) {
    const int error = errno;
    return ::rename(aside.c_str(), other.c_str()) == 0 ? error : errno;
  }
  return ::rename(aside.c_str(), one.c_str()) == 0 ? 0 : errno;
}

}  // namespace

int write_all(int fd, const void* text, std::size_t size) {
  const char* at = static_cast<const char*>(text);
  while (size > 0) {
    const ssize_t written = ::write(fd, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    at += written;
    size -= static_cast<std::size_t>(written);
  }
  return 0;
}

Result<DirectoryWriter> DirectoryWriter::create(const std::string& path, UftraceInfo info) {
  for (std::size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1))
    ::mkdir(path.substr(0, slash).c_str(), 0777);  // what fails here fails again below
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
    return fail("cannot create the directory {}: {}", path, std::strerror(errno));
  DirectoryWriter writer(path, std::move(info));
  if (auto opened = writer.open_folder(); !opened) return tl::unexpected(std::move(opened).error());
  if (auto written = writer.replace("task.txt", ""); !written)
    return tl::unexpected(std::move(written).error());
  if (auto written = writer.replace("info", format_info(writer.info_)); !written)
    return tl::unexpected(std::move(written).error());
  return writer;
}

// The directory itself, if it is empty; one beside it, if it holds a recording.
Result<void> DirectoryWriter::open_folder() {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  folder_ = UniqueFd(::open(path_.c_str(), kFlags));
  if (!folder_) return fail("cannot open the directory {}: {}", path_, std::strerror(errno));
  auto names = names_in(folder_.get(), path_);
  if (!names) return tl::unexpected(std::move(names).error());
  if (names->empty()) return {};
  if (::faccessat(folder_.get(), "info", F_OK, 0) != 0)
    return fail(ErrorKind::kUsage,
                "{} is not empty and holds no earlier recording; give another directory", path_);
  // A symbolic link stays; what it leads to is replaced.
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path_.c_str(), nullptr), &std::free);
  if (!real) return fail("cannot find {}: {}", path_, std::strerror(errno));
  path_ = real.get();
  beside_ = fmt::format("{}.new.{}", path_, ::getpid());
  // Another writer of this process (two plugins in one QEMU) must not share it.
  for (int other = 2; ::mkdir(beside_.c_str(), 0777) != 0; ++other) {
    if (errno != EEXIST) {
      const int error = errno;
      return fail("cannot create {}: {}; remove the earlier recording {} or give another directory",
                  std::exchange(beside_, ""), std::strerror(error), path_);
    }
    beside_ = fmt::format("{}.new.{}.{}", path_, ::getpid(), other);
  }
  folder_ = UniqueFd(::open(beside_.c_str(), kFlags));
  if (!folder_) return fail("cannot open the directory {}: {}", beside_, std::strerror(errno));
  return {};
}

Result<void> DirectoryWriter::commit() {
  if (beside_.empty()) return {};
  if (const int error = swap_folders(beside_, path_); error != 0)
    return fail("cannot replace the earlier recording {}: {}; the new one is {}", path_,
                std::strerror(error), beside_);
  return remove_recording(std::exchange(beside_, ""), folder_.get());
}

void DirectoryWriter::discard() {
  if (!beside_.empty()) (void)remove_recording(std::exchange(beside_, ""), -1);
}

// A reader sees the old or the new text, never a part.
Result<void> DirectoryWriter::replace(const std::string& name, const std::string& text) const {
  const std::string temporary = name + ".tmp";
  UniqueFd fd(
      ::openat(folder_.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  int error = fd ? write_all(fd.get(), text.data(), text.size()) : errno;
  if (error == 0 && ::renameat(folder_.get(), temporary.c_str(), folder_.get(), name.c_str()) != 0)
    error = errno;
  if (error == 0) return {};
  ::unlinkat(folder_.get(), temporary.c_str(), 0);
  return fail("cannot write {}/{}: {}", path_, name, std::strerror(error));
}

Result<void> DirectoryWriter::write_symbols(const SymbolFiles& symbols) {
  for (const DirectoryFile& file : symbols.files)
    if (auto written = replace(file.name, file.text); !written) return written;
  return replace("sid-0.map", format_map(symbols.map));
}

Result<void> DirectoryWriter::add_task(std::uint32_t tid, const std::string& name,
                                       std::uint64_t time) {
  tasks_ += format_line(SessionLine{time, tid, "0", name});
  tasks_ += format_line(TaskLine{time, tid, tid});
  info_.tids.push_back(tid);
  if (auto written = replace("task.txt", tasks_); !written) return written;
  return replace("info", format_info(info_));
}

Result<void> DirectoryWriter::finish(std::uint64_t elapsed_ns) {
  info_.elapsed_time =
      fmt::format("{}.{:09} sec", elapsed_ns / 1'000'000'000, elapsed_ns % 1'000'000'000);
  return replace("info", format_info(info_));
}

Result<UniqueFd> DirectoryWriter::open_data(std::uint32_t tid) const {
  return open_file(fmt::format("{}.dat", tid));
}

Result<UniqueFd> DirectoryWriter::open_file(const std::string& name) const {
  UniqueFd fd(
      ::openat(folder_.get(), name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd) return fail("cannot create {}/{}: {}", path_, name, std::strerror(errno));
  return fd;
}

}  // namespace trapline
