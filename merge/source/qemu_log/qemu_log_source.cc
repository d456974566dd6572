#include "merge/source/qemu_log/qemu_log_source.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/source/programs_events.h"
#include "merge/source/trace_text/text_lines.h"

namespace trapline {
namespace {

constexpr std::size_t kBlock = 256U << 10;

class QemuLogSource final : public ProgramsEvents {
 public:
  explicit QemuLogSource(File file)
      : ProgramsEvents(1024), file_(std::move(file)), lines_(file_, 0, kLongestLine) {
    info_.path = file_.path();
    info_.kind = "QEMU log";
    info_.clock = "real";
    info_.resolution_ns = 1000;
    info_.role = Role::kHostProgram;
  }
  [[nodiscard]] Result<std::unique_ptr<Source>> reopen() const override {
    return std::make_unique<QemuLogSource>(file_);
  }

  // Reads only the first and the last block: lines are out of order by less than one block.
  std::optional<std::pair<Timestamp, Timestamp>> range() const override {
    const std::uint64_t size = file_.size(), tail = size - std::min<std::uint64_t>(size, kBlock);
    const auto begin = times_in(0), end = times_in(tail);
    if (!begin || !end) return std::nullopt;
    return std::pair(Timestamp(begin->first), Timestamp(std::max(begin->second, end->second)));
  }
  double progress() const override {
    return static_cast<double>(lines_.offset()) / static_cast<double>(file_.size());
  }
  std::vector<std::pair<std::string, std::string>> facts() const override {
    return {{"format", "QEMU log with timestamps"}, {"other lines", std::to_string(other_lines_)}};
  }

 private:
  // Returns the least and the greatest time of the whole lines in the block at `offset`.
  [[nodiscard]] std::optional<std::pair<std::uint64_t, std::uint64_t>> times_in(
      std::uint64_t offset) const {
    std::optional<std::pair<std::uint64_t, std::uint64_t>> times;
    trace_text::TextLines lines(file_, offset, kLongestLine);
    for (std::string_view text; lines.offset() < offset + kBlock && lines.next(text);) {
      const auto line = lines.is_whole() ? parse_qemu_log_line(text) : std::nullopt;
      if (!line) continue;
      if (!times) times = std::pair(line->at, line->at);
      times = std::pair(std::min(times->first, line->at), std::max(times->second, line->at));
    }
    return times;
  }

  // Adds the next line to the window if it is an event's. A last line without a line end was cut
  // off.
  void read_more() override {
    std::string_view text;
    if (!lines_.next(text) || (!lines_.is_whole() && text.size() <= kLongestLine)) {
      status_ = lines_.status();
      ended_ = true;
      return;
    }
    const auto line = parse_qemu_log_line(text);
    if (!line) {
      ++other_lines_;
      return;
    }
    hold({line->at, line->thread, std::string(line->text)});
  }

  File file_;
  trace_text::TextLines lines_;
  std::uint64_t other_lines_ = 0;
};

}  // namespace

namespace {

// Parses a line without quotes and without prefixes.
std::optional<QemuLogLine> parse_bare_line(std::string_view line) {
  constexpr std::uint64_t kMostSeconds = 1ULL << 32;
  QemuLogLine parsed;
  std::uint64_t seconds = 0, micros = 0;
  if (!take_number_to(line, parsed.thread, '@') || !take_number_to(line, seconds, '.') ||
      parsed.thread < 0)
    return {};
  // The microseconds always have six digits.
  if (line.find(':') != 6 || !take_number_to(line, micros, ':') || seconds > kMostSeconds)
    return {};
  while (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) return {};
  parsed.at = seconds * 1'000'000'000 + micros * 1000;
  parsed.text = line;
  return parsed;
}

}  // namespace

std::optional<QemuLogLine> parse_qemu_log_line(std::string_view line) {
  using Prefix = trace_text::TextForm::Prefix;
  line = trace_text::unquoted(line);
  if (auto parsed = parse_bare_line(line)) return parsed;
  for (const Prefix prefix :
       {Prefix::kDate, Prefix::kSyslog, Prefix::kKernelLog, Prefix::kNumber, Prefix::kName}) {
    const std::size_t size = trace_text::prefix_size(prefix, line);
    if (size == 0) continue;
    std::string_view rest = trace_text::unquoted(line.substr(size));
    // In the journal's lines, a host and a program may follow the date.
    const std::size_t program = rest.find(": ");
    if (prefix == Prefix::kDate && program < rest.find('@')) rest.remove_prefix(program + 2);
    if (auto parsed = parse_bare_line(rest)) return parsed;
  }
  // Skips the name of a file, which grep -H puts in front.
  const std::size_t name = line.find(':');
  return name < line.find(' ') ? parse_bare_line(line.substr(name + 1)) : std::nullopt;
}

Result<std::unique_ptr<Source>> open_qemu_log(File file) {
  return std::make_unique<QemuLogSource>(std::move(file));
}

}  // namespace trapline
