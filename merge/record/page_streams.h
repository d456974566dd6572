// The raw pages of all CPUs, from the instance's buffers to the session: all of them, or those
// around the hits that a Snapshot finds.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/record/disk_sync.h"
#include "merge/record/instance.h"
#include "merge/record/other_readers.h"
#include "merge/record/page_files.h"
#include "merge/record/page_stream.h"
#include "merge/record/session.h"
#include "merge/record/snapshot/snapshot.h"
#include "merge/record/sync_stamps.h"

namespace trapline::record {

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
