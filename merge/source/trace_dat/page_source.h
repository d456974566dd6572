// Reads the per-CPU pages and merges them by time; ties go to the lower CPU.
// Memory: the read-ahead buffers, 2 MiB in all (a page for each CPU at least), whatever the file's
// size.
#pragma once

#include "merge/source/merge_heap.h"
#include "merge/source/trace_dat/trace_dat_source.h"

namespace trapline::trace_dat {

class PageSource final : public TraceDatSource {
 public:
  [[nodiscard]] static Result<std::unique_ptr<TraceDatSource>> open(TraceFile recording);

  [[nodiscard]] Read next(Event& event) override;
  bool keep_buffers(KeptBuffers& kept) override;
  [[nodiscard]] double progress() const override;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override;
  [[nodiscard]] std::string reader() const override { return "trapline, page by page"; }

 private:
  PageSource(TraceFile recording, Capabilities capabilities, std::vector<CpuEvents> streams)
      : TraceDatSource(std::move(recording), capabilities), streams_(std::move(streams)) {}
  bool start();
  void choose();
  void go_on_with(std::size_t stream);
  bool advance_current();
  void change_stream(std::uint64_t time);
  [[nodiscard]] Read next_carefully(Event& event);
  void following(std::size_t most,
                 std::vector<kernel_events::RecordedEvent>& events) const override;

  // Moves a stream on; false where it has ended, or status_ says why.
  bool advance(std::size_t stream, Timestamp from);
  Read end();
  void count_unplaced();
  void end_stream(std::size_t stream, Timestamp from);
  // Of all CPUs, so far: pages, those of them that are damaged, and where the first ones are.
  struct Damage {
    std::uint64_t pages = 0, damaged = 0;
    std::vector<std::string> places;
    [[nodiscard]] std::string text() const;
  };
  [[nodiscard]] Damage damage() const;

  struct PendingLoss {
    std::size_t stream;
    Timestamp from;
    std::optional<Timestamp> to;                 // else before the stream's next event
    std::int64_t lost = RingPage::kUnknownLost;  // where `to` is known
  };

  struct ToldLosses {  // by a stream's pages
    std::uint64_t events = 0;
    bool all_counted = true;
    bool is_counted = false;  // with what CPUSTAT tells
  };

  std::vector<CpuEvents> streams_;
  std::vector<ToldLosses> told_;  // by stream
  MergeHeap heap_;                // the other streams
  std::size_t current_ = 0;       // the stream with the earliest event
  CpuEvents* stream_ = nullptr;
  std::uint64_t limit_ = 0;              // before it current_'s events are the earliest
  bool passes_ = false;                  // by RingPage's own walk
  std::uint64_t fewer_ = 0;              // events than the kernel's counters say
  std::optional<Timestamp> end_of_all_;  // found when a CPU's pages end before it
  bool started_ = false;
  bool ended_ = false;
  bool consumed_ = false;            // current_'s event was handed out, its bytes still in use
  std::vector<PendingLoss> losses_;  // known, not handed out yet
};

}  // namespace trapline::trace_dat
