// Reads a trace.dat as a source and merges the pages of all CPUs by time.
//
//   file → Layout → per CPU: PageReader → RingPage → CpuEvents ─┐
//                   Formats ───────────────────── decode ───────┴→ merge by time → Event
//
// Reads both byte orders and any page size.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "merge/source/kernel_events/kernel_event_source.h"
#include "merge/source/kernel_events/kernel_symbols.h"
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
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] std::optional<std::pair<Timestamp, Timestamp>> range() const override;
  [[nodiscard]] Description describe() const override;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override;
  [[nodiscard]] std::string kernel_function(std::uint64_t address) const override;

 protected:
  TraceDatSource(std::shared_ptr<const TraceFile> recording, Capabilities capabilities)
      : KernelEventSource(recording->formats, recording->info, capabilities,
                          recording->marker_calls),
        recording_(std::move(recording)),
        file_(recording_->file),
        layout_(recording_->layout),
        scale_(recording_->scale) {}
  // Returns whether trapline's recorder left out the events just before stream.peek() on purpose.
  [[nodiscard]] bool left_out(const CpuEvents& stream) const {
    return stream.left_out_before() && layout_.writer.starts_with("trapline");
  }

  [[nodiscard]] std::string kallsyms() const override;

  std::shared_ptr<const TraceFile> recording_;
  const File& file_;
  const Layout& layout_;
  TimeScale scale_;

 private:
  mutable std::optional<kernel_events::KernelSymbols> symbols_;  // read on first use
};

// Opens a recording. `tsc_khz` converts x86-tsc recordings without TSC2NSEC; with `marker_calls`
// guest calls in trace_marker become events of their own. Errors: those of read_layout and
// read_formats; no events; `tsc_khz` for a recording in nanoseconds.
[[nodiscard]] Result<std::unique_ptr<TraceDatSource>> open_trace_dat(
    File file, std::optional<std::uint64_t> tsc_khz = {}, bool marker_calls = true);

}  // namespace trapline::trace_dat
