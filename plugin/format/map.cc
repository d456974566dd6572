#include "plugin/format/map.h"

#include "backend_ftrace/base/text.h"

namespace trapline {
std::string format_map(const std::vector<MapLine>& lines) {
  std::string out;
  for (const MapLine& line : lines)
    out += fmt::format("{:012x}-{:012x} {} 00000000 00:00 0 {}{}{}\n", line.start, line.end,
                       line.protection, line.path,
                       line.build_id.empty() ? "" : " build-id:", line.build_id);
  return out + "7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]\n";
}

Result<std::vector<MapLine>> parse_map(std::string_view file, const std::string& path) {
  std::vector<MapLine> lines;
  for (std::size_t number = 1; !file.empty(); ++number) {
    const std::size_t end = file.find('\n');
    if (end == file.npos) break;  // the file was cut off
    std::string_view text = file.substr(0, end);
    file.remove_prefix(end + 1);
    // QEMU's own plugin and its uftrace_symbols.py write comments.
    if (trimmed(text).empty() || text.front() == '#') continue;
    MapLine line;
    if (!take_number_to(text, line.start, '-', 16) || !take_number_to(text, line.end, ' ', 16) ||
        line.end < line.start)
      return fail(ErrorKind::kDamaged, "{}:{}: not a line of a memory map", path, number);
    line.protection = take_word(text);
    std::string_view offset = take_word(text);
    (void)take_number(offset, line.offset, 16);
    for (int skipped = 0; skipped < 2; ++skipped) take_word(text);  // device, inode
    text = trimmed(text);
    if (const std::size_t id = text.find(" build-id:"); id != text.npos) {
      line.build_id = text.substr(id + 10);
      text = text.substr(0, id);
    }
    line.path = text;
    if (!line.path.empty() && line.path.front() != '[') lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace trapline
