#include "merge/source/trace_dat/tail.h"

#include <fmt/format.h>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/text.h"
#include "merge/source/kernel_events/event_texts.h"
#include "merge/source/trace_dat/layout.h"
#include "merge/source/trace_dat/unfinished.h"

namespace trapline::trace_dat {
namespace {

constexpr std::string_view kProcess = ", process ", kSelected = ", threads of ", kAlone = " alone";

// Removes `before` and the number that follows it, and returns the number.
std::int32_t take_after(std::string_view before, std::string_view& text) {
  if (!text.starts_with(before)) return 0;
  std::string_view rest = text.substr(before.size());
  std::int32_t number = 0;
  if (!take_number(rest, number) || number <= 0) return 0;
  text = rest;
  return number;
}

}  // namespace

std::string RecorderText::text() const {
  std::string text = program;
  if (process != 0) text.append(kProcess).append(std::to_string(process));
  if (selected != 0) text.append(kSelected).append(std::to_string(selected)).append(kAlone);
  return text;
}

RecorderText RecorderText::parse(std::string_view text) {
  RecorderText parsed;
  const auto comma = text.find(',');
  parsed.program = text.substr(0, comma);
  if (comma == std::string_view::npos || !parsed.program.starts_with("trapline")) return parsed;
  text.remove_prefix(comma);
  parsed.process = take_after(kProcess, text);
  const std::int32_t selected = take_after(kSelected, text);
  if (text == kAlone) parsed.selected = selected;
  return parsed;
}

namespace {

using namespace std::literals;

void put_option(std::string& out, Option id, std::string_view text) {
  append(out, static_cast<std::uint16_t>(id));
  append(out, static_cast<std::uint32_t>(text.size() + 1));
  out.append(text);
  out.push_back('\0');
}

// Writes an option for each of the recorder's counts of events that no page has. In `stats`, the
// recorder's lines follow the kernel's.
void put_unwritten(std::string& out, std::string_view stats) {
  struct Kind {
    std::string_view key, why;
    std::uint64_t from;
    bool counts_events;
  };
  constexpr Kind kKinds[] = {
      {kPagesUnwritten, "pages could not be written", UnwrittenLoss::kAtEnd, false},
      {kEventsUnread, "events were left in the kernel", UnwrittenLoss::kAtEnd, true},
      {kEventsTaken, "events at least were read by another process", 0, true}};
  for (const Kind& kind : kKinds) {
    const std::uint64_t number = stat_number(stats, kind.key);
    if (number == 0) continue;
    std::string body(kTraplineLossName);
    append(body, static_cast<std::uint32_t>(stat_number(stats, "CPU")));
    append(body, kind.from);
    append(body, kind.counts_events ? number : 0);
    put_option(out, kTraplineLoss, body.append(fmt::format("{} {}", number, kind.why)));
  }
}

}  // namespace

std::uint64_t stat_number(std::string_view stats, std::string_view key) {
  return parse_number(kernel_events::format_line(stats, fmt::format("{}:", key))).value_or(0);
}

Tail trace_dat_tail(const StartFacts& start, const std::string& names,
                    const std::vector<std::string>& cpu_stats,
                    const std::vector<std::uint64_t>& sizes) {
  Tail tail;
  append(tail.bytes, static_cast<std::uint64_t>(names.size()));
  tail.bytes += names;
  append(tail.bytes, static_cast<std::uint32_t>(sizes.size()));
  tail.bytes += "options  \0"sv;
  for (const std::string& stats : cpu_stats) {
    put_option(tail.bytes, kCpuStat, stats);
    put_unwritten(tail.bytes, stats);
  }
  put_option(tail.bytes, kTraceClock, start.clocks);
  put_option(tail.bytes, kUname, start.uname);
  put_option(tail.bytes, kVersion, start.version);
  append(tail.bytes, static_cast<std::uint16_t>(kDone));
  tail.bytes += "flyrecord\0"sv;
  const auto to_page = [page_size = start.page_size](std::uint64_t at) {
    return (at + page_size - 1) / page_size * page_size;
  };
  std::uint64_t at = to_page(start.head_bytes + tail.bytes.size() + sizes.size() * 16);
  for (const std::uint64_t size : sizes) {
    tail.areas.push_back({at, size});
    append(tail.bytes, at);
    append(tail.bytes, size);
    at = to_page(at + size);
  }
  const std::uint64_t first = tail.areas.empty() ? to_page(start.head_bytes + tail.bytes.size())
                                                 : tail.areas.front().offset;
  tail.bytes.resize(first - start.head_bytes, '\0');
  return tail;
}

}  // namespace trapline::trace_dat
