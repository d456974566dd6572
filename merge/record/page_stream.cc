#include "merge/record/page_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "merge/record/text_file.h"

namespace trapline::record {

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

Result<PageStream> PageStream::open(const std::string& source, const std::string& target,
                                    unsigned cpu, std::size_t page_size) {
  PageStream stream;
  stream.source_.reset(::open(source.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!stream.source_) return fail("{}: {}", source, std::strerror(errno));
  stream.target_.reset(::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!stream.target_) return fail("{}: {}", target, std::strerror(errno));
  stream.source_path_ = source;
  stream.target_path_ = target;
  stream.cpu_ = cpu;
  stream.page_size_ = page_size;
  return stream;
}

Result<void> PageStream::empty_pipe(const PagePipe& pipe, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t moved =
        ::splice(pipe.out(), nullptr, target_.get(), nullptr, bytes, SPLICE_F_MOVE);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) {
      const int cause = moved < 0 ? errno : ENOSPC;
      unwritten_ += bytes;
      return fail("{}: {}", target_path_, std::strerror(cause));
    }
    written_ += static_cast<std::uint64_t>(moved);
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
  alignas(8) char page[65536];
  for (unsigned pages = 0; all || pages < 64; ++pages) {
    const ssize_t size = ::read(source_.get(), page, page_size_);
    if (size < 0 && errno == EINTR) continue;
    if (size == 0 || (size < 0 && errno == EAGAIN)) return {};
    if (size < 0) return fail("{}: {}", source_path_, std::strerror(errno));
    // A short read leaves out the page's unused end.
    std::memset(page + size, 0, page_size_ - static_cast<std::size_t>(size));
    if (auto wrote = write_all(target_.get(), {page, page_size_}, target_path_); !wrote) {
      unwritten_ += page_size_;
      return wrote;
    }
    written_ += page_size_;
  }
  return {};
}

}  // namespace trapline::record
