// The raw pages of an ftrace instance, from its buffers to where they are to go.
//
//   per_cpu/cpuN/trace_pipe_raw ── round() ───> a PageSink: page by page, all CPUs in turn
//                               └─ splice() ──> PageFiles: the kernel hands full pages over
//
// Why not libtracefs' tracefs_cpu_*: a pipe for each CPU, writes at the file's position alone, and
// after a failed or a short write it does not tell how much is left in its pipe.
// Why not the mapped ring buffer (Linux 6.10): each page takes a call, in which the kernel steps
// over its events one by one; with the copy that follows that is twice a splice's CPU time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "merge/record/instance.h"
#include "merge/record/page_files.h"
#include "merge/record/page_sink.h"
#include "merge/session/session_json.h"

namespace trapline::record {

// Events that another process takes out of a ring buffer while it is recorded: through trace_pipe
// or trace_pipe_raw. The recorder never sees them, and the kernel counts no loss.
//
//   before() ── reads of our own ── after() ── nobody is to read ── before() ── …
//
// Guarantees: counts no read of our own; what others read during one of ours is not told apart, so
// that the count is a lower bound.
class OtherReaders {
 public:
  // `stats`: per_cpu/cpuN/stats of a buffer that nobody has read yet. Best effort: where it cannot
  // be read nothing is counted.
  explicit OtherReaders(const std::string& stats);

  void before();
  void after();
  [[nodiscard]] std::uint64_t events() const { return events_; }

 private:
  // "read events" of the kernel: those that anybody has taken out since the buffer was emptied.
  [[nodiscard]] std::optional<std::uint64_t> read_events() const;

  UniqueFd stats_;
  std::optional<std::uint64_t> after_ = 0;  // the kernel's count after our own reads
  std::uint64_t events_ = 0;
};

// Reads the losses that per_cpu/cpuN/stats tells of.
[[nodiscard]] CpuLoss read_loss(unsigned cpu, const std::string& stats);

inline constexpr std::size_t kLargestPage = 65536;  // of a ring buffer

inline constexpr const char* kMoreFiles =
    "raise the limit of open files: ulimit -n 4096, for systemd LimitNOFILE=4096";

// Lets this process open the streams of so many CPUs, and for each a file and the kernel's counts.
void allow_streams(unsigned cpus);

class PageReader {
 public:
  // With room for its files in this process's limit. Errors: no permission, too many files.
  [[nodiscard]] static Result<PageReader> open(const Instance& instance);
  // Before the first page, of an instance that nobody has read yet.
  void count_other_readers(const Instance& instance);
  // No more bytes than these of each CPU, and the page that is still being filled.
  void take_at_most(std::vector<std::uint64_t> bytes);

  [[nodiscard]] unsigned cpus() const { return static_cast<unsigned>(cpus_.size()); }
  [[nodiscard]] std::size_t page_size() const { return page_.size(); }
  [[nodiscard]] int fd(std::size_t cpu) const { return cpus_[cpu].source.get(); }  // to poll
  [[nodiscard]] std::uint64_t read() const { return read_; }                       // bytes

  // Gives the sink one round of pages, those still being filled too. True if all CPUs are drained.
  [[nodiscard]] Result<bool> round(PageSink& sink);
  // Rounds until every CPU was drained, at most so many.
  [[nodiscard]] Result<bool> rounds(PageSink& sink, unsigned most);

  // One page, full or still being filled, filled up with zeros; false: there is none.
  [[nodiscard]] Result<bool> read_page(unsigned cpu, std::span<std::byte> page);

  // Moves a CPU's full pages into the files, some MiB at most; with `rest` also the page that is
  // still being filled, unless more came meanwhile. Returns true if that was all.
  // Guarantees: the files hold whole pages in the kernel's order, each as the kernel gave it, with
  // its own mark where events were lost before. After an error nothing more is written.
  [[nodiscard]] Result<bool> splice(unsigned cpu, PageFiles& files, bool rest);

  // Returns each CPU's losses, by per_cpu/cpuN/stats, whose texts it adds, and by other readers.
  [[nodiscard]] std::vector<CpuLoss> losses(const Instance& instance,
                                            std::vector<std::string>& stats) const;
  // Before the instance is removed: the kernel removes none whose buffers are open, and pages that
  // are left in the pipe, after a failed write, are read when they are given back
  // (ring_buffer_free_read_page).
  void close();

 private:
  PageReader() = default;
  [[nodiscard]] Result<bool> splice_full(unsigned cpu, PageFiles& files);
  [[nodiscard]] Result<bool> write_rest(unsigned cpu, PageFiles& files);
  [[nodiscard]] Result<void> empty_pipe(unsigned cpu, PageFiles& files, std::size_t bytes);

  struct Cpu {
    UniqueFd source;
    std::string path;
    std::optional<OtherReaders> others;
    std::uint64_t left = ~std::uint64_t{0};  // bytes that may be taken
  };
  std::vector<Cpu> cpus_;
  UniqueFd in_, out_;  // the pipe of all CPUs: its size is all the memory that splicing takes
  std::size_t pipe_size_ = 0;
  std::vector<std::byte> page_;
  std::uint64_t read_ = 0;
};

}  // namespace trapline::record
