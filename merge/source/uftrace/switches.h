// perf-cpu<N>.dat of a uftrace data directory: when its tasks were scheduled out and in.
//
// Records as perf_event_open(2) has them: u32 type, u16 misc, u16 size, then the fields. SWITCH
// (type 14, 24 bytes: u32 pid, u32 tid, u64 time; misc 0x2000 out, 0x4000 pre-empted) is read,
// others are passed over. Times are of the directory's clock. What is no record ends the file and
// counts as damaged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "merge/source/file.h"

namespace trapline {

struct TaskSwitch {
  std::uint64_t time = 0;
  std::uint32_t tid = 0;
  std::int32_t cpu = 0;  // of the file's name
  bool out = false, preempted = false;
};

// The files of the directory like perf-cpu12.dat that hold something, in the order of their names,
// each with its CPU.
[[nodiscard]] Result<std::vector<std::pair<File, std::int32_t>>> open_cpu_files(
    const std::string& directory, std::string_view before);

// Where each task was before its first change, if that was leaving a CPU.
[[nodiscard]] Result<std::map<std::uint32_t, std::int32_t>> first_cpus(
    const std::string& directory);

class SwitchReader {
 public:
  // The files of the directory, in the order of their names.
  [[nodiscard]] static Result<std::vector<SwitchReader>> open_all(const std::string& directory);

  [[nodiscard]] Result<std::optional<TaskSwitch>> next();
  // Whether the file ended in something that is no record.
  [[nodiscard]] bool damaged() const { return damaged_; }
  [[nodiscard]] std::uint64_t size() const { return file_.size(); }

 private:
  SwitchReader(File file, std::int32_t cpu) : file_(std::move(file)), cpu_(cpu) {}
  // The `size` bytes at at_, or nullptr where the file ends before.
  [[nodiscard]] Result<const std::byte*> peek(std::size_t size);

  File file_;
  std::int32_t cpu_;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_start_ = 0, at_ = 0, last_ = 0;
  bool damaged_ = false;
};

}  // namespace trapline
