#include "merge/source/trace_text/text_lines.h"

#include <algorithm>
#include <span>

#include "backend_ftrace/base/text.h"

namespace trapline::trace_text {
namespace {

using Kind = TextLine::Kind;

constexpr std::uint32_t kMostCpus = 1U << 16;

// The tests below are faster than string_view::find_first_not_of(), which makes a call for each
// character.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == ':' ||
         c == '.';
}

// Return how many characters at the beginning, or at the end, satisfy `is`.
std::size_t leading(std::string_view text, auto is) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, is) - text.begin());
}
std::size_t trailing(std::string_view text, auto is) {
  std::size_t size = 0;
  while (size < text.size() && is(text[text.size() - 1 - size])) ++size;
  return size;
}

bool take_digits(std::string_view& text, auto& value) {
  return !text.empty() && is_digit(text.front()) && take_number(text, value);
}

void skip_blanks(std::string_view& text) { text.remove_prefix(leading(text, is_blank)); }

void cut_blanks(std::string_view& text) {
  text.remove_suffix(trailing(text, [](char c) { return is_blank(c) || c == '\r'; }));
}

// Parses "CPU:3 [LOST 123 EVENTS]", "CPU:3 [EVENTS DROPPED]".
bool parse_loss(std::string_view text, TextLine& line) {
  if (!take_text(text, "CPU:") || !take_digits(text, line.cpu) || line.cpu >= kMostCpus ||
      !take_text(text, " ["))
    return false;
  const bool kernels = take_text(text, "LOST ");
  if (take_digits(text, line.count)) skip_blanks(text);
  if (text != (kernels ? "EVENTS]" : "EVENTS DROPPED]")) return false;
  line.kind = Kind::kLoss;
  return true;
}

// Parses "##### CPU 3 buffer started ####", which tracefs prints where earlier events were
// overwritten.
bool parse_start(std::string_view text, TextLine& line) {
  if (!take_text(text, "##### CPU ") || !take_digits(text, line.cpu) || line.cpu >= kMostCpus ||
      text != " buffer started ####")
    return false;
  line.kind = Kind::kLoss;
  line.is_begin = true;
  return true;
}

bool is_heading(std::string_view line) {
  return line.empty() || line.starts_with('#') || line.starts_with("cpus=") ||
         line.starts_with("version = ") || line == "-- " || line == "--" ||
         (line.starts_with("CPU ") && line.ends_with(" is empty"));
}

// Keeps the thread's name from the end of `text`: the last kMostOfComm bytes, its greatest length.
void keep_comm(std::string_view text, TextLine& line) {
  cut_blanks(text);
  if (text.size() > kMostOfComm) text.remove_prefix(text.size() - kMostOfComm);
  skip_blanks(text);
  line.comm = text;
}

// Parses the text before the CPU: "comm-tid", "comm-tid (tgid)", "comm tid", "comm pid/tid".
bool parse_task(std::string_view text, TextLine& line) {
  cut_blanks(text);
  if (text.ends_with(')')) {  // the tgid
    text = text.substr(0, std::min(text.rfind('('), text.size()));
    cut_blanks(text);
  }
  const std::size_t digits = trailing(text, is_digit);
  if (digits == text.size() || digits == 0) return false;
  const std::size_t before = text.size() - digits - 1;
  std::string_view tid = text.substr(before + 1);
  if (!take_digits(tid, line.thread) || !tid.empty()) return false;
  std::string_view comm = text.substr(0, before);
  if (text[before] == '/') {
    const std::size_t process = trailing(comm, is_digit);
    comm.remove_suffix(process);
    if (process == 0 || !comm.ends_with(' ')) return false;
    comm.remove_suffix(1);
  } else if (text[before] != '-' && text[before] != ' ') {
    return false;
  }
  keep_comm(comm, line);
  return !line.comm.empty();
}

// Parses "003]", a CPU after its opening bracket; `rest` is then the text after the closing one.
bool parse_cpu(std::string_view& rest, TextLine& line) {
  if (!take_digits(rest, line.cpu) || line.cpu >= kMostCpus || !rest.starts_with(']')) return false;
  rest.remove_prefix(1);
  return rest.starts_with(' ');
}

bool parse_time(std::string_view& rest, TextLine& line) {
  constexpr std::uint64_t kSecond = 1'000'000'000, kMostSeconds = 1ULL << 34;
  std::uint64_t whole = 0;
  if (!take_digits(rest, whole)) return false;
  if (rest.starts_with(':')) {
    line.at = whole;
    line.digits = 0;
    rest.remove_prefix(1);
    return true;
  }
  if (!rest.starts_with('.') || whole >= kMostSeconds) return false;
  rest.remove_prefix(1);
  const std::size_t digits = leading(rest, is_digit);
  std::uint64_t fraction = 0;
  if (digits == 0 || digits > 9 || !take_digits(rest, fraction) || !rest.starts_with(':'))
    return false;
  rest.remove_prefix(1);
  for (std::size_t i = digits; i < 9; ++i) fraction *= 10;
  line.at = whole * kSecond + fraction;
  line.digits = static_cast<std::uint8_t>(digits);
  return true;
}

// Parses "d..1.", "dNh2": 4 or 5 columns, more in later kernels.
bool parse_flags(std::string_view& rest, TextLine& line) {
  constexpr std::size_t kLeast = 4, kMost = 8;
  const std::size_t size = std::min(rest.find(' '), rest.size());
  if (size < kLeast || size > kMost) return false;
  constexpr std::string_view kLevels = ".hsHzZ";
  if (kLevels.find(rest[2]) == kLevels.npos) return false;
  line.level = rest[2];
  rest.remove_prefix(size);
  skip_blanks(rest);
  return true;
}

// Parses "PERF_RECORD_LOST lost 21" of perf script --show-lost-events.
bool parse_lost_record(std::string_view text, TextLine& line) {
  constexpr std::string_view kRecord = "PERF_RECORD_LOST";
  if (!text.starts_with(kRecord)) return false;
  text = text.substr(std::min(text.find_first_of("0123456789"), text.size()));
  (void)take_digits(text, line.count);
  line.kind = Kind::kLoss;
  return true;
}

void parse_event(std::string_view rest, TextLine& line) {
  skip_blanks(rest);
  cut_blanks(rest);
  line.kind = Kind::kEvent;
  if (parse_lost_record(rest, line)) return;
  // Skips "(+41)" of trace-cmd report --ts-diff.
  if (rest.starts_with("(+")) {
    rest.remove_prefix(std::min(rest.find(')'), rest.size() - 1) + 1);
    skip_blanks(rest);
  }
  // Skips the sample's period, which perf script may print before the event.
  std::string_view after = rest;
  if (std::uint64_t period = 0; take_digits(after, period) && after.starts_with(' ')) {
    skip_blanks(after);
    rest = after;
  }
  const std::string_view word = rest.substr(0, leading(rest, is_name_char));
  line.text = rest;
  if (word.size() < 2 || !word.ends_with(':')) return;  // "sys_ioctl(fd: 3, …)", a function's name
  line.name = word.substr(0, word.size() - 1);
  line.text.remove_prefix(word.size());
  skip_blanks(line.text);
}

bool parse_event_line(std::string_view text, TextLine& line) {
  for (std::size_t open = text.find('['); open != text.npos; open = text.find('[', open + 1)) {
    std::string_view rest = text.substr(open + 1);
    if (!parse_cpu(rest, line)) continue;
    skip_blanks(rest);
    line.level = 0;
    std::string_view plain = rest;
    if (!parse_time(plain, line)) {
      plain = rest;
      if (!parse_flags(plain, line) || !parse_time(plain, line)) continue;
    }
    if (!parse_task(text.substr(0, open), line)) continue;
    parse_event(plain, line);
    return true;
  }
  return false;
}

// Removes and returns the last word of `text`.
std::string_view take_last_word(std::string_view& text) {
  cut_blanks(text);
  const std::string_view word =
      text.substr(text.size() - trailing(text, [](char c) { return !is_blank(c); }));
  text.remove_suffix(word.size());
  return word;
}

// Parses "0d..1." of the latency format: CPU and flags.
bool parse_cpu_and_flags(std::string_view word, TextLine& line) {
  return take_digits(word, line.cpu) && line.cpu < kMostCpus && parse_flags(word, line) &&
         word.empty();
}

// Parses a line whose event comes directly after a time with a fraction, and whose task or CPU may
// be missing: "rcu_pree-15 0d..2. 6.476250: sched_switch: …", "qemu 12 6.476250: kvm:kvm_exit: …",
// "[003] 6.476250: kvm_exit: …", "6.476250: kvm_exit: …". Without any time, only KVM's events are
// recognised: "kvm_exit: …", "qemu-12 [003] kvm_entry: …".
bool parse_loose_line(std::string_view text, bool timeless, TextLine& line) {
  for (std::size_t at = 0; at < text.size(); at = text.find(' ', at)) {
    at += leading(text.substr(at), is_blank);
    std::string_view rest = text.substr(at);
    const bool is_kvm = rest.starts_with("kvm_") || rest.starts_with("kvm:kvm_");
    if (timeless ? !is_kvm : !parse_time(rest, line) || line.digits == 0) continue;
    parse_event(rest, line);
    if (line.kind == Kind::kEvent && line.name.empty()) return false;
    line.has_time = !timeless;
    if (timeless) line.digits = 6;  // like any time with a fraction
    std::string_view before = text.substr(0, at), word = take_last_word(before), flags = word;
    line.has_cpu = parse_cpu_and_flags(word, line);
    if (!line.has_cpu) {
      if (parse_flags(flags, line) && flags.empty()) word = take_last_word(before);
      std::string_view cpu = word.substr(word.starts_with('[') ? 1 : 0);
      line.has_cpu = cpu.size() < word.size() && take_digits(cpu, line.cpu) && cpu == "]" &&
                     line.cpu < kMostCpus;
      if (!line.has_cpu) before = text.substr(0, before.size() + word.size());
    }
    std::string_view tid = before;
    skip_blanks(tid);
    cut_blanks(tid);
    if (parse_task(before, line)) return true;
    line.has_thread = take_digits(tid, line.thread) && tid.empty();
    if (!line.has_thread) keep_comm(before, line);
    return true;
  }
  return false;
}

std::size_t time_of_day(std::string_view text) {
  constexpr std::string_view kForm = "00:00:00";
  for (std::size_t i = 0; i < kForm.size(); ++i)
    if (i >= text.size() || (kForm[i] == '0' ? !is_digit(text[i]) : text[i] != kForm[i])) return 0;
  return kForm.size() + leading(text.substr(kForm.size()),
                                [](char c) { return is_digit(c) || c == '.' || c == ','; });
}

}  // namespace

std::string_view unquoted(std::string_view line) {
  skip_blanks(line);
  while (line.starts_with('>')) {
    line.remove_prefix(1);
    skip_blanks(line);
  }
  cut_blanks(line);
  return line;
}

std::size_t prefix_size(TextForm::Prefix prefix, std::string_view line) {
  using Prefix = TextForm::Prefix;
  std::string_view rest = line;
  const auto is_name = [](char c) { return is_name_char(c) || c == '-' || c == '/'; };
  switch (prefix) {
    case Prefix::kNone:
      return 0;
    case Prefix::kLabel: {
      rest.remove_prefix(leading(rest, [&](char c) { return is_name(c) && c != ':'; }));
      const std::string_view name = line.substr(0, line.size() - rest.size());
      const bool is_number = name.find_first_not_of("0123456789.") == name.npos;
      return !is_number && rest.starts_with(": ") ? line.size() - rest.size() + 1 : 0;
    }
    case Prefix::kKernelLog: {
      const std::size_t end = line.find(']');
      if (!line.starts_with('[') || end > 20) return 0;
      rest = line.substr(1, end - 1);
      skip_blanks(rest);
      return rest.find('.') != rest.npos && rest.find_first_not_of("0123456789.") == rest.npos
                 ? end + 1
                 : 0;
    }
    case Prefix::kDate: {
      constexpr std::size_t kDay = 10;  // "2026-11-28"
      const std::size_t time = line.size() > kDay && line[4] == '-' && line[7] == '-'
                                   ? time_of_day(line.substr(kDay + 1))
                                   : 0;
      if (time == 0) return 0;
      return kDay + 1 + time +
             leading(line.substr(kDay + 1 + time), [](char c) { return !is_blank(c); });
    }
    case Prefix::kSyslog: {
      constexpr std::size_t kDay = 7;  // "Nov 28 "
      const std::size_t end = line.find(": ");
      return end != line.npos && line.size() > kDay && time_of_day(line.substr(kDay)) != 0 ? end + 1
                                                                                           : 0;
    }
    case Prefix::kNumber: {
      rest.remove_prefix(leading(rest, is_digit));
      if (rest.size() == line.size()) {
        const std::size_t colon = rest.find(':');
        if (colon >= rest.find(' ')) return 0;
        rest.remove_prefix(colon + 1);
        const std::size_t digits = leading(rest, is_digit);
        if (digits == 0) return 0;
        rest.remove_prefix(digits);
      }
      return rest.starts_with(':') || rest.starts_with('\t') ? line.size() - rest.size() + 1 : 0;
    }
    case Prefix::kBullet:
      return !line.empty() && std::string_view("*|+-").find(line[0]) != std::string_view::npos ? 1
                                                                                               : 0;
    case Prefix::kName: {
      constexpr std::size_t kLongest = 6;
      const std::size_t end = line.find('>');
      return end > 0 && end < kLongest && leading(line, is_name) == end ? end + 1 : 0;
    }
  }
  return 0;
}

TextLine parse_text_line(std::string_view text, const TextForm& form) {
  TextLine line;
  if (text.size() > kLongestTraceLine) return line;
  const std::size_t width = text.size();
  text = unquoted(text);
  std::string_view label;
  if (const std::size_t prefix = prefix_size(form.prefix, text); prefix != 0) {
    if (form.prefix == TextForm::Prefix::kLabel) label = text.substr(0, prefix - 1);
    text = unquoted(text.substr(prefix));
  }
  const auto finished = [&] {
    line.label = label;
    line.is_cut = form.cut != 0 && width == form.cut;
    return line;
  };
  if (parse_event_line(text, line)) return finished();
  line = {};
  if (form.loose && parse_loose_line(text, form.timeless, line)) return finished();
  line = {};
  if (parse_loss(text, line) || parse_start(text, line)) return line;
  line = {};
  if (is_heading(text)) line.kind = Kind::kHeading;
  return line;
}

bool begins_event(std::string_view text, const TextForm& form) {
  text = unquoted(text);
  text = unquoted(text.substr(prefix_size(form.prefix, text)));
  for (std::size_t open = text.find('['); open != text.npos; open = text.find('[', open + 1)) {
    TextLine line;
    std::string_view rest = text.substr(open + 1);
    if (!take_digits(rest, line.cpu) || !rest.starts_with(']')) continue;
    rest.remove_prefix(1);
    skip_blanks(rest);
    (void)parse_flags(rest, line);
    return rest.empty() && parse_task(text.substr(0, open), line);
  }
  return false;
}

std::string_view unit_of_clock_line(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of("#> \t"), line.size()));
  take_text(line, "trace_");
  if (!take_text(line, "clock:")) return {};
  line = trimmed(line);
  const std::size_t open = line.find('['), close = line.find(']', std::min(open, line.size()));
  line =
      close == line.npos ? line.substr(0, line.find(' ')) : line.substr(open + 1, close - open - 1);
  constexpr std::string_view kNanoseconds[] = {"local", "global",   "perf", "boot",
                                               "mono",  "mono_raw", "tai"};
  if (std::ranges::find(kNanoseconds, line) != std::end(kNanoseconds)) return "ns";
  return line == "x86-tsc" ? "cycles" : "";
}

std::uint32_t cpus_of_heading(std::string_view line) {
  const std::size_t at = line.find(" #P:");
  line.remove_prefix(at != line.npos ? at : std::min(line.find_first_not_of("> \t"), line.size()));
  std::uint32_t cpus = 0;
  if (!take_text(line, " #P:") && !take_text(line, "cpus=")) return 0;
  return take_digits(line, cpus) && cpus <= kMostCpus ? cpus : 0;
}

TextLines::TextLines(const File& file, std::uint64_t from, std::size_t longest)
    : file_(&file), longest_(longest), begin_(from) {
  if (from == 0 || from > file.size()) return;
  --begin_;  // the previous line may end just before
  std::string_view partial;
  (void)next(partial);
}

// Reads another block after the rest of the last one; false at the end.
bool TextLines::fill() {
  constexpr std::uint64_t kTextBlock = 256U << 10;
  block_.erase(0, at_);
  begin_ += at_;
  at_ = last_ = 0;
  const std::uint64_t end = begin_ + block_.size();
  if (!status_ || end >= file_->size()) return false;
  const auto size = static_cast<std::size_t>(std::min(file_->size() - end, kTextBlock));
  const std::size_t before = block_.size();
  block_.resize(before + size);
  status_ = file_->read(end, std::as_writable_bytes(std::span(block_).subspan(before)));
  if (!status_) block_.resize(before);
  return status_.has_value();
}

void TextLines::seek(std::uint64_t offset) {
  if (offset >= begin_ && offset <= begin_ + block_.size()) {
    at_ = last_ = static_cast<std::size_t>(offset - begin_);
    return;
  }
  block_.clear();
  begin_ = offset;
  at_ = last_ = 0;
}

bool TextLines::next(std::string_view& line) {
  std::size_t end = block_.find('\n', at_);
  while (end == block_.npos && block_.size() - at_ <= longest_ && fill())
    end = block_.find('\n', at_);
  if (at_ == block_.size()) return false;
  last_ = at_;
  whole_ = end != block_.npos;
  end = std::min(end, block_.size());
  line = std::string_view(block_).substr(at_, end - at_);
  at_ = std::min(end + 1, block_.size());
  return true;
}

}  // namespace trapline::trace_text
