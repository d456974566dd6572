// A part of the timeline as a page: guest, kernel and QEMU of each vCPU on lanes, vhost workers,
// and requests with their stages, with the events' texts. docs/formats/page.md has its data.
//
// A sink: what lies in the interval is kept, the first kMostSpans and kMostEvents of it; the rest
// is counted.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/model/thread_table.h"
#include "merge/pass/naming.h"
#include "merge/render/ordered_json.h"
#include "merge/render/page/numbered_texts.h"
#include "merge/report/options.h"
#include "merge/source/timeline.h"

namespace trapline::page {

class TimelinePage : public SpanSink {
 public:
  static constexpr std::size_t kMostSpans = 6000, kMostEvents = 4000, kMostThreads = 256,
                               kMostText = 200, kMostRequestLanes = 16;

  // From `from` to `to`, both included; nothing: to the recording's end. Borrows timeline and
  // options.
  TimelinePage(const Timeline& timeline, const ReportOptions& options, TimeSpec from,
               std::optional<TimeSpec> to)
      : timeline_(timeline), options_(options), asked_from_(from), asked_to_(to) {}

  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kExits | SpanClass::kIntervals | SpanClass::kEvents | SpanClass::kAllEvents |
           SpanClass::kTexts | SpanClass::kSpans | SpanClass::kRequests;
  }
  void event(const Event& event, const Pipeline& pipeline) override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  void span(const Span& span, const Pipeline& pipeline) override;

  [[nodiscard]] bool empty() const { return spans_.empty() && events_.empty(); }
  // After the pass: the page's data, as PageData::json().
  [[nodiscard]] std::string json(const Pipeline& pipeline) const;

 private:
  // Of the lanes of a vCPU, those beside them, and that of all other threads.
  enum class Lane : std::uint8_t { kGuest, kKernel, kVmm, kWorker, kRequests, kOthers };
  struct Kept {
    ThreadId vcpu{};  // kWorker: the worker; kRequests: the number of the lane
    Lane lane = Lane::kOthers;
    Timestamp begin, end;
    std::size_t kind = 0;   // of a span
    std::size_t text = 0;   // in texts_
    std::size_t whose = 0;  // of an event
  };
  [[nodiscard]] Json lanes_beside(std::map<std::pair<Lane, ThreadId>, std::size_t>& places,
                                  Json lanes) const;
  void add_span(ThreadId vcpu, Lane lane, Timestamp begin, Timestamp end, std::size_t kind,
                std::size_t text);

  const Timeline& timeline_;
  const ReportOptions& options_;
  TimeSpec asked_from_;
  std::optional<TimeSpec> asked_to_;
  bool resolved_ = false;  // an event came: these are known
  Timestamp from_, to_{std::numeric_limits<std::uint64_t>::max()};
  NumberedTexts texts_;
  std::vector<Kept> spans_, events_;
  std::vector<Timestamp> requests_;               // of each of their lanes: until when it is taken
  std::size_t request_lane_ = kMostRequestLanes;  // of the request that came last
  ThreadTable<bool> vcpus_;
  std::uint64_t left_out_ = 0;
};

}  // namespace trapline::page
