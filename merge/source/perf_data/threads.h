// The names and processes of threads, from perf's COMM and FORK records. perf writes them for all
// threads that exist when it starts and for each one that is created or renamed later.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/text.h"
#include "merge/model/processes.h"
#include "merge/source/perf_data/record_reader.h"

namespace trapline::perf_data {

struct Fork {
  ThreadId process{}, thread{}, parent{};
  bool same_process = false;  // in the same process as its parent
};

[[nodiscard]] inline std::optional<Fork> parse_fork(std::span<const std::byte> record) {
  ByteCursor cursor(record);
  (void)cursor.take(kRecordHeader);
  const auto number = [&cursor] {
    return static_cast<std::int32_t>(cursor.number<std::uint32_t>().value_or(0));
  };
  const std::int32_t pid = number(), ppid = number(), tid = number(), ptid = number();
  if (cursor.failed()) return std::nullopt;
  return Fork{ThreadId{pid}, ThreadId{tid}, ThreadId{ptid}, pid == ppid};
}

class Threads {
 public:
  static constexpr std::size_t kMost = 1u << 18;

  void on_comm(std::span<const std::byte> record) {
    ByteCursor cursor(record);
    (void)cursor.take(kRecordHeader + 4);
    const auto thread = cursor.number<std::uint32_t>();
    const auto name = cursor.c_string();
    if (name) set_name(ThreadId{static_cast<std::int32_t>(*thread)}, *name);
  }
  // A new thread has its parent's name.
  void on_fork(const Fork& fork) {
    processes_.set(fork.thread, fork.process);
    const auto parent = names_.find(fork.parent);
    if (parent != names_.end() && names_.size() < kMost)
      names_.try_emplace(fork.thread, std::string(parent->second));
  }
  [[nodiscard]] std::string name_of(ThreadId thread) const {
    const auto found = names_.find(thread);
    return found == names_.end() ? std::string() : found->second;
  }
  [[nodiscard]] const Processes& processes() const { return processes_; }

 private:
  void set_name(ThreadId thread, std::string_view name) {
    constexpr std::size_t kLongest = 64;
    const auto found = names_.find(thread);
    if (found == names_.end() && names_.size() >= kMost) return;
    names_[thread] = printable(name.substr(0, kLongest));
  }

  std::unordered_map<ThreadId, std::string> names_;
  Processes processes_;
};

}  // namespace trapline::perf_data
