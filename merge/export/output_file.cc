#include "merge/export/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "backend_ftrace/base/text_file.h"

namespace trapline {

namespace {

std::string link_to(const UniqueFd& fd) { return fmt::format("/proc/self/fd/{}", fd.get()); }

// Returns a file without a name, which is gone if this process is killed; no file if it could not
// get a name later, because of the file system or because /proc is missing.
UniqueFd unnamed_file(const Folder& folder) {
  UniqueFd fd(::openat(folder.fd(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
  if (fd && ::access(link_to(fd).c_str(), F_OK) != 0) fd.reset();
  return fd;
}

// Returns whether the path stands for a descriptor, like /dev/stdout: the file behind it is open
// already and is written directly.
bool is_descriptor(const std::string& path) {
  auto at = Folder::open_parent(path);
  for (unsigned links = 0; at && links <= Folder::kMostLinks; ++links) {
    const auto& [folder, name] = *at;
    const auto there = folder.look_at(name);
    if (!there || !S_ISLNK(there->st_mode)) return false;
    if (folder.holds_descriptors()) return true;
    const auto leads = folder.followed(name);
    if (!leads) return false;
    at = Folder::open_parent(*leads);
  }
  return false;
}

tl::unexpected<Error> fail_for_existing(const std::string& path) {
  return fail(ErrorKind::kUsage, "{} exists; choose another name with -o, or add --force", path);
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::string& path, bool force) {
  if (path == "-") return OutputFile("standard output", UniqueFd(::dup(STDOUT_FILENO)));
  auto at = Folder::open_parent(path);
  if (!at) return fail(at.error().kind, "{}: {}", path, at.error().message);
  return create_in(std::move(at->first), at->second, force, 0);
}

Result<OutputFile> OutputFile::create_in(Folder folder, const std::string& name, bool force,
                                         unsigned links) {
  const std::string path = folder.path_of(name);
  const auto there = name == "." ? folder.status() : folder.look_at(name);
  if (there && S_ISDIR(there->st_mode))
    return fail(ErrorKind::kUsage, "{} is a folder; name a file with -o", path);
  if (there && S_ISLNK(there->st_mode) && folder.holds_descriptors()) {
    std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error that names the file
    UniqueFd descriptor(::openat(folder.fd(), name.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (descriptor) return OutputFile(path, std::move(descriptor));
    return fail("{}: cannot open for writing: {}", path, std::strerror(errno));
  }
  if (there && (S_ISCHR(there->st_mode) || S_ISFIFO(there->st_mode))) {
    std::signal(SIGPIPE, SIG_IGN);
    auto device = folder.open_device(name);  // a device is written, never replaced by a file
    if (!device) return tl::unexpected(std::move(device).error());
    return OutputFile(path, std::move(*device));
  }
  if (const auto leads =
          there && links < Folder::kMostLinks ? folder.followed(name) : std::nullopt) {
    auto at = Folder::open_parent(*leads);
    if (!at) return tl::unexpected(std::move(at).error());
    return create_in(std::move(at->first), at->second, force, links + 1);
  }
  if ((there || links > 0) && !force) return fail_for_existing(path);
  const std::string beside = fmt::format("{}.{}.part", name, ::getpid());
  // A name that is too long is an error now, not after everything was written.
  UniqueFd unnamed = beside.size() <= NAME_MAX ? unnamed_file(folder) : UniqueFd();
  const bool is_named = !unnamed;
  auto fd = is_named ? folder.create(beside, 0666) : Result<UniqueFd>(std::move(unnamed));
  // A killed process that had this process's id may have left a file of that name: removes it.
  if (!fd && folder.remove(beside)) fd = folder.create(beside, 0666);
  if (!fd) return tl::unexpected(std::move(fd).error());
  OutputFile made(path, std::move(*fd));
  made.folder_ = std::move(folder);
  made.name_ = name;
  made.beside_ = beside;
  made.is_named_ = is_named;
  return made;
}

Result<void> check_output(const std::string& path, bool force,
                          std::span<const std::string> inputs) {
  struct stat there {};
  if (path == "-" || ::stat(path.c_str(), &there) != 0 || !S_ISREG(there.st_mode)) return {};
  std::error_code none;
  const std::filesystem::path output = std::filesystem::canonical(path, none);
  for (const std::string& input : inputs) {
    struct stat read {};
    if (::stat(input.c_str(), &read) != 0) continue;
    const std::filesystem::path folder = std::filesystem::canonical(input, none);
    const bool is_it = read.st_dev == there.st_dev && read.st_ino == there.st_ino;
    const bool is_in =
        S_ISDIR(read.st_mode) && std::ranges::mismatch(folder, output).in1 == folder.end();
    if (!is_it && !is_in) continue;
    return fail(ErrorKind::kUsage, "{} {}; choose another name with -o", path,
                is_it ? "is the recording that is read" : "is in the recording that is read");
  }
  if (force || is_descriptor(path)) return {};
  return fail_for_existing(path);
}

OutputFile::~OutputFile() {
  if (folder_ && !beside_.empty() && is_named_) (void)folder_->remove(beside_);
}

void OutputFile::write_out(std::string_view bytes) {
  if (status_) status_ = write_all(fd_.get(), bytes, path_);
}

void OutputFile::flush() {
  write_out(buffer_);
  buffer_.clear();
}

// Only a rename can replace an existing file, so the file first gets a name beside it.
Result<void> OutputFile::give_name() {
  const auto link = [this] {
    return ::linkat(AT_FDCWD, link_to(fd_).c_str(), folder_->fd(), beside_.c_str(),
                    AT_SYMLINK_FOLLOW) == 0;
  };
  is_named_ = link() || (errno == EEXIST && folder_->remove(beside_) && link());
  if (is_named_) return {};
  return fail("{}: cannot be made: {}", folder_->path_of(beside_), std::strerror(errno));
}

Result<void> OutputFile::commit() {
  flush();
  if (!status_) return status_;
  if (!folder_ || beside_.empty()) return {};
  if (!is_named_) status_ = give_name();
  if (status_) status_ = folder_->rename(beside_, name_);
  if (status_) beside_.clear();
  return status_;
}

}  // namespace trapline
