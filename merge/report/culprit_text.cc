#include "merge/report/culprit_text.h"

#include <fmt/format.h>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

// Names::kMost fits in 16 bits.
constexpr unsigned kKindAt = 56, kMissingAt = 48, kHandlerAt = 32;

std::string unknown_text(Missing missing) {
  switch (missing) {
    case Missing::kSwitches:
      return "unknown (before the CPU's first sched:sched_switch)";
    case Missing::kWakeups:
      return "unknown (record sched:sched_waking)";
    case Missing::kMigrations:
      return "unknown (record sched:sched_migrate_task)";
    case Missing::kContext:
      return "unknown interrupt (record irq:irq_handler_entry, irq:irq_handler_exit, "
             "timer:hrtimer_expire_entry, timer:hrtimer_expire_exit)";
    case Missing::kLost:
      return "unknown (events were lost)";
    case Missing::kRoom:
      return "unknown (more than is kept)";
    case Missing::kNone:
      break;
  }
  return "unknown";
}

std::string comm_of(const Timeline& timeline, ThreadId thread) {
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    if (timeline.source(i).info().role != Role::kHostKernel) continue;
    std::string comm = timeline.source(i).comm(thread);
    if (!comm.empty()) return printable(comm);
  }
  return {};
}

}  // namespace

std::uint64_t pack(const Culprit& culprit) {
  const bool is_line = culprit.kind == CulpritKind::kInterrupt;
  const std::uint32_t low = is_line ? culprit.number : static_cast<std::uint32_t>(culprit.thread);
  return std::uint64_t{static_cast<std::uint8_t>(culprit.kind)} << kKindAt |
         std::uint64_t{static_cast<std::uint8_t>(culprit.missing)} << kMissingAt |
         std::uint64_t{culprit.handler & 0xffff} << kHandlerAt | low;
}

Culprit unpack_culprit(std::uint64_t word) {
  Culprit culprit;
  culprit.kind = static_cast<CulpritKind>(word >> kKindAt);
  culprit.missing = static_cast<Missing>(word >> kMissingAt & 0xff);
  culprit.handler = static_cast<NameId>(word >> kHandlerAt & 0xffff);
  const auto low = static_cast<std::uint32_t>(word);
  if (culprit.kind == CulpritKind::kInterrupt) {
    culprit.number = low;
  } else {
    culprit.thread = ThreadId{static_cast<std::int32_t>(low)};
  }
  return culprit;
}

std::string CulpritNames::vm(ThreadId thread) const {
  if (is_vcpu(thread)) return vcpus.vm_id(thread);
  const ThreadId process = processes.of(thread, ThreadId{});
  if (process == ThreadId{}) return {};
  const std::string name = std::to_string(static_cast<std::int32_t>(process));
  return vcpus.vm_of(name) != nullptr ? name : std::string();
}

std::string CulpritNames::text(const Culprit& culprit) const {
  switch (culprit.kind) {
    case CulpritKind::kIdle:
      return "idle";
    case CulpritKind::kTimer:
      return "timer";
    case CulpritKind::kInterrupt:
      return fmt::format("interrupt {}", culprit.number);
    case CulpritKind::kDisk:
      return "disk";
    case CulpritKind::kIpi:
      return "IPI from " + vcpus.vcpu(culprit.thread, true);
    case CulpritKind::kUnknown:
      return unknown_text(culprit.missing);
    case CulpritKind::kThread:
      break;
  }
  std::string text;
  if (is_vcpu(culprit.thread)) {
    text = vcpus.vcpu(culprit.thread, true);
  } else {
    const std::string comm = comm_of(timeline, culprit.thread);
    const auto tid = static_cast<std::int32_t>(culprit.thread);
    text = comm.empty() ? fmt::format("tid {}", tid) : fmt::format("{} (tid {})", comm, tid);
    if (!vm(culprit.thread).empty()) text = "QEMU thread " + text;
  }
  if (culprit.handler != kNoName)
    text += fmt::format(" (in {})", printable(names[culprit.handler]));
  return text;
}

}  // namespace trapline
