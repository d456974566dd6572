// A part of the timeline as a page. Each vCPU has lanes for guest, kernel and QEMU; vhost workers
// and requests with their stages have their own lanes; events have their texts.
// docs/formats/page.md describes the data.
//
// TimelinePage is a sink that keeps the first kMostSpans spans and kMostEvents events of the
// interval, and counts the rest.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/model/thread_table.h"
#include "merge/pass/naming.h"
#include "merge/render/page/numbered_texts.h"
#include "merge/report/options.h"
#include "merge/source/timeline.h"

namespace trapline::page {

class TimelinePage : public SpanSink {
 public:
  static constexpr std::size_t kMostSpans = 6000, kMostEvents = 4000, kMostThreads = 256,
                               kMostText = 200, kMostRequestLanes = 16;

  // Shows the interval from `from` to `to`, both included; nullopt: to the recording's end. Borrows
  // timeline and options.
  TimelinePage(const Timeline& timeline, const ReportOptions& options, TimeSpec from,
               std::optional<TimeSpec> to)
      : timeline_(timeline), options_(options), asked_from_(from), asked_to_(to) {}

  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kExits | SpanClass::kIntervals | SpanClass::kEvents | SpanClass::kAllEvents |
           SpanClass::kRequests;
  }
  void event(const Event& event, const Pipeline& pipeline) override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  void request(const RequestSpan& request, const Pipeline& pipeline) override;
  void turn(const VhostTurn& turn, const Pipeline& pipeline) override;

  [[nodiscard]] bool empty() const { return spans_.empty() && events_.empty(); }
  // Returns the page's data as one line of JSON. Call this after the pass.
  [[nodiscard]] std::string json(const Pipeline& pipeline) const;

 private:
  // Lanes of a vCPU, lanes beside those, and the lane of all other threads.
  enum class Lane : std::uint8_t { kGuest, kKernel, kVmm, kWorker, kRequests, kOthers };
  struct Kept {
    ThreadId vcpu{};  // kWorker: the worker; kRequests: the number of the lane
    Lane lane = Lane::kOthers;
    Timestamp begin, end;
    std::size_t kind = 0;   // kind of a span
    std::size_t text = 0;   // index in texts_
    std::size_t whose = 0;  // index in texts_ of an event's thread
  };
  void add_span(ThreadId vcpu, Lane lane, Timestamp begin, Timestamp end, std::size_t kind,
                std::size_t text);

  const Timeline& timeline_;
  const ReportOptions& options_;
  TimeSpec asked_from_;
  std::optional<TimeSpec> asked_to_;
  bool resolved_ = false;  // the first event came, so from_ and to_ are known
  Timestamp from_, to_{std::numeric_limits<std::uint64_t>::max()};
  NumberedTexts texts_;
  std::vector<Kept> spans_, events_;
  std::vector<Timestamp> requests_;  // until when each lane of requests is taken
  ThreadTable<bool> vcpus_;
  std::uint64_t left_out_ = 0;
};

}  // namespace trapline::page
