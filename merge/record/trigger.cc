#include "merge/record/trigger.h"

#include <algorithm>

#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/text.h"

namespace trapline::record {

Result<Trigger> parse_trigger(std::string_view text) {
  constexpr std::string_view kWord =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  std::string_view rest = text;
  const auto word = [&] { return rest.substr(0, rest.find_first_not_of(kWord)); };
  // Removes `characters` characters from `rest`, and the blanks after them.
  const auto skip = [&](std::size_t characters) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t", characters), rest.size()));
  };
  const auto column = [&] { return text.size() - rest.size() + 1; };
  const auto wrong = [&](std::string_view what) { return trigger_error(text, column(), what); };
  Trigger trigger;
  trigger.text = text;
  skip(0);
  trigger.stall = word() == "stall";
  if (!trigger.stall && word() != "exit") return wrong("'exit' or 'stall' is expected");
  skip(word().size());
  if (!trigger.stall && rest.starts_with('(')) {
    skip(1);
    trigger.reason_column = column();
    const auto end = rest.find(')');
    if (end == std::string_view::npos) return wrong("a reason and ')' are expected");
    trigger.reason = trimmed(rest.substr(0, end));
    if (trigger.reason.empty()) return wrong("a reason is expected");
    skip(end + 1);
  }
  if (!rest.starts_with('>')) return wrong("'>' is expected");
  skip(1);
  const std::string_view time = rest,
                         number = rest.substr(0, rest.find_first_not_of("0123456789."));
  if (number.empty()) return wrong("a time is expected");
  skip(number.size());
  const std::string_view unit = word();
  if (unit != "ns" && unit != "us" && unit != "ms" && unit != "s")
    return wrong("a unit is expected: ns, us, ms or s");
  const auto ns = parse_duration("--snapshot-on", fmt::format("{}{}", number, unit));
  if (!ns) {
    rest = time;
    return wrong("this is not a duration");
  }
  trigger.longer_than_ns = *ns;
  skip(unit.size());
  if (!rest.empty()) return wrong("the end is expected");
  return trigger;
}

tl::unexpected<Error> trigger_error(std::string_view text, std::size_t column,
                                    std::string_view what) {
  return fail(ErrorKind::kUsage,
              "--snapshot-on '{}': column {}: {}; give exit > TIME, exit(REASON) > TIME or "
              "stall > TIME, as in 'exit > 500us'",
              printable(text), column, what);
}

}  // namespace trapline::record
