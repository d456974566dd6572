#include "merge/record/page_files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "backend_ftrace/base/text_file.h"

namespace trapline::record {
namespace {

constexpr std::uint64_t kUnit = 1u << 20;             // a multiple of every page size
constexpr std::uint64_t kTailRoom = 64u << 20;        // between the head and the first region
constexpr std::uint64_t kSmallestRegion = 16u << 20;  // a smaller region is not worthwhile
constexpr unsigned kLargestFileBits = 60;

constexpr std::uint64_t up_to(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Returns whether the file system distinguishes holes from data (SEEK_DATA) and can close holes
// (FALLOC_FL_COLLAPSE_RANGE) of any number of pages. Tries it: writes a page after a hole of two
// pages, and removes one page of the hole, which fails if a block is larger than a page.
bool can_close_holes(int fd, std::size_t page_size) {
  const std::vector<std::byte> page(page_size, std::byte{1});
  const auto size = static_cast<off_t>(page_size);
  const bool can =
      ::pwrite(fd, page.data(), page.size(), 2 * size) == static_cast<ssize_t>(page_size) &&
      ::fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, size) == 0 && ::lseek(fd, 0, SEEK_DATA) == size;
  return ::ftruncate(fd, 0) == 0 && can;
}

// Returns how long the file may become, by the file system's limit and by this process's own
// (RLIMIT_FSIZE).
std::uint64_t largest_file(int fd) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0) return 0;
  std::uint64_t size = 0;
  for (unsigned bit = kLargestFileBits; bit >= 20; --bit) {
    const std::uint64_t more = size | std::uint64_t{1} << bit;
    if (more <= limit.rlim_cur && ::ftruncate(fd, static_cast<off_t>(more)) == 0) size = more;
  }
  return ::ftruncate(fd, 0) == 0 ? size : 0;
}

trace_dat::Regions choose_regions(int fd, std::size_t head_bytes, unsigned cpus,
                                  std::size_t page_size, std::uint64_t largest) {
  if (cpus == 0 || !can_close_holes(fd, page_size)) return {};
  const std::uint64_t first = up_to(head_bytes, kUnit) + kTailRoom;
  const std::uint64_t size = largest_file(fd);
  if (size <= first) return {};
  const std::uint64_t bytes = std::min((size - first) / cpus / kUnit * kUnit, largest);
  if (bytes == 0 || bytes < std::min(kSmallestRegion, largest)) return {};
  // Sets the full length at the start: if a file grows through writes far apart, some file systems
  // allocate the blocks that they had reserved after its previous end.
  if (::ftruncate(fd, static_cast<off_t>(first + cpus * bytes)) != 0) return {};
  return {first, bytes};
}

}  // namespace

Result<PageFiles> PageFiles::open(const Folder& session, std::string_view head,
                                  trace_dat::StartFacts facts, std::uint64_t largest_region) {
  auto stream = session.create(trace_dat::kStream);
  if (!stream) return tl::unexpected(std::move(stream).error());
  PageFiles files(&session, std::move(*stream), facts.page_size);
  const int fd = files.stream_.get();
  files.regions_ = choose_regions(fd, head.size(), facts.cpus, facts.page_size, largest_region);
  files.cpus_.resize(facts.cpus);
  if (::lseek(fd, 0, SEEK_SET) != 0)  // searching for data has moved the offset
    return fail("{}: {}", session.path_of(trace_dat::kStream), std::strerror(errno));
  if (auto wrote = write_all(fd, head, session.path_of(trace_dat::kStream)); !wrote) {
    return tl::unexpected(std::move(wrote).error());
  }
  facts.head_bytes = head.size();
  facts.first_region = files.regions_.first;
  facts.region_bytes = files.regions_.bytes;
  if (auto wrote = trace_dat::write_start(session, facts); !wrote) {
    return tl::unexpected(std::move(wrote).error());
  }
  return files;
}

std::string PageFiles::path_of(unsigned cpu) const {
  const bool apart = cpus_[cpu].written >= regions_.bytes;
  return session_->path_of(apart ? "raw/" + trace_dat::cpu_name(cpu) : trace_dat::kStream);
}

Result<PageFiles::Place> PageFiles::place(unsigned cpu) {
  Cpu& at = cpus_[cpu];
  if (at.written < regions_.bytes) {
    return Place{stream_.get(), regions_.at(cpu) + at.written, regions_.bytes - at.written};
  }
  if (!at.file) {
    auto made = session_->create("raw/" + trace_dat::cpu_name(cpu));
    if (!made) return tl::unexpected(std::move(made).error());
    at.file = std::move(*made);
  }
  return Place{at.file.get(), at.written - regions_.bytes, ~std::uint64_t{0} >> 1};
}

void PageFiles::not_written(unsigned cpu, std::uint64_t bytes) {
  cpus_[cpu].unwritten += bytes + cut(cpu);
}

Result<void> PageFiles::page(unsigned cpu, std::span<const std::byte> page) {
  const auto place = this->place(cpu);
  if (!place) {
    not_written(cpu, page.size());
    return tl::unexpected(place.error());
  }
  if (const int cause = write_bytes(
          place->fd, {reinterpret_cast<const char*>(page.data()), page.size()}, place->offset)) {
    not_written(cpu, page.size());
    return fail("{}: {}", path_of(cpu), why_not_written(cause));
  }
  wrote(cpu, page.size());
  return {};
}

std::vector<std::uint64_t> PageFiles::sizes() const {
  std::vector<std::uint64_t> sizes;
  for (const Cpu& cpu : cpus_) sizes.push_back(cpu.written);
  return sizes;
}

std::vector<int> PageFiles::files() const {
  std::vector<int> files{stream_.get()};
  for (const Cpu& cpu : cpus_)
    if (cpu.file) files.push_back(cpu.file.get());
  return files;
}

std::uint64_t PageFiles::written() const {
  std::uint64_t bytes = 0;
  for (const Cpu& cpu : cpus_) bytes += cpu.written;
  return bytes;
}

// Ignores errors: if the bytes cannot be removed, readers detect the damaged pages among them.
std::uint64_t PageFiles::cut(unsigned cpu, std::uint64_t size) {
  Cpu& at = cpus_[cpu];
  size = std::min(size, at.written) / page_size_ * page_size_;
  if (size < regions_.bytes) {
    (void)::fallocate(stream_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(regions_.at(cpu) + size),
                      static_cast<off_t>(regions_.bytes - size));
  }
  if (at.file) {
    const std::uint64_t in_file = size > regions_.bytes ? size - regions_.bytes : 0;
    (void)!::ftruncate(at.file.get(), static_cast<off_t>(in_file));
  }
  return std::exchange(at.written, size) - size;
}

std::uint64_t PageFiles::keep_only(const std::vector<std::uint64_t>& durable) {
  std::uint64_t all = 0;
  for (unsigned cpu = 0; cpu < cpus_.size(); ++cpu) {
    const std::uint64_t dropped = cut(cpu, cpu < durable.size() ? durable[cpu] : 0);
    cpus_[cpu].dropped += dropped;
    all += dropped;
  }
  return all;
}

void PageFiles::close() {
  stream_.reset();
  for (Cpu& cpu : cpus_) cpu.file.reset();
}

}  // namespace trapline::record
