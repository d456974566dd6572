#include "merge/record/trigger.h"

#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/text.h"

namespace trapline::record {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) { skip_blanks(); }

  Result<Trigger> parse() {
    Trigger trigger;
    trigger.text = text_;
    trigger.stall = word() == "stall";
    if (!trigger.stall && word() != "exit") return wrong("'exit' or 'stall' is expected");
    advance(word().size());
    if (!trigger.stall && take('(')) {
      trigger.reason_column = column();
      const std::string_view rest = text_.substr(at_);
      const auto end = rest.find(')');
      if (end == std::string_view::npos) return wrong("a reason and ')' are expected");
      trigger.reason = trimmed(rest.substr(0, end));
      if (trigger.reason.empty()) return wrong("a reason is expected");
      advance(end + 1);
    }
    if (!take('>')) return wrong("'>' is expected");
    if (auto time = parse_limit(trigger); !time) return tl::unexpected(std::move(time).error());
    return trigger;
  }

 private:
  Result<void> parse_limit(Trigger& trigger) {
    std::string_view rest = text_.substr(at_);
    rest = rest.substr(0, rest.find_first_not_of("0123456789."));
    if (rest.empty()) return wrong("a time is expected");
    const std::size_t digits = rest.size();
    const std::size_t begin = at_;
    advance(digits);
    const std::string_view unit = word();
    if (unit != "ns" && unit != "us" && unit != "ms" && unit != "s") {
      return wrong("a unit is expected: ns, us, ms or s");
    }
    const auto time =
        parse_duration(trigger.stall ? "stall >" : "exit >", fmt::format("{}{}", rest, unit));
    if (!time) {
      at_ = begin;
      return wrong("this is not a duration");
    }
    trigger.longer_than_ns = *time;
    advance(unit.size());
    if (at_ != text_.size()) return wrong("the end is expected");
    return {};
  }

  // Returns the letters, digits and _ that come next.
  [[nodiscard]] std::string_view word() const {
    std::size_t end = at_;
    const auto belongs = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    while (end < text_.size() && belongs(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  void advance(std::size_t characters) {
    at_ += characters;
    skip_blanks();
  }
  bool take(char wanted) {
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    advance(1);
    return true;
  }
  [[nodiscard]] std::size_t column() const { return at_ + 1; }
  [[nodiscard]] tl::unexpected<Error> wrong(std::string_view what) const {
    return trigger_error(text_, column(), what);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<Trigger> parse_trigger(std::string_view text) { return Parser(text).parse(); }

tl::unexpected<Error> trigger_error(std::string_view text, std::size_t column,
                                    std::string_view what) {
  return fail(ErrorKind::kUsage,
              "--snapshot-on '{}': column {}: {}; give exit > TIME, exit(REASON) > TIME or "
              "stall > TIME, as in 'exit > 500us'",
              printable(text), column, what);
}

}  // namespace trapline::record
