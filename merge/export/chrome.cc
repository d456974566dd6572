// The JSON of chrome://tracing, which Perfetto and speedscope read as well: begins and ends in
// microseconds with three decimals, counted from the recording's first event so that a double holds
// every nanosecond. Complete events (begin and duration) would be half as long, but readers add the
// two as doubles: the sums of neighbours differ by a rounding error, and speedscope then nests one
// in the other.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "backend_ftrace/base/quoted_text.h"
#include "backend_ftrace/base/text.h"
#include "merge/export/culprit_texts.h"
#include "merge/export/detail_cache.h"
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
    for (std::size_t i = 0; i < kParts; ++i) parts_[i] = json_string(kPartNames[i]);
    output_.write("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  }
  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kExits | SpanClass::kSpans | SpanClass::kFunctions | SpanClass::kRequests |
           SpanClass::kInterrupts |
           (guest_span_.empty() ? SpanClass::kNone : SpanClass::kGuestIntervals);
  }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    write_open_exit(pipeline);
    const auto [reason, is_new] = reasons_.try_emplace(
        std::tuple{exit.source, exit.reason.isa, exit.reason.reason, exit.reason.exception_class});
    if (is_new)
      reason->second = json_string(reason_text(context_.timeline.source(exit.source), exit.reason));
    reason_ = reason->second;
    arguments_ = details_.of(exit.detail, [&] {
      const std::string detail = detail_text(exit.detail);
      return detail == "-" ? "" : ",\"args\":{\"detail\":" + json_string(detail) + "}";
    });
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
    const std::string what =
        json_string(interval.what.empty() ? guest_span_ : printable(interval.what));
    text_of_span_ = what;
    write('B', span, span.begin, pipeline);
    const std::uint64_t lane = lane_;
    for (const VcpuPiece& piece : interval.pieces) {
      std::string text(piece.part ? kPartNames[static_cast<std::size_t>(*piece.part)] : "guest");
      if (piece.has_culprit()) text += ": " + printable(culprits_.of(piece.culprit, pipeline));
      text_of_span_ = json_string(text);
      write('B', span, piece.begin, pipeline, lane);
      write('E', span, piece.end, pipeline, lane);
    }
    text_of_span_ = what;
    write('E', span, span.end, pipeline, lane);
  }
  [[nodiscard]] Result<void> finish(const Pipeline& pipeline) override {
    write_open_exit(pipeline);
    make_room(0);
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
    // Two of these are written for each span: no format string is read for them, and they go
    // straight into a buffer.
    const std::string_view place = place_of(process);
    const std::string_view arguments =
        span.kind == SpanKind::kExit ? std::string_view(arguments_) : std::string_view();
    constexpr std::size_t kRest = 128;  // the fixed texts and the time
    const std::size_t most =
        kRest + place.size() + category.size() + name.size() + arguments.size();
    if (text_.size() - filled_ < most) make_room(most);
    char* end = text_.data() + filled_;
    const auto add = [&end](std::string_view part) {
      std::memcpy(end, part.data(), part.size());
      end += part.size();
    };
    add(separator());
    add("{\"ph\":\"");
    *end++ = phase;
    add(place);
    end = std::to_chars(end, end + kRest / 4, ns / 1000).ptr;
    const auto rest = static_cast<unsigned>(ns % 1000);
    const auto digit = [](unsigned value) { return static_cast<char>('0' + value); };
    const char decimals[] = {'.', digit(rest / 100), digit(rest / 10 % 10), digit(rest % 10)};
    add({decimals, sizeof decimals});
    add(",\"cat\":\"");
    add(category);
    add("\",\"name\":");
    add(name);
    add(arguments);
    *end++ = '}';
    filled_ = static_cast<std::size_t>(end - text_.data());
  }
  void make_room(std::size_t bytes) {
    output_.write({text_.data(), std::exchange(filled_, 0)});
    if (text_.size() < bytes) text_.resize(bytes);
  }
  // What all spans of the lane have in common.
  std::string_view place_of(std::int32_t process) {
    if (place_ == nullptr || place_->first != std::pair(process, lane_)) {
      if (places_.size() >= kMostPlaces) places_.clear();
      place_ = &*places_.try_emplace({process, lane_}).first;
      if (place_->second.empty())
        place_->second = fmt::format("\",\"pid\":{},\"tid\":{},\"ts\":", process, lane_);
    }
    return place_->second;
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
    const auto [name, is_new] = lane_names_.try_emplace({process, lane});
    if (is_new) name->second = lane_name(span);
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
  // The name is a value of JSON; it lives until the next call.
  [[nodiscard]] std::pair<std::string_view, std::string_view> name_of(const Span& span,
                                                                      const Pipeline& pipeline) {
    switch (span.kind) {
      case SpanKind::kGuest:
        if (span.track.kind == TrackKind::kGuestSpans) return {text_of_span_, "guest span"};
        return {"\"guest\"", "guest"};
      case SpanKind::kExit:
        return {reason_, "exit"};
      case SpanKind::kPart:
        return {parts_[static_cast<std::size_t>(span.part)], "part"};
      case SpanKind::kHandler:
        return {name(span.region != kNoName ? span.region : span.name, pipeline), "qemu"};
      case SpanKind::kFunction:
        return {name(span.name, pipeline), "function"};
      case SpanKind::kRequest:
        return {name(span.name, pipeline), "request"};
      case SpanKind::kRequestStage:
        return {quoted_ = json_string(kRequestStageNames[span.number]), "request stage"};
      case SpanKind::kTurn:
        return {span.number != 0 ? "\"serves a notify\"" : "\"turn\"", "vhost"};
      case SpanKind::kTurnPart:
        return {quoted_ = json_string(kTurnPartNames[span.number]), "vhost part"};
      case SpanKind::kInterrupt:
      case SpanKind::kWakeup:
        break;
    }
    return {interrupt(span.number), "interrupt"};
  }
  [[nodiscard]] std::string_view interrupt(std::uint64_t number) {
    if (interrupts_.size() >= kMostPlaces) interrupts_.clear();
    std::string& name = interrupts_[number];
    if (name.empty()) name = fmt::format("\"interrupt {:#x}\"", number);
    return name;
  }
  [[nodiscard]] std::string_view name(NameId id, const Pipeline& pipeline) {
    if (id >= names_.size()) names_.resize(id + 1);
    if (names_[id].empty()) names_[id] = json_string(pipeline.names()[id]);
    return names_[id];
  }

  static constexpr std::size_t kMostLanes = 4096, kMostPlaces = 4096, kPiece = 64u << 10;
  const ExportContext context_;
  std::string guest_span_;
  CulpritTexts culprits_;
  OutputFile output_;
  // Values of JSON, and made once each: what spans are called.
  std::map<std::tuple<std::uint16_t, std::uint32_t, std::uint32_t, std::uint32_t>, std::string>
      reasons_;
  DetailCache<std::string> details_;
  std::vector<std::string> names_;  // by NameId
  std::array<std::string, kParts> parts_;
  std::string reason_, arguments_, text_of_span_, quoted_;
  std::vector<char> text_ = std::vector<char>(kPiece);  // what was not given to output_ yet
  std::size_t filled_ = 0;
  std::map<std::pair<std::int32_t, std::uint64_t>, std::string> places_;  // of processes and lanes
  std::map<std::pair<std::int32_t, std::uint64_t>, std::string>::value_type* place_ = nullptr;
  std::map<std::uint64_t, std::string> interrupts_;
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
