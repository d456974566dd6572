// A trace.dat as a source: per-CPU pages merged by time.
//
//   file → Layout → per CPU: PageReader → RingPage → CpuEvents ─┐
//                   Formats ───────────────────── decode ───────┴→ merge by time → Event
//
// This path reads little-endian recordings with pages of 4 KiB. The rest (big-endian hosts,
// other pages) goes through libtracecmd: fallback_source.h; open_trace_dat() chooses.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "merge/model/capabilities.h"
#include "merge/source/kernel_events/formats.h"
#include "merge/source/marker_calls.h"
#include "merge/source/source.h"
#include "merge/source/trace_dat/cpu_events.h"
#include "merge/source/trace_dat/time_scale.h"

namespace trapline::trace_dat {

struct Options {
  std::optional<std::uint64_t> tsc_khz;  // converts x86-tsc recordings that have no TSC2NSEC
  std::int64_t offset_ns = 0;            // added to every time
  bool use_libtracecmd = false;          // take the fallback path
  bool marker_calls = true;              // guest calls in trace_marker are events of their own
};

// What a recording says of itself, whichever path reads its data.
struct TraceFile {
  File file;
  Layout layout;
  Formats formats;
  SourceInfo info;
  TimeScale scale;
  std::vector<std::uint64_t> counts;  // events read so far, by type
  bool marker_calls = true;           // as Options say
};

class TraceDatSource : public Source {
 public:
  [[nodiscard]] const Layout& layout() const { return recording_.layout; }
  [[nodiscard]] const ReasonNames& reasons() const { return recording_.formats.reasons(); }
  [[nodiscard]] Capabilities capabilities() const override { return capabilities_; }
  [[nodiscard]] std::optional<std::pair<Timestamp, Timestamp>> range() const override;
  [[nodiscard]] Description describe() const override;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override;
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> event_counts() const override;

  void select(EventClass events) override;
  [[nodiscard]] const Result<void>& status() const override {
    return status_ ? recording_.formats.text_status() : status_;
  }
  [[nodiscard]] const SourceInfo& info() const override { return recording_.info; }
  [[nodiscard]] const SourceCounters& counters() const override { return counters_; }
  // Guest calls that trace_marker holds, of those events that were read.
  [[nodiscard]] std::uint64_t marker_calls() const { return marker_calls_.calls(); }
  [[nodiscard]] std::string event_name(const Event& event) const override;
  [[nodiscard]] std::string event_text(const Event& event) const override;
  [[nodiscard]] std::string comm(ThreadId thread) const override;
  [[nodiscard]] std::string exit_reason(std::uint32_t isa, std::uint32_t reason,
                                        std::uint32_t exception_class) const override;
  [[nodiscard]] std::string userspace_reason(std::uint32_t reason) const override;

 protected:
  static constexpr std::size_t kTypes = 1u << 16;  // common_type has 16 bits

  TraceDatSource(TraceFile recording, Capabilities capabilities)
      : recording_(std::move(recording)), capabilities_(capabilities), selected_(kTypes, true) {
    recording_.counts.resize(kTypes);
  }
  // Fills everything of `event` from a record; counts it.
  void decode(const RecordedEvent& recorded, std::uint32_t cpu, Event& event);
  // Counts a record that nobody wants, without decoding it; false when it is wanted. A
  // boundary page (cpu_events.h) is neither.
  [[nodiscard]] bool leave_out(const RecordedEvent& recorded) {
    if (recorded.size < sizeof(std::uint16_t)) return recorded.data == nullptr;
    const auto type = load<std::uint16_t>(recorded.data);
    if (selected_[type] != 0) return false;
    count(recording_.scale(recorded.time));
    ++recording_.counts[type];
    return true;
  }
  void fill_lost(std::uint32_t cpu, Timestamp from, Timestamp to, std::int64_t lost, Event& event);
  // Our recorder is the only one that leaves events out on purpose, between boundary pages.
  [[nodiscard]] bool left_out(const CpuEvents& stream) const {
    return stream.left_out_before() && recording_.layout.writer.starts_with("trapline");
  }
  void fill_left_out(std::uint32_t cpu, Timestamp from, Timestamp to, std::int64_t events,
                     Event& event);

  // EventTexts::Following, of the event that next() gave last.
  virtual void following(std::size_t, std::vector<RecordedEvent>&) const {}

  void on_marker(Event& event);

  void count(Timestamp at) {
    if (counters_.events++ == 0) counters_.first = at;
    counters_.last = at;
  }

  TraceFile recording_;
  Capabilities capabilities_;
  std::vector<std::uint8_t> selected_;  // by type
  SourceCounters counters_;
  MarkerCalls marker_calls_;
  Result<void> status_;
};

// Errors: those of read_layout and read_formats, no CPU data,
// --tsc-khz where the recording is in nanoseconds.
[[nodiscard]] Result<std::unique_ptr<TraceDatSource>> open_trace_dat(std::string path,
                                                                     const Options& options);

}  // namespace trapline::trace_dat
