#include "merge/report/dimensions.h"

#include <array>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/wait_tracker.h"
#include "merge/report/report_data.h"

namespace trapline {

namespace {

// In the order of Dimension.
constexpr std::array<std::string_view, static_cast<std::size_t>(Dimension::kCount)> kNames = {
    "reason", "detail", "device", "qemu-event",   "function",   "stack",          "vcpu",
    "vm",     "cpu",    "nested", "preempted-by", "blocked-on", "kernel-function"};
constexpr Dimension kOfCalls[] = {Dimension::kFunction, Dimension::kStack, Dimension::kDevice,
                                  Dimension::kVmmEvent, Dimension::kVcpu,  Dimension::kVm};

Result<Dimension> parse_dimension(std::string_view name, std::string_view alone) {
  const auto* const known = std::ranges::find(kNames, name);
  if (known != kNames.end()) return static_cast<Dimension>(known - kNames.begin());
  const auto near = nearest(name, kNames);
  return fail(ErrorKind::kUsage, "--by: unknown '{}'; {}there are {}{}", name,
              near.empty() ? std::string() : fmt::format("did you mean '{}'? ", near),
              dimension_names(),
              alone.empty() ? std::string() : fmt::format(", and {} alone", alone));
}

}  // namespace

Result<void> check_dimensions_of_calls(const std::vector<Dimension>& dimensions) {
  for (const Dimension dimension : dimensions) {
    if (std::ranges::find(kOfCalls, dimension) != std::end(kOfCalls)) continue;
    return fail(ErrorKind::kUsage,
                "--by: '{}' is of VM exits, and this recording has none; calls of guest functions "
                "have function, stack, device, qemu-event, vcpu and vm",
                name_of(dimension));
  }
  return {};
}

std::string_view name_of(Dimension dimension) {
  return kNames[static_cast<std::size_t>(dimension)];
}

std::string dimension_names() { return fmt::format("{}", fmt::join(kNames, ", ")); }

std::string shown_key(std::string_view key, std::string_view by) {
  constexpr std::string_view kBetween = " / ";
  std::string text;
  for (const std::string_view dimension : split(by, ',')) {
    const std::string_view part = key.substr(0, key.find(kBetween));
    const bool is_wait = dimension == "preempted-by" || dimension == "blocked-on";
    if (!text.empty()) text += kBetween;
    text += part != "-"             ? part
            : is_wait               ? "no wait"
            : dimension == "device" ? "no device"
                                    : "not known";
    if (part.size() == key.size()) return text;
    key.remove_prefix(part.size() + kBetween.size());
  }
  return text.append(kBetween).append(key);
}

Result<std::vector<Dimension>> parse_dimensions(std::string_view text, std::string_view alone) {
  std::vector<Dimension> dimensions;
  for (const std::string_view name : split(text, ',')) {
    auto dimension = parse_dimension(trimmed(name), alone);
    if (!dimension) return tl::unexpected(std::move(dimension).error());
    if (std::find(dimensions.begin(), dimensions.end(), *dimension) != dimensions.end())
      return fail(ErrorKind::kUsage, "--by: '{}' is named twice", name);
    dimensions.push_back(*dimension);
  }
  return dimensions;
}

namespace {

ExitReason unpack_reason(std::uint64_t word) {
  return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word >> 16) & 0xffff,
          static_cast<std::uint32_t>(word) >> 8 & 0xff};
}
std::uint64_t pack_kind(const KvmDetail& detail) {
  return std::uint64_t{static_cast<std::uint8_t>(detail.kind)} << 8 |
         static_cast<std::uint8_t>(detail.access);
}
KvmDetail unpack_detail(std::uint64_t value, std::uint64_t kind) {
  return {value, 0, static_cast<DetailKind>(kind >> 8), static_cast<Access>(kind & 0xff), false};
}

// Returns the culprit with most of the waiting in `part`, packed; kNoCulprit without any waiting.
std::uint64_t pack_largest(std::span<const WaitShare> waits, Part part) {
  const LargestCulprit most = largest(waits, part);
  return most.ns == 0 ? kNoCulprit : pack(most.culprit);
}

// Returns the first word of an exit's key in the dimension; a detail's kind is a second word.
std::uint64_t word_of(Dimension dimension, const ExitSpan& span, StackId stack,
                      const GuestStacks& stacks, std::span<const WaitShare> waits,
                      const KernelTracker* kernel) {
  switch (dimension) {
    case Dimension::kReason:
      return packed(span.reason, span.source);
    case Dimension::kDetail:  // page faults share a row: there are too many addresses
      return span.detail.kind == DetailKind::kPageFault ? 0 : span.detail.value;
    case Dimension::kDevice:
      return span.device;
    case Dimension::kVmmEvent:
      return span.vmm_event;
    case Dimension::kFunction:
      return stacks.innermost(stack);
    case Dimension::kStack:
      return stack;
    case Dimension::kVcpu:
    case Dimension::kVm:
      return static_cast<std::uint32_t>(span.thread);
    case Dimension::kCpu:
      return span.cpu;
    case Dimension::kNested:
      return static_cast<std::uint64_t>(span.nested);
    case Dimension::kPreemptedBy:
      return pack_largest(waits, Part::kPreempted);
    case Dimension::kBlockedOn:
      return pack_largest(waits, Part::kBlocked);
    case Dimension::kKernelFunction:
      return kernel == nullptr ? kNoName : kernel->function();
    case Dimension::kCount:
      break;
  }
  return 0;
}

std::uint64_t word_of(Dimension dimension, const FunctionCall& call, const GuestStacks& stacks) {
  if (dimension == Dimension::kDevice)
    return call.own.several_devices ? ExitKeys::kSeveralDevices : call.own.device;
  if (dimension == Dimension::kVmmEvent) return call.own.vmm_event;
  if (dimension == Dimension::kFunction) return stacks.innermost(call.stack);
  if (dimension == Dimension::kStack) return call.stack;
  const bool by_thread = dimension == Dimension::kVcpu || dimension == Dimension::kVm;
  return by_thread ? static_cast<std::uint32_t>(call.thread) : 0;
}

}  // namespace

const GroupKey& ExitKeys::of_several(const ExitSpan& span, StackId stack, const GuestStacks& stacks,
                                     std::span<const WaitShare> waits,
                                     const KernelTracker* kernel) {
  if (const GroupKey* row = halted_row(span.halt)) return *row;
  std::size_t at = 0;
  for (const Dimension dimension : dimensions_) {
    key_.words[at++] = word_of(dimension, span, stack, stacks, waits, kernel);
    if (dimension == Dimension::kDetail) key_.words[at++] = pack_kind(span.detail);
  }
  return key_;
}

const GroupKey& ExitKeys::of(const FunctionCall& call, const GuestStacks& stacks) {
  std::size_t at = 0;
  for (const Dimension dimension : dimensions_) key_.words[at++] = word_of(dimension, call, stacks);
  return key_;
}

GroupKey ExitKeys::part_of(const GroupKey& cell, const std::vector<Dimension>& all,
                           const GuestStacks& stacks) const {
  if (const GroupKey* row = halted_row(cell.halted)) return *row;
  GroupKey key;
  std::size_t to = 0;
  for (const Dimension dimension : dimensions_) {
    auto end = std::ranges::find(all, dimension);
    const bool by_stack = end == all.end() && dimension == Dimension::kFunction;
    if (end == all.end())
      end = std::ranges::find(all, by_stack ? Dimension::kStack : Dimension::kVcpu);
    const bool after_detail = std::find(all.begin(), end, Dimension::kDetail) != end;
    const std::size_t from = static_cast<std::size_t>(end - all.begin()) + (after_detail ? 1 : 0);
    const std::uint64_t word = cell.words[from];
    key.words[to++] = by_stack ? stacks.innermost(static_cast<StackId>(word)) : word;
    if (dimension == Dimension::kDetail) key.words[to++] = cell.words[from + 1];
  }
  return key;
}

std::string ExitKeys::text(const GroupKey& key, const Naming& names) const {
  if (key.halted && !by_reason_) return std::string(ReportData::kHaltedKey);
  std::size_t at = 0;
  const auto next = [&](Dimension dimension) -> std::string {
    const std::uint64_t word = key.words[at++];
    const ThreadId thread{static_cast<std::int32_t>(word)};
    switch (dimension) {
      case Dimension::kReason:
        return printable(names.timeline.source(word & 0xff).reason_name(unpack_reason(word)));
      case Dimension::kDetail: {
        const KvmDetail detail = unpack_detail(word, key.words[at++]);
        return detail.kind == DetailKind::kPageFault ? std::string(ReportData::kFaultKey)
                                                     : detail_text(detail);
      }
      case Dimension::kDevice:
      case Dimension::kVmmEvent:
        return word == kSeveralDevices ? "[several]"
                                       : name_or_dash(names.names, static_cast<NameId>(word));
      case Dimension::kFunction:
      case Dimension::kKernelFunction:
        return name_or_dash(names.names, static_cast<NameId>(word));
      case Dimension::kStack:
        return printable(names.pipeline.stacks().text(static_cast<StackId>(word)));
      case Dimension::kVcpu:
        return names.vcpus.vcpu(thread, !has(Dimension::kVm));
      case Dimension::kVm:
        return names.vcpus.vm(thread);
      case Dimension::kCpu:
        return fmt::format("host CPU {}", word);
      case Dimension::kNested:
        return std::string(nested_text(static_cast<NestedLevel>(word)));
      case Dimension::kPreemptedBy:
      case Dimension::kBlockedOn:
        return word == kNoCulprit ? "-" : names.text(unpack_culprit(word));
      case Dimension::kCount:
        break;
    }
    return {};
  };
  std::string text;
  for (const Dimension dimension : dimensions_) {
    if (at != 0) text += " / ";
    text += next(dimension);
  }
  return text;
}

}  // namespace trapline
