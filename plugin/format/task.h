// task.txt of a uftrace data directory: the processes (sessions) and tasks of a recording and when
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
  std::string exename;  // uftrace names the task by the basename, cut to 15 characters
};
struct TaskLine {
  std::uint64_t time = 0;
  std::uint32_t tid = 0;
  std::uint32_t pid = 0;
};
struct ForkLine {
  std::uint64_t time = 0;
  std::uint32_t pid = 0;  // the child process
  std::uint32_t ppid = 0;
};
struct LibraryLine {  // a library that dlopen() loaded
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

// Parses a file. Drops a last line without a line end, since the file was cut off there, and skips
// unknown kinds of lines. A line of a known kind without a required field is an error that gives
// the line's number.
[[nodiscard]] Result<TaskFile> parse_task_file(std::string_view file, const std::string& path);

}  // namespace trapline
