// Reads the per-CPU pages and merges them by time; ties go to the lower CPU.
// Memory: read-ahead buffers of 2 MiB in total (at least a page per CPU; more for compressed data,
// page_reader.h), whatever the file's size.
#pragma once

#include "merge/source/merge_heap.h"
#include "merge/source/trace_dat/trace_dat_source.h"

namespace trapline::trace_dat {

class PageSource final : public TraceDatSource {
 public:
  PageSource(std::shared_ptr<const TraceFile> recording, Capabilities capabilities);

  [[nodiscard]] Result<std::unique_ptr<Source>> again() const override {
    return std::make_unique<PageSource>(recording_, capabilities_);
  }
  [[nodiscard]] Read next(Event& event) override;
  [[nodiscard]] double progress() const override;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override;
  [[nodiscard]] std::string reader() const override { return "trapline, page by page"; }

 private:
  bool start();
  void choose();
  void go_on_with(std::size_t stream);
  bool advance_current();
  void change_stream(std::uint64_t time);
  [[nodiscard]] bool fill(Event& event);
  [[nodiscard]] Read next_carefully(Event& event);
  void following(std::size_t most,
                 std::vector<kernel_events::RecordedEvent>& events) const override;

  // Moves a CPU's stream to its next event; false if it has ended or if status_ has an error. A
  // loss before that event begins at `from`, the time of the stream's event before.
  bool advance(std::size_t stream, Timestamp from);
  Read end();
  void count_unplaced();
  void end_stream(std::size_t stream, Timestamp from);
  // The pages of all CPUs read so far, how many were damaged, and where the first of these are.
  struct Damage {
    std::uint64_t pages = 0, damaged = 0;
    std::vector<std::string> places;
    [[nodiscard]] std::string text() const;
  };
  [[nodiscard]] Damage damage() const;

  struct PendingLoss {
    std::size_t stream;
    Timestamp from;
    std::optional<Timestamp> to;  // nullopt: the loss ends before the stream's next event
    std::int64_t lost = RingPage::kUnknownLost;  // set if `to` is
  };

  struct PageLosses {  // losses that a stream's pages report
    std::uint64_t events = 0;
    bool all_counted = true;
    bool is_counted = false;  // included in the comparison with CPUSTAT
  };

  std::vector<CpuEvents> streams_;
  std::vector<PageLosses> page_losses_;  // by stream
  MergeHeap heap_;                       // the streams other than current_
  std::size_t current_ = 0;              // the stream with the earliest event
  CpuEvents* stream_ = nullptr;
  std::uint64_t limit_ = 0;  // until this time current_'s events are the earliest
  std::uint64_t fewer_ = 0;  // how many events are missing according to the kernel's counters
  std::optional<Timestamp> end_of_all_;  // the recording's end; found if a CPU's data ends early
  bool started_ = false;
  bool ended_ = false;
  bool consumed_ = false;  // current_'s event was returned, and its bytes are still in use
  std::vector<PendingLoss> losses_;  // known and not yet returned
};

}  // namespace trapline::trace_dat
