// The JSON of chrome://tracing, which Perfetto and speedscope read as well: begins and ends in
// microseconds with three decimals, counted from the recording's first event so that a double holds
// every nanosecond. Complete events (begin and duration) would be half as long, but readers add the
// two as doubles: the sums of neighbours differ by a rounding error, and speedscope then nests one
// in the other.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "backend_ftrace/base/quoted_text.h"
#include "backend_ftrace/base/text.h"
#include "merge/export/culprit_texts.h"
#include "merge/export/decimal.h"
#include "merge/export/exit_texts.h"
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
    for (std::size_t i = 0; i < kParts; ++i) parts_[i] = ending("part", json_string(kPartNames[i]));
    output_.write("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  }
  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kExits | SpanClass::kSpans | SpanClass::kFunctions | SpanClass::kRequests |
           SpanClass::kInterrupts |
           (guest_span_.empty() ? SpanClass::kNone : SpanClass::kGuestIntervals);
  }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    write_open_exit(pipeline);
    exit_ = exits_.of(exit, [&] {
      const std::string detail = detail_text(exit.detail);
      const std::string reason =
          json_string(reason_text(context_.timeline.source(exit.source), exit.reason));
      return detail == "-"
                 ? ending("exit", reason)
                 : ending("exit", reason, ",\"args\":{\"detail\":" + json_string(detail) + "}");
    });
  }
  void begin(const Span& span, const Pipeline& pipeline) override {
    write_open_exit(pipeline);
    go_to(span, pipeline);
    write('B', span.begin, ending_of(span, pipeline));
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
    go_to(span, pipeline);
    const std::string_view of_span = ending_of(span, pipeline);
    if (span.kind != SpanKind::kFunction) write('B', span.begin, of_span);
    write('E', span.end, of_span);
  }
  void guest_interval(const GuestInterval& interval, const Pipeline& pipeline) override {
    write_open_exit(pipeline);
    Span span;
    span.kind = SpanKind::kGuest;
    span.track = {TrackKind::kGuestSpans, MachineId::kHost,
                  pipeline.processes().of(interval.thread, {}), 0};
    span.begin = interval.begin;
    span.end = interval.end;
    go_to(span, pipeline);
    const std::string whole = ending(
        "guest span", json_string(interval.what.empty() ? guest_span_ : printable(interval.what)));
    write('B', span.begin, whole);
    for (const VcpuPiece& piece : interval.pieces) {
      std::string text(piece.part ? kPartNames[static_cast<std::size_t>(*piece.part)] : "guest");
      if (piece.has_culprit()) text += ": " + printable(culprits_.of(piece.culprit, pipeline));
      const std::string part = ending("guest span", json_string(text));
      write('B', piece.begin, part);
      write('E', piece.end, part);
    }
    write('E', span.end, whole);
  }
  [[nodiscard]] Result<void> finish(const Naming& names) override {
    write_open_exit(names.pipeline);
    make_room(0);
    for (const auto& [lane, name] : lane_names_) {
      output_.write(
          fmt::format(",\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{"
                      "\"name\":{}}}}}",
                      lane.first, lane.second, json_string(name)));
    }
    output_.write(fmt::format("\n],\"otherData\":{{\"first_ns\":\"{}\",\"clock\":{}}}}}\n",
                              first_.value_or(0),
                              json_string(names.timeline.source(0).info().clock)));
    return output_.commit();
  }
  [[nodiscard]] bool failed() const override { return output_.failed(); }

 private:
  // Threads keep their number; what has none gets one that no thread has.
  static constexpr std::uint64_t kTasks = std::uint64_t{1} << 32, kAsync = std::uint64_t{1} << 40;

  // What all lines of a lane begin with, and whether its name is in lane_names_.
  struct Place {
    std::string begin, end;
    bool named = false;
  };

  // The end of a line: `name` and `rest` are JSON.
  [[nodiscard]] static std::string ending(std::string_view category, std::string_view name,
                                          std::string_view rest = {}) {
    return fmt::format(",\"cat\":\"{}\",\"name\":{}{}}}", category, name, rest);
  }
  void write_open_exit(const Pipeline& pipeline) {
    if (!open_.is_open()) return;
    go_to(open_.exit(), pipeline);
    open_.walk([&](const Span& span) { write('B', span.begin, ending_of(span, pipeline)); },
               [&](const Span& span) { write('E', span.end, ending_of(span, pipeline)); });
    open_.close();
  }
  // The next lines are of the span's lane; an asynchronous span and its children share one.
  void go_to(const Span& span, const Pipeline& pipeline) {
    if (!first_) first_ = context_.timeline.source(0).counters().first.ns();
    std::int32_t process = process_of(span.track, pipeline);
    const std::uint64_t lane = lane_of(span, process);
    if (place_ == nullptr || at_ != std::pair(process, lane)) {
      at_ = {process, lane};
      if (places_.size() >= kMostPlaces) places_.clear();
      place_ = &places_.try_emplace(at_).first->second;
    }
    if (place_->named) return;
    const auto begin_of = [&](char phase) {
      return fmt::format(",\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":", phase, process, lane);
    };
    *place_ = {begin_of('B'), begin_of('E'), true};
    const auto [name, is_new] = lane_names_.try_emplace(at_);
    if (is_new) name->second = lane_name(span);
  }
  // Two of these are written for each span: three texts that are there already go straight into a
  // buffer, and a time that the line before has is not formatted again.
  void write(char phase, Timestamp at, std::string_view rest) {
    std::string_view place = phase == 'B' ? place_->begin : place_->end;
    if (std::exchange(is_first_, false)) place.remove_prefix(std::string_view(",\n").size());
    if (at != time_at_ || time_size_ == 0) [[unlikely]]
      format_time(at);
    const std::size_t most = place.size() + kTime + rest.size();
    if (text_.size() - filled_ < most) [[unlikely]]
      make_room(most);
    char* end = text_.data() + filled_;
    std::memcpy(end, place.data(), place.size());
    end += place.size();
    std::memcpy(end, time_, kTime);
    end += time_size_;
    std::memcpy(end, rest.data(), rest.size());
    filled_ = static_cast<std::size_t>(end - text_.data()) + rest.size();
  }
  // In microseconds.
  void format_time(Timestamp at) {
    const std::uint64_t ns = at.ns() > *first_ ? at.ns() - *first_ : 0;
    char* end = put_decimal(time_, ns / 1000);
    const auto rest = static_cast<unsigned>(ns % 1000);
    const auto digit = [](unsigned value) { return static_cast<char>('0' + value); };
    for (const char byte : {'.', digit(rest / 100), digit(rest / 10 % 10), digit(rest % 10)})
      *end++ = byte;
    time_size_ = static_cast<std::size_t>(end - time_);
    time_at_ = at;
  }
  void make_room(std::size_t bytes) {
    output_.write({text_.data(), std::exchange(filled_, 0)});
    if (text_.size() < bytes) text_.resize(bytes);
  }
  [[nodiscard]] static std::int32_t process_of(const Track& track, const Pipeline& pipeline) {
    if (track.kind == TrackKind::kVcpu || track.kind == TrackKind::kGuestTask)
      return static_cast<std::int32_t>(pipeline.processes().of(track.thread, {}));
    return track.kind == TrackKind::kWorker ? static_cast<std::int32_t>(track.task)
                                            : static_cast<std::int32_t>(track.thread);
  }
  // The process is that of the lane.
  std::uint64_t lane_of(const Span& span, std::int32_t& process) {
    std::uint64_t lane = static_cast<std::uint32_t>(span.track.thread);
    if (span.track.kind == TrackKind::kGuestTask) {
      // A task that moves between vCPUs stays on one lane.
      const ThreadId of = span.track.task == 0 ? span.track.thread : ThreadId{};
      const auto key = std::tuple{span.track.machine, of, span.track.task};
      const auto [place, is_new] =
          tasks_.try_emplace(key, std::pair{kTasks + tasks_.size(), process});
      std::tie(lane, process) = place->second;
    } else if (span.track.kind != TrackKind::kVcpu && span.track.kind != TrackKind::kWorker) {
      auto& lanes = async_[{span.track.kind, span.track.thread}];
      std::size_t free = 0;
      while (free < lanes.size() && lanes[free] > span.begin) ++free;
      if (free == lanes.size() && lanes.size() < kMostLanes) lanes.emplace_back();
      if (free < lanes.size()) lanes[free] = span.end;
      const std::size_t first = span.track.kind == TrackKind::kRequests     ? 0
                                : span.track.kind == TrackKind::kInterrupts ? kMostLanes
                                                                            : 2 * kMostLanes;
      lane = kAsync + first + free;
    }
    return lane;
  }
  [[nodiscard]] std::string lane_name(const Span& span) const {
    const auto thread = static_cast<std::uint32_t>(span.track.thread);
    switch (span.track.kind) {
      case TrackKind::kGuestTask:
        return span.track.task == 0
                   ? fmt::format("guest functions of tid {}", thread)
                   : fmt::format("guest task {}", static_cast<std::uint32_t>(span.track.task));
      case TrackKind::kWorker:
        return fmt::format("{} (tid {})",
                           printable(context_.timeline.source(0).comm(span.track.thread)), thread);
      case TrackKind::kRequests:
        return "requests";
      case TrackKind::kInterrupts:
        return "interrupts";
      case TrackKind::kGuestSpans:
        return "guest spans: " + guest_span_;
      case TrackKind::kVcpu:
      case TrackKind::kWaker:
        break;
    }
    return fmt::format("vCPU {}", span.vcpu);
  }
  // Category and name, as ending() makes them; valid until the next call.
  [[nodiscard]] std::string_view ending_of(const Span& span, const Pipeline& pipeline) {
    switch (span.kind) {
      case SpanKind::kGuest:
        return guest_;
      case SpanKind::kExit:
        return exit_;
      case SpanKind::kPart:
        return parts_[static_cast<std::size_t>(span.part)];
      case SpanKind::kHandler:
        return named(handlers_, "qemu", span.region != kNoName ? span.region : span.name, pipeline);
      case SpanKind::kFunction:
        return named(functions_, "function", span.name, pipeline);
      case SpanKind::kRequest:
        return named(requests_, "request", span.name, pipeline);
      case SpanKind::kRequestStage:
        return other_ = ending("request stage", json_string(kRequestStageNames[span.number]));
      case SpanKind::kTurn:
        return other_ = ending("vhost", span.number != 0 ? "\"serves a notify\"" : "\"turn\"");
      case SpanKind::kTurnPart:
        return other_ = ending("vhost part", json_string(kTurnPartNames[span.number]));
      case SpanKind::kInterrupt:
      case SpanKind::kWakeup:
        break;
    }
    if (interrupts_.size() >= kMostPlaces) interrupts_.clear();
    std::string& text = interrupts_[span.number];
    if (text.empty()) text = ending("interrupt", fmt::format("\"interrupt {:#x}\"", span.number));
    return text;
  }
  [[nodiscard]] static std::string_view named(std::vector<std::string>& texts,
                                              std::string_view category, NameId id,
                                              const Pipeline& pipeline) {
    if (id >= texts.size()) texts.resize(id + 1);
    if (texts[id].empty()) texts[id] = ending(category, json_string(pipeline.names()[id]));
    return texts[id];
  }

  static constexpr std::size_t kMostLanes = 4096, kMostPlaces = 4096, kTime = 32;
  static constexpr std::size_t kPiece = 128u << 10;  // that OutputFile writes without copying
  const ExportContext context_;
  std::string guest_span_;
  CulpritTexts culprits_;
  OutputFile output_;
  // The ends of lines, made once each.
  const std::string guest_ = ending("guest", "\"guest\"");
  std::array<std::string, kParts> parts_;
  ExitTexts<std::string> exits_;
  std::vector<std::string> handlers_, functions_, requests_;  // by NameId
  std::map<std::uint64_t, std::string> interrupts_;
  std::string_view exit_;  // of the open exit
  std::string other_;
  std::vector<char> text_ = std::vector<char>(kPiece);  // what was not given to output_ yet
  std::size_t filled_ = 0;
  bool is_first_ = true;   // no line was written
  char time_[kTime] = {};  // of time_at_, once time_size_ says how long
  std::size_t time_size_ = 0;
  Timestamp time_at_;
  std::map<std::pair<std::int32_t, std::uint64_t>, Place> places_;  // of processes and lanes
  std::pair<std::int32_t, std::uint64_t> at_;                       // whose place_ is
  Place* place_ = nullptr;
  NestedExit open_;
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
