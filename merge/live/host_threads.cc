#include "merge/live/host_threads.h"

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/record/vm_names.h"

namespace trapline::live {
namespace {

// The process of a thread; 0 for one that has ended.
std::int32_t process_of(ThreadId thread) {
  const auto status = read_text(fmt::format("/proc/{}/status", static_cast<std::int32_t>(thread)));
  const auto at = status ? status->find("\nTgid:") : std::string::npos;
  if (at == std::string::npos) return 0;
  const std::string_view rest = std::string_view(*status).substr(at + 6);
  return static_cast<std::int32_t>(
      parse_number(trimmed(rest.substr(0, rest.find('\n')))).value_or(0));
}

}  // namespace

void HostThreads::look_at(std::span<const ThreadId> threads) {
  for (const ThreadId thread : threads) {
    if (threads_.contains(thread) || threads_.size() >= kMost) continue;
    const std::int32_t process = process_of(thread);
    if (process == 0) continue;
    threads_[thread] = ThreadId{process};
    (void)comm(thread);
    if (vm_names_.contains(ThreadId{process})) continue;
    vm_names_[ThreadId{process}] = record::vm_name_of(record::command_line_of(process));
  }
}

const std::string& HostThreads::comm(ThreadId thread) const {
  static const std::string kNone, kIdle = "idle";
  if (thread == ThreadId{0}) return kIdle;
  const auto known = comms_.find(thread);
  if (known != comms_.end()) return known->second;
  if (comms_.size() >= kMost) return kNone;
  const auto text = read_text(fmt::format("/proc/{}/comm", static_cast<std::int32_t>(thread)));
  return comms_[thread] = text ? printable(trimmed(*text)) : "";
}

std::string HostThreads::cmdlines() const {
  std::string text;
  for (const auto& [thread, name] : comms_) {
    if (!name.empty()) text += fmt::format("{} {}\n", static_cast<std::int32_t>(thread), name);
  }
  return text;
}

}  // namespace trapline::live
