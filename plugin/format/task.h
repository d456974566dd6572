// task.txt of a uftrace data directory: which processes (sessions) and tasks there were and when
// they began. One line each, in order of time; a SESS line comes before the TASK lines of its
// process. docs/formats/uftrace.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"

namespace trapline {

struct SessionLine {
  std::uint64_t time = 0;  // ns
  std::uint32_t pid = 0;
  std::string sid;
  std::string exename;  // its basename, cut to 15 characters, is what uftrace calls the task
};
struct TaskLine {
  std::uint64_t time = 0;
  std::uint32_t tid = 0;
  std::uint32_t pid = 0;
};
struct ForkLine {
  std::uint64_t time = 0;
  std::uint32_t pid = 0;  // the child
  std::uint32_t ppid = 0;
};
struct LibraryLine {  // dlopen()
  std::uint64_t time = 0;
  std::uint32_t tid = 0;
  std::string sid;
  std::uint64_t base = 0;
  std::string path;
};

struct TaskFile {
  std::vector<SessionLine> sessions;
  std::vector<TaskLine> tasks;
  std::vector<ForkLine> forks;
  std::vector<LibraryLine> libraries;
};

[[nodiscard]] std::string format_line(const SessionLine& line);
[[nodiscard]] std::string format_line(const TaskLine& line);
[[nodiscard]] std::string format_line(const ForkLine& line);

// A last line without its line end is a cut-off file: it is dropped. Unknown kinds of lines are
// passed over; a line of a known kind that lacks a field is an error with its number.
[[nodiscard]] Result<TaskFile> parse_task_file(std::string_view file, const std::string& path);

}  // namespace trapline
