#include "merge/source/trace_dat/regions.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace trapline::trace_dat {
namespace {

// Pages whose room was taken and that were not filled: those of one splice at the most.
constexpr unsigned kMostUnfilled = 1024;

Result<std::uint64_t> size_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail("its size: {}", std::strerror(errno));
  return static_cast<std::uint64_t>(status.st_size);
}

Result<std::optional<std::uint64_t>> seek(int fd, std::uint64_t from, int whence) {
  const off_t found = ::lseek(fd, static_cast<off_t>(from), whence);
  if (found >= 0) return static_cast<std::uint64_t>(found);
  if (errno == ENXIO) return std::nullopt;  // there is none
  return fail("where it has data: {}", std::strerror(errno));
}

// A page of the kernel's begins with its time.
bool is_unfilled(int fd, std::uint64_t page) {
  std::array<std::byte, 16> header{};
  const ssize_t got = ::pread(fd, header.data(), header.size(), static_cast<off_t>(page));
  return got == static_cast<ssize_t>(header.size()) &&
         std::ranges::all_of(header, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

Result<std::optional<Run>> next_run(int fd, std::uint64_t from, std::uint64_t to,
                                    std::size_t page_size) {
  const auto size = size_of(fd);
  if (!size) return tl::unexpected(size.error());
  to = std::min(to, *size);
  auto data = seek(fd, from, SEEK_DATA);
  if (!data) return tl::unexpected(data.error());
  if (!*data || **data >= to) return std::nullopt;
  const std::uint64_t begin = std::max(from, **data / page_size * page_size);
  std::uint64_t end = begin;
  while (*data && **data < to && **data <= end) {
    const auto hole = seek(fd, **data, SEEK_HOLE);
    if (!hole) return tl::unexpected(hole.error());
    if (!*hole) break;
    // A file system's blocks may be smaller than a page: what is missing of a page is no hole.
    end = (**hole + page_size - 1) / page_size * page_size;
    data = seek(fd, **hole, SEEK_DATA);
    if (!data) return tl::unexpected(data.error());
  }
  return Run{begin, std::min(end, to) - begin};
}

Result<std::vector<Run>> runs_in(int fd, std::uint64_t from, std::uint64_t to,
                                 std::size_t page_size, std::size_t most) {
  std::vector<Run> runs;
  for (;;) {
    const auto run = next_run(fd, from, to, page_size);
    if (!run) return tl::unexpected(run.error());
    if (!*run) return runs;
    if ((*run)->size == 0 || runs.size() >= most) return fail(ErrorKind::kDamaged, "many parts");
    from = (*run)->offset + (*run)->size;
    runs.push_back(**run);
  }
}

Result<std::uint64_t> pages_at(int fd, std::uint64_t from, std::uint64_t to,
                               std::size_t page_size) {
  const auto run = next_run(fd, from, to, page_size);
  if (!run) return tl::unexpected(run.error());
  if (!*run || (*run)->offset != from) return 0;
  std::uint64_t pages = (*run)->size / page_size;
  if (pages == 0) return 0;
  // A page of several blocks may have been cut off within.
  const auto hole = seek(fd, from + (pages - 1) * page_size, SEEK_HOLE);
  if (!hole) return tl::unexpected(hole.error());
  if (*hole && **hole < from + pages * page_size) --pages;
  for (unsigned looked = 0; pages > 0 && looked < kMostUnfilled; ++looked, --pages) {
    if (!is_unfilled(fd, from + (pages - 1) * page_size)) break;
  }
  return pages * page_size;
}

}  // namespace trapline::trace_dat
