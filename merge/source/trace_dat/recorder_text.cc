#include "merge/source/trace_dat/recorder_text.h"

#include "backend_ftrace/base/text.h"

namespace trapline::trace_dat {
namespace {

constexpr std::string_view kProcess = ", process ", kSelected = ", threads of ", kAlone = " alone";

// The number after `before`; both are taken from the text.
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

}  // namespace trapline::trace_dat
