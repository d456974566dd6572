// Reading trace-events files from disk, and what concerns several of them.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "backend_ftrace/base/unique_fd.h"
#include "backend_ftrace/tracetool/trace_events.h"

namespace trapline::tracetool {

std::string Diagnostic::text() const {
  return fmt::format("{}:{}:{}: error: {}", file, line, column, message);
}

Result<EventFile> read_trace_events(const std::string& path) {
  std::string text;
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ssize_t got = file ? 1 : -1;
  for (std::size_t size = 0; got > 0;) {
    text.resize(size + (1u << 20));
    got = ::read(file.get(), text.data() + size, text.size() - size);
    size += got > 0 ? static_cast<std::size_t>(got) : 0;
    text.resize(size);
  }
  if (got < 0) {
    return fail(
        "{}: cannot be read: {}; give a trace-events file, such as the trace-events-all that "
        "QEMU installs in /usr/share/qemu",
        path, std::strerror(errno));
  }
  return parse_trace_events(text, path);
}

std::vector<Diagnostic> find_duplicates(std::span<const EventFile> files) {
  std::vector<Diagnostic> found;
  std::unordered_map<std::string_view, std::pair<const EventFile*, const Event*>> seen;
  for (const EventFile& file : files) {
    for (const Event& event : file.events) {
      const auto [first, is_new] = seen.try_emplace(event.name, &file, &event);
      if (is_new) continue;
      found.push_back({file.name, event.line, 1,
                       fmt::format("event '{}' is already declared at {}:{}", event.name,
                                   first->second.first->name, first->second.second->line)});
    }
  }
  return found;
}

}  // namespace trapline::tracetool
