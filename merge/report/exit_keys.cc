#include "merge/report/exit_keys.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/wait_tracker.h"
#include "merge/pass/exit_text.h"
#include "merge/report/report.h"

namespace trapline {
namespace {

// A reason in one word: its numbers are small. The source that names it is in the last byte.
std::uint64_t pack(const ExitReason& reason, std::uint16_t source) {
  return std::uint64_t{reason.reason} << 32 | (std::uint64_t{reason.isa} & 0xffff) << 16 |
         (reason.exception_class & 0xff) << 8 | (source & 0xff);
}
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

// The culprit of most of that part's time.
std::uint64_t pack_largest(std::span<const WaitShare> waits, Part part) {
  const LargestCulprit most = largest(waits, part);
  return most.ns == 0 ? kNoCulprit : pack(most.culprit);
}

}  // namespace

std::size_t ExitKeys::words() const {
  return dimensions_.size() + (has(Dimension::kDetail) ? 1 : 0);
}

bool ExitKeys::has(Dimension dimension) const {
  return std::find(dimensions_.begin(), dimensions_.end(), dimension) != dimensions_.end();
}

const GroupKey& ExitKeys::of(const ExitSpan& span, StackId stack, const GuestStacks& stacks,
                             std::span<const WaitShare> waits, const KernelTracker* kernel) {
  if (only_reason_) {
    key_.words[0] = pack(span.reason, span.source);
    return key_;
  }
  if (const GroupKey* row = halted_row(span.halt)) return *row;
  std::size_t at = 0;
  for (const Dimension dimension : dimensions_) {
    switch (dimension) {
      case Dimension::kReason:
        key_.words[at++] = pack(span.reason, span.source);
        break;
      case Dimension::kDetail:
        key_.words[at++] = span.detail.value;
        key_.words[at++] = pack_kind(span.detail);
        break;
      case Dimension::kDevice:
        key_.words[at++] = span.device;
        break;
      case Dimension::kVmmEvent:
        key_.words[at++] = span.vmm_event;
        break;
      case Dimension::kFunction:
        key_.words[at++] = stacks.innermost(stack);
        break;
      case Dimension::kStack:
        key_.words[at++] = stack;
        break;
      case Dimension::kVcpu:
      case Dimension::kVm:
        key_.words[at++] = static_cast<std::uint32_t>(span.thread);
        break;
      case Dimension::kCpu:
        key_.words[at++] = span.cpu;
        break;
      case Dimension::kNested:
        key_.words[at++] = static_cast<std::uint64_t>(span.nested);
        break;
      case Dimension::kPreemptedBy:
        key_.words[at++] = pack_largest(waits, Part::kPreempted);
        break;
      case Dimension::kBlockedOn:
        key_.words[at++] = pack_largest(waits, Part::kBlocked);
        break;
      case Dimension::kKernelFunction:
        key_.words[at++] = kernel == nullptr ? kNoName : kernel->function();
        break;
      case Dimension::kCount:
        break;
    }
  }
  return key_;
}

const GroupKey& ExitKeys::of(const FunctionCall& call, const GuestStacks& stacks) {
  std::size_t at = 0;
  for (const Dimension dimension : dimensions_) {
    switch (dimension) {
      case Dimension::kDevice:
        key_.words[at++] = call.own.several_devices ? kSeveralDevices : call.own.device;
        break;
      case Dimension::kVmmEvent:
        key_.words[at++] = call.own.vmm_event;
        break;
      case Dimension::kFunction:
        key_.words[at++] = stacks.innermost(call.stack);
        break;
      case Dimension::kStack:
        key_.words[at++] = call.stack;
        break;
      case Dimension::kVcpu:
      case Dimension::kVm:
        key_.words[at++] = static_cast<std::uint32_t>(call.thread);
        break;
      default:
        break;
    }
  }
  return key_;
}

std::string ExitKeys::text(const GroupKey& key, const Naming& names) const {
  if (key.halted && !by_reason_) return std::string(Report::kHaltedKey);
  std::string text;
  std::size_t at = 0;
  for (const Dimension dimension : dimensions_) {
    if (at != 0) text += " / ";
    const std::uint64_t word = key.words[at++];
    const ThreadId thread{static_cast<std::int32_t>(word)};
    switch (dimension) {
      case Dimension::kReason:
        text += printable(reason_text(names.timeline.source(word & 0xff), unpack_reason(word)));
        break;
      case Dimension::kDetail:
        text += detail_text(unpack_detail(word, key.words[at++]));
        break;
      case Dimension::kDevice:
      case Dimension::kVmmEvent:
        text += word == kSeveralDevices ? "[several]"
                                        : name_or_dash(names.names, static_cast<NameId>(word));
        break;
      case Dimension::kFunction:
      case Dimension::kKernelFunction:
        text += name_or_dash(names.names, static_cast<NameId>(word));
        break;
      case Dimension::kStack:
        text += printable(names.pipeline.stacks().text(static_cast<StackId>(word)));
        break;
      case Dimension::kVcpu:
        text += names.vcpus.vcpu(thread, !has(Dimension::kVm));
        break;
      case Dimension::kVm:
        text += names.vcpus.vm(thread);
        break;
      case Dimension::kCpu:
        text += fmt::format("host CPU {}", word);
        break;
      case Dimension::kNested:
        text += nested_text(static_cast<NestedLevel>(word));
        break;
      case Dimension::kPreemptedBy:
      case Dimension::kBlockedOn:
        text += word == kNoCulprit ? "-" : names.text(unpack_culprit(word));
        break;
      case Dimension::kCount:
        break;
    }
  }
  return text;
}

}  // namespace trapline
