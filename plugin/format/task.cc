#include "plugin/format/task.h"

#include <optional>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

std::string without_quotes(std::string_view name) {
  std::string out;
  for (const char c : name) out += c == '"' || c == '\n' || c == '\0' ? '_' : c;
  return out;
}

// Returns the value after KEY=, up to the next blank or, for "…", up to the line's last quote.
std::optional<std::string_view> field(std::string_view line, std::string_view key) {
  for (std::size_t at = line.find(key); at != line.npos; at = line.find(key, at + 1)) {
    if (at == 0 || line[at - 1] != ' ' || at + key.size() >= line.size() ||
        line[at + key.size()] != '=')
      continue;
    std::string_view value = line.substr(at + key.size() + 1);
    if (!value.starts_with('"')) return value.substr(0, value.find(' '));
    value.remove_prefix(1);
    const std::size_t end = value.rfind('"');
    return value.substr(0, end);
  }
  return std::nullopt;
}

template <typename T>
std::optional<T> number(std::optional<std::string_view> text, int base = 10) {
  T value{};
  if (!text) return std::nullopt;
  if (base == 16 && text->starts_with("0x")) text->remove_prefix(2);
  if (!take_number(*text, value, base) || !text->empty()) return std::nullopt;
  return value;
}

// Parses SEC.NNNNNNNNN. Fewer digits still count nanoseconds, as in uftrace; QEMU's own plugin
// writes 0.0.
std::optional<std::uint64_t> stamp(std::string_view line) {
  const auto text = field(line, "timestamp");
  if (!text) return std::nullopt;
  const std::size_t dot = text->find('.');
  if (dot == text->npos || text->size() - dot - 1 > 9) return std::nullopt;
  const auto seconds = number<std::uint64_t>(text->substr(0, dot));
  const auto fraction = number<std::uint64_t>(text->substr(dot + 1));
  if (!seconds || !fraction || *seconds > ~std::uint64_t{0} / kSecond - 1) return std::nullopt;
  return *seconds * kSecond + *fraction;
}

// Adds the line to `file`. False when a field is missing or not a number.
bool parse_line(std::string_view line, TaskFile& file) {
  const std::string_view kind = line.substr(0, 5);
  const bool known = kind == "SESS " || kind == "TASK " || kind == "FORK " || kind == "DLOP ";
  if (!known) return true;
  const auto time = stamp(line);
  const auto pid = number<std::uint32_t>(field(line, "pid"));
  const auto tid = number<std::uint32_t>(field(line, "tid"));
  const auto sid = field(line, "sid");
  if (!time) return false;
  if (kind == "SESS ") {
    const auto exename = field(line, "exename");
    if (!pid || !sid || !exename) return false;
    file.sessions.push_back({*time, *pid, std::string(*sid), std::string(*exename)});
  } else if (kind == "TASK ") {
    if (!tid || !pid) return false;
    file.tasks.push_back({*time, *tid, *pid});
  } else if (kind == "FORK ") {
    const auto parent = number<std::uint32_t>(field(line, "ppid"));
    if (!pid || !parent) return false;
    file.forks.push_back({*time, *pid, *parent});
  } else {
    const auto base = number<std::uint64_t>(field(line, "base"), 16);
    const auto path = field(line, "libname");
    if (!tid || !sid || !base || !path) return false;
    file.libraries.push_back({*time, *tid, std::string(*sid), *base, std::string(*path)});
  }
  return true;
}

}  // namespace

std::string format_line(const SessionLine& line) {
  return fmt::format("SESS timestamp={}.{:09} pid={} sid={} exename=\"{}\"\n", line.time / kSecond,
                     line.time % kSecond, line.pid, line.sid, without_quotes(line.exename));
}

std::string format_line(const TaskLine& line) {
  return fmt::format("TASK timestamp={}.{:09} tid={} pid={}\n", line.time / kSecond,
                     line.time % kSecond, line.tid, line.pid);
}

std::string format_line(const ForkLine& line) {
  return fmt::format("FORK timestamp={}.{:09} pid={} ppid={}\n", line.time / kSecond,
                     line.time % kSecond, line.pid, line.ppid);
}

Result<TaskFile> parse_task_file(std::string_view file, const std::string& path) {
  TaskFile result;
  for (std::size_t number = 1; !file.empty(); ++number) {
    const std::size_t end = file.find('\n');
    if (end == file.npos) break;
    if (!parse_line(file.substr(0, end), result))
      return fail(ErrorKind::kDamaged, "{}:{}: a field is missing or is not a number", path,
                  number);
    file.remove_prefix(end + 1);
  }
  return result;
}

}  // namespace trapline
