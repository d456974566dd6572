// The raw pages of all CPUs, from the instance's buffers to the session: all of them, or those
// around the hits that a Snapshot finds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "merge/record/disk_sync.h"
#include "merge/record/instance.h"
#include "merge/record/page_files.h"
#include "merge/record/session.h"
#include "merge/record/snapshot/snapshot.h"
#include "merge/record/snapshot/trigger_matcher.h"

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
  void close() { stats_.reset(); }

 private:
  // "read events" of the kernel: those that anybody has taken out since the buffer was emptied.
  [[nodiscard]] std::optional<std::uint64_t> read_events() const;

  UniqueFd stats_;
  std::optional<std::uint64_t> after_ = 0;  // the kernel's count after our own reads
  std::uint64_t events_ = 0;
};

// The kernel's stamps of sync records, read back from the pages that were just written. Looking at
// every page for them would cost a tenth of the recording; where they are is nearly known.
class PageFiles;

// Guarantees: at most kMostAtOnce of a file is read at a time; what is not found stays unknown.
class SyncStamps {
 public:
  static constexpr std::uint64_t kMostAtOnce = 16u << 20;

  // A series was just written, by a thread that was first on this CPU and then on that: its pages
  // come after what their files hold by now.
  void expect(const PageFiles& files, std::uint64_t series, int first_cpu, int last_cpu);
  // What has come of it.
  [[nodiscard]] std::vector<SyncStamp> find(const PageFiles& files);

 private:
  std::map<unsigned, std::uint64_t> places_;  // CPU, offset in its file
  std::uint64_t last_series_ = 0;
};

// Raw ring-buffer pages of one CPU, from trace_pipe_raw to where PageFiles has them.

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

inline constexpr unsigned kRoundsAtOnce = 64;  // of reading, before signals are looked at again

// Whether a thread is alive; nothing where that cannot be known: in a pid namespace of its own the
// recorder cannot look up the numbers that the kernel records.
[[nodiscard]] std::optional<bool> is_alive(ThreadId thread);

// Guarantees: memory does not grow with the recording; after an error nothing more is written.
class PageStreams {
 public:
  [[nodiscard]] static Result<PageStreams> open(const Instance& instance, PageFiles files);

  // Before the first page: from here on only what is around the watch's hits is written.
  void keep_hits(TriggerMatcher watch, std::uint64_t around_ns, std::size_t ring_bytes);
  // Nothing where everything is written.
  [[nodiscard]] const SnapshotFacts* snapshot() const {
    return snapshot_ ? &snapshot_->facts() : nullptr;
  }
  // A sync series was just written, by a thread that was first on this CPU and then on that.
  void expect_sync(std::uint64_t series, int first_cpu, int last_cpu) {
    if (!snapshot_) stamps_.expect(*files_, series, first_cpu, last_cpu);
  }
  // The stamps of sync records that were found since the last call.
  [[nodiscard]] std::vector<SyncStamp> take_stamps() {
    return snapshot_ ? snapshot_->take_stamps() : stamps_.find(*files_);
  }

  [[nodiscard]] std::size_t size() const { return streams_.size(); }
  [[nodiscard]] int fd(std::size_t cpu) const { return streams_[cpu].fd(); }  // to poll

  // The pages that one CPU has ready.
  [[nodiscard]] Result<void> drain(std::size_t cpu);
  // Those of every CPU, the pages still being filled too.
  [[nodiscard]] Result<void> flush();
  // All that is left, once tracing is off.
  [[nodiscard]] Result<void> finish();
  // After an error: what is in memory is written where that can be done, and counted where not.
  void settle();

  // What brings all that is written by now to the disk.
  [[nodiscard]] SyncJob sync_job() const { return {files_->files(), files_->sizes(), {}}; }
  // After that failed: what came after these sizes is dropped, and counted as not written; bytes.
  std::uint64_t keep_only(const std::vector<std::uint64_t>& durable);

  // What the kernel and the disk have lost so far.
  [[nodiscard]] std::vector<CpuLoss> losses(const Instance& instance) const;
  // What per_cpu/cpuN/stats says of each CPU, as trace.dat wants it.
  [[nodiscard]] std::vector<std::string> stats(const Instance& instance) const;
  [[nodiscard]] std::uint64_t written() const { return files_->written(); }  // of all CPUs
  [[nodiscard]] std::uint64_t read() const {
    return snapshot_ ? read_ : written();
  }  // that went by
  // Before the instance is removed: the kernel removes none whose buffers are open, and pages that
  // are still in a pipe must not outlive them.
  void close();

 private:
  PageStreams(PagePipe pipe, PageFiles files)
      : pipe_(std::move(pipe)),
        files_(std::make_unique<PageFiles>(std::move(files))),
        page_size_(files_->page_size()) {}

  // Whether every CPU was drained.
  [[nodiscard]] Result<bool> watch_round();
  [[nodiscard]] Result<void> watch_rounds(unsigned rounds);
  [[nodiscard]] Result<void> watch(unsigned rounds);
  [[nodiscard]] Result<void> flush(std::size_t cpu, bool all);

  PagePipe pipe_;
  std::unique_ptr<PageFiles> files_;  // the streams and the snapshot have its address
  std::size_t page_size_;
  std::vector<PageStream> streams_;
  std::vector<OtherReaders> others_;  // of the streams' buffers
  std::unique_ptr<Snapshot> snapshot_;
  SyncStamps stamps_;
  std::uint64_t read_ = 0;                         // bytes of pages that were watched
  std::map<unsigned, std::uint64_t> not_durable_;  // bytes of a CPU that were dropped
};

}  // namespace trapline::record
