// Reads trace-events files from disk and compares several of them.
#include <fmt/format.h>

#include <unordered_map>

#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/tracetool/trace_events.h"

namespace trapline::tracetool {

std::string Diagnostic::text() const {
  return fmt::format("{}:{}:{}: error: {}", file, line, column, message);
}

Result<std::string> read_trace_events_text(const std::string& path) {
  auto text = read_text(path, kMostText, TextFrom::kAnything);
  if (!text) {
    return fail(text.error().kind,
                "{}; give a trace-events file, such as the trace-events-all that QEMU installs in "
                "/usr/share/qemu",
                text.error().message);
  }
  return text;
}

Result<EventFile> read_trace_events(const std::string& path) {
  const auto text = read_trace_events_text(path);
  if (!text) return tl::unexpected(text.error());
  return parse_trace_events(*text, path);
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
