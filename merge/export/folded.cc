// Writes stacks with weights, as flame graph tools read them: "guest;stack;reason;device 1234\n";
// for the kernel's time "reason;function();callee() 1234\n".
#include <algorithm>

#include "merge/export/exporter.h"
#include "merge/model/kernel_events.h"
#include "merge/report/folded_stacks.h"

namespace trapline {
namespace {

constexpr std::string_view kWeights[] = {"time", "count", "kernel", "user", "preempted", "blocked"};

class FoldedExporter final : public Exporter {
 public:
  FoldedExporter(const ExportOptions& options, std::size_t weight, OutputFile output)
      : kernel_(options.kernel), weight_(weight), output_(std::move(output)) {}

  [[nodiscard]] SpanClass selects() const override {
    return kernel_ ? SpanClass::kExits | SpanClass::kKernelParts : SpanClass::kExits;
  }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    any_ = true;
    if (kernel_) {
      kernel_stacks_.add(exit, *pipeline.kernel());
    } else {
      stacks_.add(exit, weight_of(exit), pipeline);
    }
  }

  [[nodiscard]] Result<void> finish(const Naming& names) override {
    const auto write = [this](const std::string& stack, std::uint64_t weight) {
      output_.write(fmt::format("{} {}\n", stack, weight));
    };
    if (kernel_) {
      const States known = names.pipeline.exits().model().known_states();
      if (!known[static_cast<std::size_t>(State::kKernel)]) {
        return fail(ErrorKind::kUsage,
                    "--kernel: the kernel's time in exits was not recorded; record {}",
                    events::kvm_exit.full_name);
      }
      kernel_stacks_.each(names, write);
    } else {
      stacks_.each(names, [&write](const std::string& stack, std::uint64_t weight) {
        if (weight != 0) write(stack, weight);
      });
    }
    return output_.commit();
  }
  [[nodiscard]] bool failed() const override { return output_.failed(); }
  [[nodiscard]] bool is_empty(const Naming&) const override { return !any_; }

 private:
  [[nodiscard]] std::uint64_t weight_of(const ExitSpan& exit) const {
    if (weight_ == 0) return exit.total();
    return weight_ == 1 ? 1 : exit.parts[weight_ - 2];
  }

  bool kernel_, any_ = false;
  std::size_t weight_;
  OutputFile output_;
  ExitStacks stacks_{std::size_t{1} << 18};
  KernelStacks kernel_stacks_{std::size_t{1} << 18};
};

}  // namespace

Result<std::unique_ptr<Exporter>> make_folded(const ExportContext&, const ExportOptions& options) {
  const auto weight = std::find(std::begin(kWeights), std::end(kWeights), options.weight);
  if (weight == std::end(kWeights)) {
    return fail(ErrorKind::kUsage, "--weight: unknown '{}'; there are {}", options.weight,
                kWeightValues);
  }
  auto output = OutputFile::create(options.output, options.force);
  if (!output) return tl::unexpected(std::move(output).error());
  return std::make_unique<FoldedExporter>(
      options, static_cast<std::size_t>(weight - std::begin(kWeights)), std::move(*output));
}

}  // namespace trapline
