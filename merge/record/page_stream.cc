#include "merge/record/page_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backend_ftrace/base/descriptors.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/base/uninterrupted.h"

namespace trapline::record {

void allow_streams(std::size_t cpus) {
  constexpr std::size_t kOthers = 256;
  allow_open_files(3 * cpus + kOthers);
}

Result<PagePipe> PagePipe::open() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return fail("pipe: {}", std::strerror(errno));
  PagePipe pipe;
  pipe.out_.reset(ends[0]);
  pipe.in_.reset(ends[1]);
  // 256 pages at once where the limit for pipes allows it; any size works.
  (void)::fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
  const int size = ::fcntl(ends[1], F_GETPIPE_SZ);
  pipe.size_ = size > 0 ? static_cast<std::size_t>(size) : 65536;
  return pipe;
}

Result<PageStream> PageStream::open(const std::string& source, PageFiles* files, unsigned cpu,
                                    std::size_t page_size) {
  if (page_size > kLargestPage) {
    return fail("{}: pages of {} bytes; at most {} can be recorded: write buffer_subbuf_size_kb",
                source, page_size, kLargestPage);
  }
  PageStream stream;
  stream.source_.reset(::open(source.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!stream.source_ && errno == EMFILE) {
    return fail("{}: {}; {}", source, std::strerror(errno), kMoreFiles);
  }
  if (!stream.source_) return fail("{}: {}", source, std::strerror(errno));
  stream.files_ = files;
  stream.source_path_ = source;
  stream.cpu_ = cpu;
  stream.page_size_ = page_size;
  return stream;
}

Result<void> PageStream::empty_pipe(const PagePipe& pipe, std::size_t bytes) {
  while (bytes > 0) {
    const auto place = files_->place(cpu_);
    if (!place) {
      unwritten_ += bytes;
      return tl::unexpected(place.error());
    }
    auto to = static_cast<off_t>(place->offset);
    const ssize_t moved = ::splice(pipe.out(), nullptr, place->fd, &to,
                                   std::min<std::uint64_t>(bytes, place->room), SPLICE_F_MOVE);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) {
      const int cause = moved < 0 ? errno : ENOSPC;
      unwritten_ += bytes + files_->cut(cpu_);
      return fail("{}: {}", files_->path_of(cpu_), why_not_written(cause));
    }
    files_->wrote(cpu_, static_cast<std::uint64_t>(moved));
    bytes -= static_cast<std::size_t>(moved);
  }
  return {};
}

Result<bool> PageStream::drain(const PagePipe& pipe) {
  for (unsigned round = 0; round < kMostRounds; ++round) {
    const ssize_t size = ::splice(source_.get(), nullptr, pipe.in(), nullptr, pipe.size(),
                                  SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (size < 0 && errno == EINTR) continue;
    if (size == 0 || (size < 0 && errno == EAGAIN)) return false;
    if (size < 0) return fail("{}: {}", source_path_, std::strerror(errno));
    if (auto moved = empty_pipe(pipe, static_cast<std::size_t>(size)); !moved) {
      return tl::unexpected(std::move(moved).error());
    }
  }
  return true;
}

Result<void> PageStream::flush(const PagePipe& pipe, bool all) {
  for (;;) {
    auto more = drain(pipe);
    if (!more) return tl::unexpected(std::move(more).error());
    if (!*more) break;
    if (!all) return {};
  }
  alignas(8) std::byte buffer[kLargestPage];
  const std::span<std::byte> page(buffer, page_size_);
  for (unsigned pages = 0; all || pages < 64; ++pages) {
    const auto read = read_page(page);
    if (!read) return tl::unexpected(read.error());
    if (!*read) return {};
    if (auto wrote = write_page(page); !wrote) return wrote;
  }
  return {};
}

Result<bool> PageStream::read_page(std::span<std::byte> page) {
  const ssize_t size =
      uninterrupted([&] { return ::read(source_.get(), page.data(), page.size()); });
  if (size == 0 || (size < 0 && errno == EAGAIN)) return false;
  if (size < 0) return fail("{}: {}", source_path_, std::strerror(errno));
  // A short read leaves out the page's unused end.
  const auto unused = page.subspan(static_cast<std::size_t>(size));
  std::fill(unused.begin(), unused.end(), std::byte{0});
  return true;
}

Result<void> PageStream::write_page(std::span<const std::byte> page) {
  auto wrote = files_->write(cpu_, page);
  if (!wrote) unwritten_ += page.size();
  return wrote;
}

}  // namespace trapline::record
