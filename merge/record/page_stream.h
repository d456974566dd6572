// Raw ring-buffer pages of one CPU, from trace_pipe_raw to where PageFiles has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "merge/record/page_files.h"

namespace trapline::record {

inline constexpr std::size_t kLargestPage = 65536;  // of a ring buffer

inline constexpr const char* kMoreFiles =
    "raise the limit of open files: ulimit -n 4096, for systemd LimitNOFILE=4096";
// Lets this process open the streams of so many CPUs, and for each a file and the kernel's counts.
void allow_streams(std::size_t cpus);

// The pipe that pages travel through, shared by all CPUs of one thread: its size is all the memory
// that streaming takes.
class PagePipe {
 public:
  [[nodiscard]] static Result<PagePipe> open();
  [[nodiscard]] int in() const { return in_.get(); }
  [[nodiscard]] int out() const { return out_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  // After a failed write pages are left in it. They belong to the ring buffer: the kernel reads it
  // when they are given back (ring_buffer_free_read_page), even if the instance is gone by then.
  // So the pipe must be closed before the instance is removed.
  void close() { in_.reset(), out_.reset(); }

 private:
  UniqueFd in_, out_;
  std::size_t size_ = 0;
};

// Guarantees: the file holds whole pages in the kernel's order, each as the kernel gave it (with
// the kernel's own mark where events were lost before it). Full pages are spliced: the kernel hands
// the page over, and its one copy is the one into the file. After an error nothing more is written.
//
// Why not libtracefs' tracefs_cpu_*: a pipe for each CPU, writes at the file's position alone, and
// after a failed or a short write it does not tell how much is left in its pipe.
// Why not the mapped ring buffer (Linux 6.10): each page takes a call, in which the kernel steps
// over its events one by one; with the copy that follows that is twice a splice's CPU time.
class PageStream {
 public:
  // Without `files`, which outlive the stream, pages can only be read.
  [[nodiscard]] static Result<PageStream> open(const std::string& source, PageFiles* files,
                                               unsigned cpu, std::size_t page_size);

  // Moves the full pages that are there, at most `kMostRounds` pipes of them; whether more may be.
  [[nodiscard]] Result<bool> drain(const PagePipe& pipe);
  // Also the page that is still being filled, unless more full ones came meanwhile; `all`: until
  // nothing is left, for when tracing is off.
  [[nodiscard]] Result<void> flush(const PagePipe& pipe, bool all);

  // One page at a time, full or still being filled, for those who look into it: fills `page` up
  // with zeros; false when there is none. What is to be kept is then written.
  [[nodiscard]] Result<bool> read_page(std::span<std::byte> page);
  [[nodiscard]] Result<void> write_page(std::span<const std::byte> page);

  [[nodiscard]] int fd() const { return source_.get(); }
  [[nodiscard]] std::size_t page_size() const { return page_size_; }
  [[nodiscard]] unsigned cpu() const { return cpu_; }
  [[nodiscard]] std::uint64_t unwritten() const { return unwritten_; }  // bytes read and not kept
  void close() { source_.reset(); }

 private:
  static constexpr unsigned kMostRounds = 16;
  [[nodiscard]] Result<void> empty_pipe(const PagePipe& pipe, std::size_t bytes);

  UniqueFd source_;
  std::string source_path_;
  PageFiles* files_ = nullptr;
  unsigned cpu_ = 0;
  std::size_t page_size_ = 4096;
  std::uint64_t unwritten_ = 0;
};

}  // namespace trapline::record
