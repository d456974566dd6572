// Moves the raw pages of an ftrace instance from its buffers to their destination.
//
//   per_cpu/cpuN/trace_pipe_raw ── round() ───> a PageSink: page by page, all CPUs in turn
//                               └─ splice() ──> PageFiles: the kernel hands full pages over
//
// Why not libtracefs' tracefs_cpu_*: it has a pipe for each CPU, writes only at the file's
// position, and does not report after a failed or short write how much is left in its pipe. Why not
// the mapped ring buffer (Linux 6.10): each page needs a call in which the kernel walks over its
// events one by one; including the copy that follows, this takes twice the CPU time of a splice.
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

// Counts events that another process takes out of a ring buffer during the recording, through
// trace_pipe or trace_pipe_raw. The recorder never sees these events, and the kernel counts no
// loss.
//
//   before() ── reads of our own ── after() ── we read nothing ── before() ── …
//
// Guarantees: our own reads are not counted. What others read during one of our reads is not
// counted either, so the count is a lower bound.
class OtherReaders {
 public:
  // `stats`: the path of per_cpu/cpuN/stats of a buffer that nobody has read yet. Best effort: if
  // the file cannot be read, nothing is counted.
  explicit OtherReaders(const std::string& stats);

  void before();
  void after();
  [[nodiscard]] std::uint64_t events() const { return events_; }

 private:
  // Returns "read events" of the kernel: events taken out by anybody since the buffer was emptied.
  [[nodiscard]] std::optional<std::uint64_t> read_events() const;

  UniqueFd stats_;
  std::optional<std::uint64_t> after_ = 0;  // the kernel's count after our last read
  std::uint64_t events_ = 0;
};

// Parses the losses in per_cpu/cpuN/stats.
[[nodiscard]] CpuLoss read_loss(unsigned cpu, const std::string& stats);

inline constexpr std::size_t kLargestPage = 65536;  // of a ring buffer, in bytes

inline constexpr const char* kMoreFiles =
    "raise the limit of open files: ulimit -n 4096, for systemd LimitNOFILE=4096";

// Raises the limit on open files, since the recorder opens three for each CPU: the stream of pages,
// the kernel's counts, and a file to write to.
void allow_streams(unsigned cpus);

class PageReader {
 public:
  // Opens the streams and raises the limit on open files. Errors: no permission; too many files;
  // pages larger than kLargestPage.
  [[nodiscard]] static Result<PageReader> open(const Instance& instance);
  // Starts counting events that other processes read; call it before anybody has read the instance.
  void count_other_readers(const Instance& instance);
  // Limits what is read of each CPU to `bytes`, indexed by CPU, plus one page that is being filled.
  void take_at_most(std::vector<std::uint64_t> bytes);

  [[nodiscard]] unsigned cpus() const { return static_cast<unsigned>(cpus_.size()); }
  [[nodiscard]] std::size_t page_size() const { return page_.size(); }
  [[nodiscard]] int fd(std::size_t cpu) const { return cpus_[cpu].source.get(); }  // for poll()
  [[nodiscard]] std::uint64_t read() const { return read_; }                       // in bytes

  // Passes one round of pages to the sinks, including those still being filled. Returns true if all
  // CPUs are drained.
  [[nodiscard]] Result<bool> round(PageSinks sinks);
  // Repeats rounds until every CPU was drained, at most `most` times.
  [[nodiscard]] Result<bool> rounds(PageSinks sinks, unsigned most);

  // Reads one page, full or still being filled, padded with zeros; false if there is none.
  [[nodiscard]] Result<bool> read_page(unsigned cpu, std::span<std::byte> page);

  // Moves a CPU's full pages into the files, at most some MiB.
  // Guarantees: the files contain whole pages in the kernel's order, unchanged, with the kernel's
  // mark if events were lost before. After an error nothing more is written.
  [[nodiscard]] Result<void> splice(unsigned cpu, PageFiles& files);

  // Returns the losses of each CPU: those in per_cpu/cpuN/stats, whose texts are appended to
  // `stats`, and events taken by other readers.
  [[nodiscard]] std::vector<CpuLoss> losses(const Instance& instance,
                                            std::vector<std::string>& stats) const;
  // Call it before the instance is removed: the kernel does not remove an instance whose buffers
  // are open, and pages that a failed write left in the pipe are given back to the ring buffer when
  // the pipe is closed (ring_buffer_free_read_page).
  void close();

 private:
  PageReader() = default;
  [[nodiscard]] Result<void> splice_full(unsigned cpu, PageFiles& files);
  [[nodiscard]] Result<void> empty_pipe(unsigned cpu, PageFiles& files, std::size_t bytes);

  struct Cpu {
    UniqueFd source;
    std::string path;
    std::optional<OtherReaders> others;
    std::uint64_t left = ~std::uint64_t{0};  // bytes that may still be taken
  };
  std::vector<Cpu> cpus_;
  UniqueFd in_, out_;  // one pipe for all CPUs; its size is the only memory that splicing needs
  std::size_t pipe_size_ = 0;
  std::vector<std::byte> page_;
  std::uint64_t read_ = 0;
};

}  // namespace trapline::record
