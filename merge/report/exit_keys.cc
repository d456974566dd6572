#include "merge/report/exit_keys.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/report/exit_text.h"

namespace trapline {
namespace {

// A reason in one word; its three numbers are small.
std::uint64_t pack(const ExitReason& reason) {
  return std::uint64_t{reason.reason} << 32 | (std::uint64_t{reason.isa} & 0xffff) << 16 |
         (reason.exception_class & 0xffff);
}
ExitReason unpack_reason(std::uint64_t word) {
  return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word >> 16) & 0xffff,
          static_cast<std::uint32_t>(word) & 0xffff};
}
std::uint64_t pack_kind(const KvmDetail& detail) {
  return std::uint64_t{static_cast<std::uint8_t>(detail.kind)} << 8 |
         static_cast<std::uint8_t>(detail.access);
}
KvmDetail unpack_detail(std::uint64_t value, std::uint64_t kind) {
  return {value, 0, static_cast<DetailKind>(kind >> 8), static_cast<Access>(kind & 0xff), false};
}

}  // namespace

std::size_t ExitKeys::words() const {
  return dimensions_.size() + (has(Dimension::kDetail) ? 1 : 0);
}

bool ExitKeys::has(Dimension dimension) const {
  return std::find(dimensions_.begin(), dimensions_.end(), dimension) != dimensions_.end();
}

GroupKey ExitKeys::of(const ExitSpan& span, StackId stack) const {
  GroupKey key;
  std::size_t at = 0;
  for (const Dimension dimension : dimensions_) {
    switch (dimension) {
      case Dimension::kReason:
        key.words[at++] = pack(span.reason);
        break;
      case Dimension::kDetail:
        key.words[at++] = span.detail.value;
        key.words[at++] = pack_kind(span.detail);
        break;
      case Dimension::kDevice:
        key.words[at++] = span.device;
        break;
      case Dimension::kQemuEvent:
        key.words[at++] = span.qemu_event;
        break;
      case Dimension::kFunction:
        key.words[at++] = stacks_.innermost(stack);
        break;
      case Dimension::kStack:
        key.words[at++] = stack;
        break;
      case Dimension::kVcpu:
      case Dimension::kVm:
        key.words[at++] = static_cast<std::uint32_t>(span.thread);
        break;
    }
  }
  return key;
}

std::string ExitKeys::text(const GroupKey& key, const Source& source,
                           const VcpuNames& vcpus) const {
  std::string text;
  std::size_t at = 0;
  for (const Dimension dimension : dimensions_) {
    if (at != 0) text += " / ";
    const std::uint64_t word = key.words[at++];
    const ThreadId thread{static_cast<std::int32_t>(word)};
    switch (dimension) {
      case Dimension::kReason:
        text += printable(reason_text(source, unpack_reason(word)));
        break;
      case Dimension::kDetail:
        text += detail_text(unpack_detail(word, key.words[at++]));
        break;
      case Dimension::kDevice:
      case Dimension::kQemuEvent:
        text += name_or_dash(names_, static_cast<NameId>(word));
        break;
      case Dimension::kFunction:
        text += function_text(names_, static_cast<NameId>(word));
        break;
      case Dimension::kStack:
        text += printable(stacks_.text(static_cast<StackId>(word)));
        break;
      case Dimension::kVcpu:
        text += vcpus.vcpu(thread, !has(Dimension::kVm));
        break;
      case Dimension::kVm:
        text += vcpus.vm(thread);
        break;
    }
  }
  return text;
}

}  // namespace trapline
