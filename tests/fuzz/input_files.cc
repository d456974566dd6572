#include "tests/fuzz/input_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace trapline::fuzz {
namespace {

namespace fs = std::filesystem;

// A machine without memory for its inputs finds nothing.
[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written <= 0) give_up("an input's file");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

MemoryFile::MemoryFile()
    : fd_(::memfd_create("fuzz", MFD_CLOEXEC)),
      path_("/proc/self/fd/" + std::to_string(fd_.get())) {
  if (!fd_) give_up("memfd_create");
}

void MemoryFile::fill(std::string_view bytes) const {
  if (::ftruncate(fd_.get(), 0) != 0 || ::lseek(fd_.get(), 0, SEEK_SET) != 0) give_up("memfd");
  write_all(fd_.get(), bytes);
}

MemoryFolder::MemoryFolder() {
  const char* base = std::getenv("TMPDIR");
  path_ = std::string(base != nullptr ? base : "/dev/shm") + "/trapline-fuzz.XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) give_up(path_.c_str());
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void MemoryFolder::fill(std::string_view input, const std::vector<std::string>& names) const {
  for (const auto& entry : fs::directory_iterator(path_)) fs::remove_all(entry.path());
  for (const std::string& name : names) {
    if (const std::size_t slash = name.rfind('/'); slash != std::string::npos)
      fs::create_directories(path_ + "/" + name.substr(0, slash));
  }
  for (const NamedPart& part : parts_of(input, names.size())) {
    const std::string path = path_ + "/" + names[part.name];
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!fd) give_up(path.c_str());
    write_all(fd.get(), part.bytes);
  }
}

std::vector<NamedPart> parts_of(std::string_view input, std::size_t names) {
  std::vector<NamedPart> parts;
  std::size_t name = 0;
  bool begun = false;
  for (;;) {
    const std::size_t end = input.find(kNextFile);
    const std::string_view bytes = input.substr(0, end);
    if (!bytes.empty() || begun) parts.push_back({name, bytes});
    if (end == std::string_view::npos) return parts;
    input.remove_prefix(end + kNextFile.size());
    if (input.empty()) return parts;
    begun = true;
    name = static_cast<unsigned char>(input.front() - 'A') % names;
    input.remove_prefix(1);
  }
}

}  // namespace trapline::fuzz
