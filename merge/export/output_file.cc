#include "merge/export/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "backend_ftrace/base/text_file.h"

namespace trapline {

Result<OutputFile> OutputFile::create(const std::string& path, bool force) {
  if (path == "-") {
    std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error that names the file
    return OutputFile("standard output", "", UniqueFd(::dup(STDOUT_FILENO)));
  }
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::directory) {
    return fail(ErrorKind::kUsage, "{} is a folder; name a file with -o", path);
  }
  if (kind == std::filesystem::file_type::character || kind == std::filesystem::file_type::fifo) {
    std::signal(SIGPIPE, SIG_IGN);
    UniqueFd device(::open(path.c_str(), O_WRONLY | O_CLOEXEC));  // it stays what it is
    if (!device) return fail("{}: cannot open for writing: {}", path, std::strerror(errno));
    return OutputFile(path, "", std::move(device));
  }
  if (!force && std::filesystem::exists(std::filesystem::symlink_status(path, error))) {
    return fail(ErrorKind::kUsage, "{} exists; choose another name with -o, or add --force", path);
  }
  const std::string beside = fmt::format("{}.{}.part", path, ::getpid());
  UniqueFd fd(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) return fail("{}: cannot open for writing: {}", beside, std::strerror(errno));
  return OutputFile(path, beside, std::move(fd));
}

OutputFile::~OutputFile() {
  if (!beside_.empty()) ::unlink(beside_.c_str());
}

void OutputFile::write_out(std::string_view bytes) {
  if (status_) status_ = write_all(fd_.get(), bytes, path_);
}

void OutputFile::flush() {
  write_out(buffer_);
  buffer_.clear();
}

Result<void> OutputFile::commit() {
  flush();
  if (!status_) return status_;
  if (beside_.empty()) return {};
  if (::rename(beside_.c_str(), path_.c_str()) != 0) {
    return fail("{}: cannot be renamed to {}: {}", beside_, path_, std::strerror(errno));
  }
  beside_.clear();
  return {};
}

}  // namespace trapline
