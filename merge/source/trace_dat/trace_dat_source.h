// Reads a trace.dat as a source and merges the pages of all CPUs by time.
//
//   file → Layout → per CPU: PageReader → RingPage → CpuEvents ─┐
//                   Formats ───────────────────── decode ───────┴→ merge by time → Event
//
// Reads both byte orders and any page size. Ties go to the lower CPU. Memory: read-ahead buffers of
// 2 MiB in total (at least a page per CPU; more for compressed data, page_reader.h), whatever the
// file's size.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "merge/source/kernel_events/kernel_event_source.h"
#include "merge/source/kernel_events/kernel_symbols.h"
#include "merge/source/merge_heap.h"
#include "merge/source/trace_dat/cpu_events.h"

namespace trapline::trace_dat {

// Converts counts of a recording's clock to nanoseconds of the timeline.
class TimeScale {
 public:
  TimeScale() = default;
  // ns = (count · mult >> shift) + offset. With mult 1 and shift 0, only the offset is added.
  TimeScale(std::uint64_t mult, std::uint32_t shift, std::int64_t offset)
      : mult_(mult), shift_(shift), offset_(offset), identity_(mult == 1 && shift == 0) {}
  // Returns the scale for a TSC with `khz` ticks per millisecond: 10^6 / khz nanoseconds each, in
  // 32.32 fixed point.
  static TimeScale from_khz(std::uint64_t khz, std::int64_t offset) {
    return {(std::uint64_t{1'000'000} << 32) / khz, 32, offset};
  }

  [[nodiscard]] Timestamp operator()(std::uint64_t count) const {
    if (!identity_) {
      __extension__ using Wide = unsigned __int128;
      count = static_cast<std::uint64_t>((Wide{count} * mult_) >> shift_);
    }
    return Timestamp(count + static_cast<std::uint64_t>(offset_));
  }

 private:
  std::uint64_t mult_ = 1;
  std::uint32_t shift_ = 0;
  std::int64_t offset_ = 0;
  bool identity_ = true;
};

// An opened recording and the facts in its header; all sources that read it share one.
struct TraceFile {
  File file;
  Layout layout;
  kernel_events::Formats formats;
  SourceInfo info;
  TimeScale scale;
  bool marker_calls = true;  // guest calls in trace_marker become events of their own
};

class TraceDatSource : public kernel_events::KernelEventSource {
 public:
  TraceDatSource(std::shared_ptr<const TraceFile> recording, Capabilities capabilities);

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] Result<std::unique_ptr<Source>> reopen() const override {
    return std::make_unique<TraceDatSource>(recording_, capabilities_);
  }
  [[nodiscard]] Read take(Event& event) override;
  Read pass_on(Event& event, std::uint64_t most, EventSink& sink) override;
  [[nodiscard]] double progress() const override;
  [[nodiscard]] std::optional<std::pair<Timestamp, Timestamp>> range() const override;
  [[nodiscard]] Description describe() const override;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override;
  [[nodiscard]] std::string reader() const override { return "trapline, page by page"; }
  [[nodiscard]] std::string kernel_function(std::uint64_t address) const override;

 protected:
  std::shared_ptr<const TraceFile> recording_;

 private:
  bool start();
  void choose();
  void go_on_with(std::size_t stream);
  bool advance_current();
  void change_stream(std::uint64_t time);
  [[nodiscard]] bool fill(Event& event);
  [[nodiscard]] bool take_in_page(Event& event);
  [[nodiscard]] Read next_carefully(Event& event);
  void following(std::size_t most,
                 std::vector<kernel_events::RecordedEvent>& events) const override;
  [[nodiscard]] std::string kallsyms() const override;

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

  const File& file_;
  const Layout& layout_;
  TimeScale scale_;
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
  std::vector<PendingLoss> losses_;                              // known and not yet returned
  mutable std::optional<kernel_events::KernelSymbols> symbols_;  // read on first use
};

// An interval in which another process changed the instance that was recorded.
struct ChangedTime {
  Timestamp from, to;
};

// Opens a recording. `tsc_khz` converts x86-tsc recordings without TSC2NSEC; with `marker_calls`
// guest calls in trace_marker become events of their own. Errors: those of read_layout and
// read_formats; no events; `tsc_khz` for a recording in nanoseconds. A loss on each CPU replaces
// the events of each of `changes`, which are in order.
[[nodiscard]] Result<std::unique_ptr<TraceDatSource>> open_trace_dat(
    File file, std::optional<std::uint64_t> tsc_khz = {}, bool marker_calls = true,
    std::vector<ChangedTime> changes = {});

}  // namespace trapline::trace_dat
