#include "merge/record/trace_dat_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/base/trace_dat_magic.h"
#include "merge/source/kernel_events/event_texts.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;
using namespace std::literals;

Result<void> put_sized(std::string& out, const std::string& path) {
  auto text = read_text(path);
  if (!text) return tl::unexpected(std::move(text).error());
  append(out, static_cast<std::uint64_t>(text->size()));
  out += *text;
  return {};
}

Result<void> put_formats(std::string& out, const std::string& events,
                         const std::vector<std::string>& names) {
  append(out, static_cast<std::uint32_t>(names.size()));
  for (const std::string& name : names)
    if (auto done = put_sized(out, events + "/" + name + "/format"); !done) return done;
  return {};
}

// Returns the events in events/ftrace: the formats of markers and of what ftrace itself writes.
std::vector<std::string> ftrace_names(const std::string& events) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(events + "/ftrace", error))
    if (fs::exists(entry.path() / "format", error)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// Returns whether the line is the markers' function, "ffffffff8149aa90 t tracing_mark_write",
// possibly with a suffix from the compiler such as ".isra.0".
bool is_markers(std::string_view line) {
  constexpr std::string_view kName = " tracing_mark_write";
  const auto at = line.find(kName);
  if (at == std::string_view::npos) return false;
  const std::string_view rest = line.substr(at + kName.size());
  return rest.empty() || rest.front() == '.';
}

// Writes the symbols line by line into their place: all of them in memory would be most of the
// recorder's memory.
void put_symbols(std::string& out, bool all) {
  const std::size_t at = out.size();
  append(out, std::uint32_t{0});
  std::ifstream lines("/proc/kallsyms");
  append_text_symbols(lines, all, out);
  const auto size = static_cast<std::uint32_t>(out.size() - at - sizeof(std::uint32_t));
  std::memcpy(out.data() + at, &size, sizeof size);
}

void put_text(std::string& out, const std::string& text) {
  append(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

}  // namespace

// Skips data symbols: they are half of all, and no event has the address of one. Unless `all` is
// set, stops after the function that writes markers.
void append_text_symbols(std::istream& lines, bool all, std::string& out) {
  // The symbol after the markers' function shows where that function ends.
  bool is_next_last = false;
  for (std::string line; std::getline(lines, line);) {
    const auto blank = line.find(' ');
    if (blank == std::string::npos || blank + 1 >= line.size()) continue;
    if ("tTwW"sv.find(line[blank + 1]) == std::string_view::npos) continue;
    if (line.find_first_not_of('0') == blank) continue;
    out += line;
    out += '\n';
    if (is_next_last) return;
    is_next_last = !all && is_markers(line);
  }
}

Result<std::string> trace_dat_head(const std::string& tracefs, const std::vector<EventName>& events,
                                   std::size_t page_size, TextSymbols symbols) {
  const std::string folder = tracefs + "/events";
  std::string head = std::string(kTraceDatMagic) + "6\0"s;
  head.push_back(std::endian::native == std::endian::little ? '\0' : '\1');
  head.push_back(static_cast<char>(sizeof(long)));
  append(head, static_cast<std::uint32_t>(page_size));
  Result<void> done;
  for (const std::string& title : {"header_page"s, "header_event"s}) {
    head += title + '\0';
    if (done) done = put_sized(head, folder + "/" + title);
  }
  if (done) done = put_formats(head, folder + "/ftrace", ftrace_names(folder));
  std::vector<std::pair<std::string, std::vector<std::string>>> systems;
  for (const EventName& event : events) {
    if (systems.empty() || systems.back().first != event.system)
      systems.push_back({event.system, {}});
    systems.back().second.push_back(event.name);
  }
  const std::size_t formats = head.size();
  append(head, static_cast<std::uint32_t>(systems.size()));
  for (const auto& [system, names] : systems) {
    head += system;
    head.push_back('\0');
    if (done) done = put_formats(head, folder + "/" + system, names);
  }
  if (!done) return tl::unexpected(std::move(done).error());
  put_symbols(head, symbols == TextSymbols::kAll ||
                        kernel_events::prints_symbols(std::string_view(head).substr(formats)));
  put_text(head, read_text(tracefs + "/printk_formats").value_or(""));
  return head;
}

}  // namespace trapline::record
