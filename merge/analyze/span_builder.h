// Makes Spans, with their tracks, parents and flows, from the results of the trackers.
//
//   exit's user time      u0 ─────────────────────────────── u1
//   QEMU's events              read r     write w    other o
//   handlers              [u0 ── r]      [w ──────── o]  [o]
//
// A region's read is traced after the device has answered, a write before the device gets it. So a
// read's handler lasts from the event before it, and a write's to the event after it, within the
// user time. An event of another kind is a point.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "merge/analyze/exit_tracker.h"
#include "merge/analyze/guest_stacks.h"
#include "merge/analyze/irq_tracker.h"
#include "merge/analyze/request_path.h"
#include "merge/analyze/span_sink.h"
#include "merge/analyze/vhost_tracker.h"

namespace trapline {

class SpanBuilder {
 public:
  // Borrows `pipeline` and the sinks, which are those that select spans.
  SpanBuilder(const Pipeline& pipeline, std::vector<SpanSink*> sinks)
      : pipeline_(&pipeline), sinks_(std::move(sinks)) {}

  void on_guest_run(const GuestRun& run);
  void on_exit(const ExitSpan& exit);
  void on_calls(const std::vector<FunctionCall>& calls);
  void on_call(const FunctionCall& call);
  // Takes a request that ended; `process` is the VM's.
  void on_request(const RequestSpan& request, ThreadId process, NameId name);
  void on_delivered(const Delivered& delivered);
  void on_turn(const VhostTurn& turn);
  void on_interrupt(const IrqSpan& interrupt, ThreadId process);
  // Takes changes in which threads of the host are woken.
  void on(ThreadChanges changes);

 private:
  // Limit for the spans of each kind from which a flow may start; the latest are kept.
  static constexpr std::size_t kMostRemembered = 1u << 14;
  static constexpr std::size_t kMostThreads = 1u << 16;
  struct At {
    Timestamp at;
    SpanId id = SpanId::kNone;
  };
  // The latest spans, each found by one of its times. Spans are nearly always added in order of
  // that time.
  class Remembered {
   public:
    void add(Timestamp at, SpanId id);
    // Returns the span with that time, or kNone.
    [[nodiscard]] SpanId find(Timestamp at, bool forget = false);

   private:
    std::map<Timestamp, SpanId> spans_;
  };

  [[nodiscard]] SpanId next_id() { return SpanId{++last_id_}; }
  SpanId emit(Span& span);
  void flow(SpanId from, SpanId to, FlowKind kind);
  [[nodiscard]] Span span_of(const FunctionCall& call) const;
  void emit_parts(const ExitSpan& exit, const Span& parent);
  void emit_stages(const RequestSpan& request, const Span& parent);
  void emit_child(const Span& parent, SpanKind kind, Timestamp begin, Timestamp end,
                  std::uint32_t number);
  void notified_by(Timestamp notify, SpanId span);
  void emit_handlers(const ExitSpan& exit, const Span& parent);
  // Returns the exit that began at this time. An exit that is still open gets its id now.
  [[nodiscard]] SpanId exit_of(Timestamp begin);

  const Pipeline* pipeline_;
  std::vector<SpanSink*> sinks_;
  std::uint64_t last_id_ = 0;
  Remembered exits_;                      // by beginning, as in RequestSpan::notified
  Remembered open_exits_;                 // by beginning: exits that ended after the request
  Remembered requests_;                   // by end
  Remembered injections_;                 // by time of the injection: the request that it reports
  ThreadTable<std::vector<At>> wakeups_;  // by vCPU thread, since its last exit
};

}  // namespace trapline
