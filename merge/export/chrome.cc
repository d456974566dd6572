// The JSON of chrome://tracing, which Perfetto and speedscope read as well: complete events in
// microseconds with three decimals, counted from the recording's first event so that a double holds
// every nanosecond.
#include <fmt/format.h>

#include <map>
#include <set>
#include <tuple>

#include "backend_ftrace/base/text.h"
#include "merge/export/exporter.h"
#include "merge/export/json_text.h"
#include "merge/report/exit_text.h"

namespace trapline {
namespace {

class ChromeExporter final : public Exporter {
 public:
  ChromeExporter(const ExportContext& context, OutputFile output)
      : context_(context), output_(std::move(output)) {
    output_.write("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  }
  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kExits | SpanClass::kSpans | SpanClass::kFunctions | SpanClass::kRequests |
           SpanClass::kInterrupts;
  }
  void exit(const ExitSpan& exit, const Pipeline&) override {
    reason_ = reason_text(context_.timeline.source(exit.source), exit.reason);
    detail_ = detail_text(exit.detail);
  }
  void span(const Span& span, const Pipeline& pipeline) override {
    if (!first_) first_ = context_.timeline.source(0).counters().first.ns();
    const std::int32_t process =
        span.track.kind == TrackKind::kVcpu || span.track.kind == TrackKind::kGuestTask
            ? static_cast<std::int32_t>(pipeline.processes().of(span.track.thread, {}))
            : static_cast<std::int32_t>(span.track.thread);
    const std::uint64_t lane = lane_of(span, process);
    const auto [name, category] = name_of(span, pipeline);
    text_.clear();
    fmt::format_to(std::back_inserter(text_),
                   "{}{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"cat\":\"{}\","
                   "\"name\":{}",
                   written_ == 0 ? "" : ",\n", process, lane, micros(span.begin),
                   micros(span.length()), category, json_string(name));
    if (span.kind == SpanKind::kExit && detail_ != "-") {
      text_ += ",\"args\":{\"detail\":" + json_string(detail_) + "}";
    }
    text_ += '}';
    output_.write(text_);
    ++written_;
  }
  [[nodiscard]] Result<void> finish(const Pipeline&) override {
    for (const auto& [lane, name] : lane_names_) {
      output_.write(
          fmt::format("{}{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{"
                      "\"name\":{}}}}}",
                      written_ == 0 ? "" : ",\n", lane.first, lane.second, json_string(name)));
    }
    output_.write(fmt::format("\n],\"otherData\":{{\"first_ns\":\"{}\",\"clock\":{}}}}}\n",
                              first_.value_or(0),
                              json_string(context_.timeline.source(0).info().clock)));
    return output_.commit();
  }
  [[nodiscard]] bool failed() const override { return output_.failed(); }
  [[nodiscard]] std::uint64_t written() const override { return written_; }

 private:
  // Threads keep their number; what has none gets one that no thread has.
  static constexpr std::uint64_t kTasks = std::uint64_t{1} << 32, kAsync = std::uint64_t{1} << 40;

  [[nodiscard]] std::string micros(std::uint64_t ns) const {
    return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
  }
  [[nodiscard]] std::string micros(Timestamp at) const {
    return micros(at.ns() > *first_ ? at.ns() - *first_ : 0);
  }
  std::uint64_t lane_of(const Span& span, std::int32_t process) {
    const auto thread = static_cast<std::uint32_t>(span.track.thread);
    std::uint64_t lane = thread;
    std::string name = fmt::format("vCPU {}", span.vcpu);
    if (span.track.kind == TrackKind::kGuestTask) {
      const auto key = std::tuple{span.track.machine, span.track.thread, span.track.task};
      const auto [place, is_new] = tasks_.try_emplace(key, kTasks + tasks_.size());
      lane = place->second;
      name = span.track.task == 0
                 ? fmt::format("guest functions of tid {}", thread)
                 : fmt::format("guest task {}", static_cast<std::uint32_t>(span.track.task));
    } else if (span.track.kind != TrackKind::kVcpu) {
      auto& lanes = async_[{span.track.kind, span.track.thread}];
      std::size_t free = 0;
      while (free < lanes.size() && lanes[free] > span.begin) ++free;
      if (free == lanes.size() && lanes.size() < kMostLanes) lanes.emplace_back();
      if (free < lanes.size()) lanes[free] = span.end;
      const bool request = span.track.kind == TrackKind::kRequests;
      lane = kAsync + (request ? 0 : kMostLanes) + free;
      name = request ? "requests" : "interrupts";
    }
    lane_names_.try_emplace({process, lane}, std::move(name));
    return lane;
  }
  [[nodiscard]] std::pair<std::string, std::string_view> name_of(const Span& span,
                                                                 const Pipeline& pipeline) const {
    const Names& names = pipeline.names();
    switch (span.kind) {
      case SpanKind::kGuest:
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
      case SpanKind::kInterrupt:
        break;
    }
    return {fmt::format("interrupt {:#x}", span.number), "interrupt"};
  }

  static constexpr std::size_t kMostLanes = 4096;
  const ExportContext context_;
  OutputFile output_;
  std::string reason_, detail_, text_;
  std::optional<std::uint64_t> first_;
  std::map<std::tuple<MachineId, ThreadId, std::uint64_t>, std::uint64_t> tasks_;
  std::map<std::pair<TrackKind, ThreadId>, std::vector<Timestamp>> async_;
  std::map<std::pair<std::int32_t, std::uint64_t>, std::string> lane_names_;
  std::uint64_t written_ = 0;
};

}  // namespace

Result<std::unique_ptr<Exporter>> make_chrome(const ExportContext& context,
                                              const ExportOptions& options) {
  auto output = OutputFile::create(options.output, options.force);
  if (!output) return tl::unexpected(std::move(output).error());
  return std::make_unique<ChromeExporter>(context, std::move(*output));
}

}  // namespace trapline
