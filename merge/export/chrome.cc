// The JSON of chrome://tracing, which Perfetto and speedscope read as well: begins and ends in
// microseconds with three decimals, counted from the recording's first event so that a double holds
// every nanosecond. Complete events (begin and duration) would be half as long, but readers add the
// two as doubles: the sums of neighbours differ by a rounding error, and speedscope then nests one
// in the other.
#include <fmt/format.h>

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "backend_ftrace/base/quoted_text.h"
#include "backend_ftrace/base/text.h"
#include "merge/export/culprit_texts.h"
#include "merge/export/exporter.h"
#include "merge/export/nested_exit.h"
#include "merge/pass/exit_text.h"

namespace trapline {
namespace {

class ChromeExporter final : public Exporter {
 public:
  ChromeExporter(const ExportContext& context, const ExportOptions& options, OutputFile output)
      : context_(context),
        guest_span_(printable(options.guest_span)),
        culprits_(context_.timeline),
        output_(std::move(output)) {
    output_.write("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  }
  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kExits | SpanClass::kSpans | SpanClass::kFunctions | SpanClass::kRequests |
           SpanClass::kInterrupts |
           (guest_span_.empty() ? SpanClass::kNone : SpanClass::kGuestIntervals);
  }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    write_open_exit(pipeline);
    reason_ = reason_text(context_.timeline.source(exit.source), exit.reason);
    const std::string detail = detail_text(exit.detail);
    arguments_ = detail == "-" ? "" : ",\"args\":{\"detail\":" + json_string(detail) + "}";
  }
  void begin(const Span& span, const Pipeline& pipeline) override {
    write_open_exit(pipeline);
    write('B', span, span.begin, pipeline);
  }
  void span(const Span& span, const Pipeline& pipeline) override {
    if (span.parent != SpanId::kNone && span.kind != SpanKind::kFunction) {
      if (open_.is_open() && open_.exit().id == span.parent) open_.add(span);
      return;
    }
    write_open_exit(pipeline);
    if (span.kind == SpanKind::kExit || span.kind == SpanKind::kRequest ||
        span.kind == SpanKind::kTurn) {
      open_.start(span);
      return;
    }
    if (span.kind != SpanKind::kFunction) write('B', span, span.begin, pipeline);
    write('E', span, span.end, pipeline);
  }
  void guest_interval(const GuestInterval& interval, const Pipeline& pipeline) override {
    write_open_exit(pipeline);
    Span span;
    span.kind = SpanKind::kGuest;
    span.track = {TrackKind::kGuestSpans, MachineId::kHost,
                  pipeline.processes().of(interval.thread, {}), 0};
    span.begin = interval.begin;
    span.end = interval.end;
    text_of_span_ = interval.what.empty() ? guest_span_ : printable(interval.what);
    write('B', span, span.begin, pipeline);
    const std::uint64_t lane = lane_;
    for (const VcpuPiece& piece : interval.pieces) {
      text_of_span_ = piece.part ? kPartNames[static_cast<std::size_t>(*piece.part)] : "guest";
      if (piece.has_culprit())
        text_of_span_ += ": " + printable(culprits_.of(piece.culprit, pipeline));
      write('B', span, piece.begin, pipeline, lane);
      write('E', span, piece.end, pipeline, lane);
    }
    text_of_span_ = interval.what.empty() ? guest_span_ : printable(interval.what);
    write('E', span, span.end, pipeline, lane);
  }
  [[nodiscard]] Result<void> finish(const Pipeline& pipeline) override {
    write_open_exit(pipeline);
    for (const auto& [lane, name] : lane_names_) {
      output_.write(
          fmt::format("{}{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{"
                      "\"name\":{}}}}}",
                      separator(), lane.first, lane.second, json_string(name)));
    }
    output_.write(fmt::format("\n],\"otherData\":{{\"first_ns\":\"{}\",\"clock\":{}}}}}\n",
                              first_.value_or(0),
                              json_string(context_.timeline.source(0).info().clock)));
    return output_.commit();
  }
  [[nodiscard]] bool failed() const override { return output_.failed(); }

 private:
  // Threads keep their number; what has none gets one that no thread has.
  static constexpr std::uint64_t kTasks = std::uint64_t{1} << 32, kAsync = std::uint64_t{1} << 40;

  [[nodiscard]] std::string_view separator() { return std::exchange(separator_, ",\n"); }
  void write_open_exit(const Pipeline& pipeline) {
    if (!open_.is_open()) return;
    open_.walk([&](const Span& span) { write('B', span, span.begin, pipeline); },
               [&](const Span& span) { write('E', span, span.end, pipeline); });
    open_.close();
  }
  // `lane`: known already.
  void write(char phase, const Span& span, Timestamp at, const Pipeline& pipeline,
             std::optional<std::uint64_t> lane = {}) {
    if (!first_) first_ = context_.timeline.source(0).counters().first.ns();
    std::int32_t process = process_of(span.track, pipeline);
    // An asynchronous span's end goes where its begin went, its children too: they follow at once.
    if (lane) {
      lane_ = *lane;
    } else if ((phase == 'B' && !is_child(span)) || span.kind == SpanKind::kFunction) {
      lane_ = lane_of(span, process);
    }
    const auto [name, category] = name_of(span, pipeline);
    const std::uint64_t ns = at.ns() > *first_ ? at.ns() - *first_ : 0;
    text_.clear();
    fmt::format_to(
        std::back_inserter(text_),
        "{}{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{}.{:03},\"cat\":\"{}\",\"name\":{}{}}}",
        separator(), phase, process, lane_, ns / 1000, ns % 1000, category, json_string(name),
        span.kind == SpanKind::kExit ? arguments_ : "");
    output_.write(text_);
  }
  [[nodiscard]] static std::int32_t process_of(const Track& track, const Pipeline& pipeline) {
    if (track.kind == TrackKind::kVcpu || track.kind == TrackKind::kGuestTask)
      return static_cast<std::int32_t>(pipeline.processes().of(track.thread, {}));
    return track.kind == TrackKind::kWorker ? static_cast<std::int32_t>(track.task)
                                            : static_cast<std::int32_t>(track.thread);
  }
  [[nodiscard]] static bool is_child(const Span& span) {
    return span.kind == SpanKind::kRequestStage || span.kind == SpanKind::kTurnPart;
  }
  // The process is that of the lane.
  std::uint64_t lane_of(const Span& span, std::int32_t& process) {
    const auto thread = static_cast<std::uint32_t>(span.track.thread);
    std::uint64_t lane = thread;
    std::string name = fmt::format("vCPU {}", span.vcpu);
    if (span.track.kind == TrackKind::kGuestTask) {
      // A task that moves between vCPUs stays on one lane.
      const ThreadId of = span.track.task == 0 ? span.track.thread : ThreadId{};
      const auto key = std::tuple{span.track.machine, of, span.track.task};
      const auto [place, is_new] =
          tasks_.try_emplace(key, std::pair{kTasks + tasks_.size(), process});
      std::tie(lane, process) = place->second;
      name = span.track.task == 0
                 ? fmt::format("guest functions of tid {}", thread)
                 : fmt::format("guest task {}", static_cast<std::uint32_t>(span.track.task));
    } else if (span.track.kind == TrackKind::kWorker) {
      name = fmt::format("{} (tid {})",
                         printable(context_.timeline.source(0).comm(span.track.thread)), thread);
    } else if (span.track.kind != TrackKind::kVcpu) {
      auto& lanes = async_[{span.track.kind, span.track.thread}];
      std::size_t free = 0;
      while (free < lanes.size() && lanes[free] > span.begin) ++free;
      if (free == lanes.size() && lanes.size() < kMostLanes) lanes.emplace_back();
      if (free < lanes.size()) lanes[free] = span.end;
      const bool request = span.track.kind == TrackKind::kRequests,
                 interrupt = span.track.kind == TrackKind::kInterrupts;
      lane = kAsync + (request ? 0 : interrupt ? kMostLanes : 2 * kMostLanes) + free;
      name = request ? "requests" : interrupt ? "interrupts" : "guest spans: " + guest_span_;
    }
    lane_names_.try_emplace({process, lane}, std::move(name));
    return lane;
  }
  [[nodiscard]] std::pair<std::string, std::string_view> name_of(const Span& span,
                                                                 const Pipeline& pipeline) const {
    const Names& names = pipeline.names();
    switch (span.kind) {
      case SpanKind::kGuest:
        if (span.track.kind == TrackKind::kGuestSpans) return {text_of_span_, "guest span"};
        return {"guest", "guest"};
      case SpanKind::kExit:
        return {reason_, "exit"};
      case SpanKind::kPart:
        return {std::string(kPartNames[static_cast<std::size_t>(span.part)]), "part"};
      case SpanKind::kHandler:
        return {std::string(names[span.region != kNoName ? span.region : span.name]), "qemu"};
      case SpanKind::kFunction:
        return {std::string(names[span.name]), "function"};
      case SpanKind::kRequest:
        return {std::string(names[span.name]), "request"};
      case SpanKind::kRequestStage:
        return {std::string(kRequestStageNames[span.number]), "request stage"};
      case SpanKind::kTurn:
        return {span.number != 0 ? "serves a notify" : "turn", "vhost"};
      case SpanKind::kTurnPart:
        return {std::string(kTurnPartNames[span.number]), "vhost part"};
      case SpanKind::kInterrupt:
      case SpanKind::kWakeup:
        break;
    }
    return {fmt::format("interrupt {:#x}", span.number), "interrupt"};
  }

  static constexpr std::size_t kMostLanes = 4096;
  const ExportContext context_;
  std::string guest_span_, text_of_span_;
  CulpritTexts culprits_;
  OutputFile output_;
  std::string reason_, arguments_, text_;
  NestedExit open_;
  std::string_view separator_;
  std::uint64_t lane_ = 0;
  std::optional<std::uint64_t> first_;
  std::map<std::tuple<MachineId, ThreadId, std::uint64_t>, std::pair<std::uint64_t, std::int32_t>>
      tasks_;
  std::map<std::pair<TrackKind, ThreadId>, std::vector<Timestamp>> async_;
  std::map<std::pair<std::int32_t, std::uint64_t>, std::string> lane_names_;
};

}  // namespace

Result<std::unique_ptr<Exporter>> make_chrome(const ExportContext& context,
                                              const ExportOptions& options) {
  auto output = OutputFile::create(options.output, options.force);
  if (!output) return tl::unexpected(std::move(output).error());
  return std::make_unique<ChromeExporter>(context, options, std::move(*output));
}

}  // namespace trapline
