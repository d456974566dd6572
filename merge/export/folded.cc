// Stacks with weights, as flame graph tools read them: "guest;stack;reason;device 1234\n".
#include <algorithm>
#include <map>
#include <tuple>

#include "backend_ftrace/base/text.h"
#include "merge/export/exporter.h"
#include "merge/pass/exit_text.h"

namespace trapline {
namespace {

constexpr std::string_view kWeights[] = {"time", "count", "kernel", "user", "preempted", "blocked"};

// A frame's name: ';' separates frames and a line's last blank the weight.
std::string frame(std::string_view name) {
  std::string text = printable(name);
  std::replace(text.begin(), text.end(), ';', ',');
  return text;
}

class FoldedExporter final : public Exporter {
 public:
  FoldedExporter(const ExportContext& context, std::size_t weight, OutputFile output)
      : context_(context), weight_(weight), output_(std::move(output)) {}

  [[nodiscard]] SpanClass selects() const override { return SpanClass::kExits; }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    const Key key{pipeline.stack_of(exit),     exit.source, exit.reason.isa, exit.reason.reason,
                  exit.reason.exception_class, exit.device};
    if (stacks_.size() >= kMostStacks && !stacks_.contains(key)) {
      other_ += weight_of(exit);
      return;
    }
    stacks_[key] += weight_of(exit);
  }

  [[nodiscard]] Result<void> finish(const Pipeline& pipeline) override {
    for (const auto& [key, weight] : stacks_) {
      if (weight == 0) continue;
      const auto& [stack, source, isa, reason, exception_class, device] = key;
      std::string line;
      if (stack != kNoStack) line = stack_text(pipeline, stack) + ';';
      line += frame(reason_text(context_.timeline.source(source), {reason, isa, exception_class}));
      if (device != kNoName) line += ';' + frame(pipeline.names()[device]);
      output_.write(fmt::format("{} {}\n", line, weight));
      ++written_;
    }
    if (other_ != 0) output_.write(fmt::format("[other] {}\n", other_));
    return output_.commit();
  }
  [[nodiscard]] bool failed() const override { return output_.failed(); }
  [[nodiscard]] std::uint64_t written() const override { return written_; }

 private:
  static constexpr std::size_t kMostStacks = std::size_t{1} << 18;
  using Key =
      std::tuple<StackId, std::uint16_t, std::uint32_t, std::uint32_t, std::uint32_t, NameId>;

  [[nodiscard]] std::uint64_t weight_of(const ExitSpan& exit) const {
    if (weight_ == 0) return exit.total();
    return weight_ == 1 ? 1 : exit.parts[weight_ - 2];
  }
  // GuestStacks separates with ';' as well, and names may hold one.
  static std::string stack_text(const Pipeline& pipeline, StackId stack) {
    return printable(pipeline.stacks().text(stack));
  }

  const ExportContext context_;
  std::size_t weight_;
  OutputFile output_;
  std::map<Key, std::uint64_t> stacks_;
  std::uint64_t other_ = 0, written_ = 0;
};

}  // namespace

Result<std::unique_ptr<Exporter>> make_folded(const ExportContext& context,
                                              const ExportOptions& options) {
  const auto weight = std::find(std::begin(kWeights), std::end(kWeights), options.weight);
  if (weight == std::end(kWeights)) {
    return fail(ErrorKind::kUsage,
                "--weight: unknown '{}'; there are time, count, kernel, user, preempted, blocked",
                options.weight);
  }
  auto output = OutputFile::create(options.output, options.force);
  if (!output) return tl::unexpected(std::move(output).error());
  return std::make_unique<FoldedExporter>(
      context, static_cast<std::size_t>(weight - std::begin(kWeights)), std::move(*output));
}

}  // namespace trapline
