#include "merge/report/folded_stacks.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/report/grouping.h"

namespace trapline {

std::string folded_frame(std::string_view name) {
  std::string text = printable(name);
  std::replace(text.begin(), text.end(), ';', ',');
  return text;
}

void ExitStacks::add(const ExitSpan& exit, std::uint64_t weight, const Pipeline& pipeline) {
  const Key key{pipeline.stack_of(exit),     exit.source, exit.reason.isa, exit.reason.reason,
                exit.reason.exception_class, exit.device};
  bounded(weights_, key, most_, other_) += weight;
}

void ExitStacks::each(const Naming& names,
                      const std::function<void(const std::string&, std::uint64_t)>& take) const {
  for (const auto& [key, weight] : weights_) {
    const auto& [stack, source, isa, reason, exception_class, device] = key;
    std::string text;
    if (stack != kNoStack) text = printable(names.pipeline.stacks().text(stack)) + ';';
    text += folded_frame(names.timeline.source(source).reason_name({reason, isa, exception_class}));
    if (device != kNoName) text += ';' + folded_frame(names.names[device]);
    take(text, weight);
  }
  take("[other]", other_);
}

void KernelStacks::add(const ExitSpan& exit, const KernelTracker& kernel) {
  for (const KernelShare& share : kernel.shares()) {
    const Key key{exit.source, exit.reason, share.stack, share.work, share.name};
    bounded(ns_, key, most_, other_) += share.ns;
  }
}

void KernelStacks::each(const Naming& names,
                        const std::function<void(const std::string&, std::uint64_t)>& take) const {
  const KernelTracker* kernel = names.pipeline.kernel();
  const auto text_of = [&](KernelWork work, NameId name) {
    return ';' + folded_frame(kernel_work_text(work, names.names[name]));
  };
  for (const auto& [key, ns] : ns_) {
    const auto& [source, reason, stack, work, name] = key;
    std::string inside = stack == 0 ? text_of(work, name) : std::string();
    for (KernelStackId at = stack; at != 0; at = kernel->frame(at).parent)
      inside.insert(0, text_of(kernel->frame(at).work, kernel->frame(at).name));
    take(folded_frame(names.timeline.source(source).reason_name(reason)) + inside, ns);
  }
  if (other_ != 0) take("[other]", other_);
}

void FoldedStacks::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  exits_ = true;
  causes_.add(exit, exit.total(), pipeline);
}

void FoldedStacks::call(const FunctionCall& call, const Pipeline&) {
  own_[call.stack].add(call.own);
}

FoldedTimes FoldedStacks::take(const Naming& names) const {
  const Pipeline& pipeline = names.pipeline;
  constexpr std::size_t kMostText = 64u << 20;
  FoldedTimes times;
  std::size_t size = 0;
  const auto add = [&](const std::string& stack, std::uint64_t ns) {
    if (ns == 0) return;
    const auto [place, is_new] = times.try_emplace(size < kMostText ? stack : "[other]", 0);
    place->second += ns;
    if (is_new) size += stack.size();
  };
  for (const auto& [stack, own] : own_) {
    const std::string text = printable(pipeline.stacks().text(stack));
    add(text, own.guest_ns);
    // With exits, causes_ shows the rest of the time by exit. Otherwise it is shown by part.
    for (std::size_t i = 0; i < kParts && !exits_; ++i) {
      const std::string_view part = static_cast<Part>(i) == Part::kUser ? "devices" : kPartNames[i];
      add(fmt::format("{};[{}]", text, part), own.parts[i]);
    }
  }
  causes_.each(names, add);
  return times;
}

std::vector<FoldedDifference> folded_difference(const std::vector<FoldedTimes>& before,
                                                const std::vector<FoldedTimes>& after) {
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> sums;
  for (const FoldedTimes& times : before)
    for (const auto& [stack, ns] : times) sums[stack].first += ns;
  for (const FoldedTimes& times : after) {
    for (const auto& [stack, ns] : times) sums[stack].second += ns;
  }
  std::vector<FoldedDifference> all;
  for (const auto& [stack, sum] : sums) {
    all.push_back({stack, sum.first / std::max<std::size_t>(1, before.size()),
                   sum.second / std::max<std::size_t>(1, after.size())});
  }
  return all;
}

}  // namespace trapline
