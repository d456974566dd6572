#include "merge/record/trace_dat_writer.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "backend_ftrace/base/text_file.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;
using namespace std::literals;

// Numbers are in the byte order of the machine, which the header names.
template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

Result<void> put_sized(std::string& out, const std::string& path) {
  auto text = read_text(path);
  if (!text) return tl::unexpected(std::move(text).error());
  put(out, static_cast<std::uint64_t>(text->size()));
  out += *text;
  return {};
}

Result<void> put_formats(std::string& out, const std::string& events,
                         const std::vector<std::string>& names) {
  put(out, static_cast<std::uint32_t>(names.size()));
  for (const std::string& name : names) {
    if (auto done = put_sized(out, events + "/" + name + "/format"); !done) return done;
  }
  return {};
}

// events/ftrace: the formats of markers and of what ftrace itself writes.
std::vector<std::string> ftrace_names(const std::string& events) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(events + "/ftrace", error)) {
    if (fs::exists(entry.path() / "format", error)) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Text symbols only: data symbols are half of it, and no event's address is one. None at all where
// the kernel hides addresses (kptr_restrict).
// Read block by block: the whole of it would be most of the recorder's memory.
std::string text_symbols() {
  std::ifstream file("/proc/kallsyms");
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    const auto blank = line.find(' ');
    if (blank == std::string::npos || blank + 1 >= line.size()) continue;
    if ("tTwW"sv.find(line[blank + 1]) == std::string_view::npos) continue;
    if (line.find_first_not_of('0') == blank) continue;
    kept += line;
    kept += '\n';
  }
  return kept;
}

void put_text(std::string& out, const std::string& text) {
  put(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

}  // namespace

Result<std::string> trace_dat_head(const std::string& tracefs, const std::vector<EventName>& events,
                                   std::size_t page_size) {
  const std::string folder = tracefs + "/events";
  std::string head = "\x17\x08\x44tracing6"s + '\0';
  head.push_back(std::endian::native == std::endian::little ? '\0' : '\1');
  head.push_back(static_cast<char>(sizeof(long)));
  put(head, static_cast<std::uint32_t>(page_size));
  head += "header_page\0"sv;
  if (auto done = put_sized(head, folder + "/header_page"); !done) {
    return tl::unexpected(std::move(done).error());
  }
  head += "header_event\0"sv;
  if (auto done = put_sized(head, folder + "/header_event"); !done) {
    return tl::unexpected(std::move(done).error());
  }
  if (auto done = put_formats(head, folder + "/ftrace", ftrace_names(folder)); !done) {
    return tl::unexpected(std::move(done).error());
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> systems;
  for (const EventName& event : events) {
    if (systems.empty() || systems.back().first != event.system)
      systems.push_back({event.system, {}});
    systems.back().second.push_back(event.name);
  }
  put(head, static_cast<std::uint32_t>(systems.size()));
  for (const auto& [system, names] : systems) {
    head += system;
    head.push_back('\0');
    if (auto done = put_formats(head, folder + "/" + system, names); !done) {
      return tl::unexpected(std::move(done).error());
    }
  }
  put_text(head, text_symbols());
  put_text(head, read_text(tracefs + "/printk_formats").value_or(""));
  return head;
}

}  // namespace trapline::record
