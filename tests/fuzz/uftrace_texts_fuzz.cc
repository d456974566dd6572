// The text files of a uftrace directory, in memory: info with its argument specifications,
// task.txt, a map, kernel_header. The first byte chooses. What is written of them is read the same.
#include "merge/source/uftrace/kernel_functions.h"
#include "merge/source/uftrace/sync_file.h"
#include "merge/source/uftrace/values.h"
#include "plugin/format/info.h"
#include "plugin/format/map.h"
#include "plugin/format/task.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"

namespace {

using namespace trapline;

// The values follow a zero byte at the end of the file.
void read_info(std::string_view input) {
  const std::size_t end = std::min(input.rfind('\0'), input.size());
  const auto info = parse_info(input.substr(0, end), "info");
  if (!info) return;
  const auto again = parse_info(format_info(*info), "info");
  fuzz::hold(again && again->tids == info->tids, "info is not read as it was written");
  (void)clock_option(info->cmdline);
  UftraceValues values(*info);
  const std::string_view left = input.substr(std::min(end + 1, input.size()));
  const auto bytes = std::as_bytes(std::span(left));
  for (const char* function : {"main", "open", "f", "a::b"}) {
    for (const bool is_return : {false, true}) {
      const std::size_t size = values.size(function, is_return, bytes);
      fuzz::hold(size <= bytes.size(), "a payload is longer than its bytes");
      (void)values.text(function, is_return, bytes);
    }
  }
}

void read_tasks(std::string_view input) {
  const auto tasks = parse_task_file(input, "task.txt");
  if (!tasks) return;
  std::string text;
  for (const SessionLine& line : tasks->sessions) text += format_line(line);
  for (const TaskLine& line : tasks->tasks) text += format_line(line);
  const auto again = parse_task_file(text, "task.txt");
  fuzz::hold(again && again->tasks.size() == tasks->tasks.size() &&
                 again->sessions.size() == tasks->sessions.size(),
             "task.txt is not read as it was written");
}

void read_map(std::string_view input) {
  const auto map = parse_map(input, "map");
  if (!map) return;
  const auto again = parse_map(format_map(*map), "map");
  fuzz::hold(again && again->size() == map->size(), "a map is not read as it was written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input = fuzz::text_of(data, size).substr(1);
  fuzz::bounded(size, [&] {
    switch (data[0] % 4) {
      case 0:
        return read_info(input);
      case 1:
        return read_tasks(input);
      case 2:
        return read_map(input);
      default:
        (void)KernelFormat::parse("fuzz", input);
    }
  });
  return 0;
}
