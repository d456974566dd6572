#include "merge/source/trace_text/trace_text_source.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend_ftrace/base/saturated_sum.h"
#include "backend_ftrace/base/text.h"
#include "merge/source/file.h"
#include "merge/source/marker_calls.h"
#include "merge/source/payload_text.h"
#include "merge/source/trace_text/text_events.h"
#include "merge/source/trace_text/text_lines.h"

namespace trapline {
namespace trace_text {
namespace {

using Kind = TextLine::Kind;

// Of 40 bytes each.
constexpr std::size_t kMostLosses = 500'000;
constexpr std::string_view kLost = "[LOST ", kDropped = "EVENTS DROPPED]",
                           kStarted = " buffer started ####";

// The first place from `from` on where `word` stands.
Result<std::optional<std::uint64_t>> find_in(const File& file, std::uint64_t from,
                                             std::string_view word) {
  constexpr std::size_t kBlockSize = 256U << 10;
  std::string block;
  for (std::uint64_t at = from; at < file.size(); at += kBlockSize) {
    block.resize(static_cast<std::size_t>(
        std::min<std::uint64_t>(file.size() - at, kBlockSize + word.size())));
    if (auto read = file.read(at, std::as_writable_bytes(std::span(block))); !read)
      return tl::unexpected(std::move(read).error());
    if (const std::size_t found = block.find(word); found != block.npos) return at + found;
  }
  return std::nullopt;
}

// The losses of a text. A line that tells of one stands before the next event of its CPU, maybe
// long after the last one; the timeline has to know it when it has read the last one, so they are
// sought before the text is read. A text without any is only searched for the words.
struct TextLoss {
  std::uint64_t offset = 0;  // in the file: after the last event before it, of its CPU
  std::uint64_t from = 0, to = 0;
  std::uint64_t count = 0;  // 0: not known
  std::uint32_t cpu = 0;
};

struct LastOfCpu {
  std::uint64_t offset = 0, at = 0;
  bool lost = false;
  std::uint64_t count = 0;
};

// Before `end`, in order of their offsets. Errors: the file cannot be read; more than a recording
// can have.
Result<std::vector<TextLoss>> find_text_losses(const File& file, std::uint64_t end) {
  std::vector<TextLoss> losses;
  auto any = find_in(file, 0, kLost);
  if (any && !*any) any = find_in(file, 0, kDropped);
  if (any && !*any) any = find_in(file, 0, kStarted);
  if (!any) return tl::unexpected(any.error());
  if (!*any) return losses;
  std::map<std::uint32_t, LastOfCpu> cpus;
  TextLines lines(file);
  std::uint64_t last = 0;
  std::optional<LastOfCpu> first;  // after the first event of all
  for (std::string_view text; lines.offset() < end && lines.next(text);) {
    const TextLine line = parse_text_line(text);
    if (line.kind == Kind::kLoss) {
      // Before its first event nothing of the CPU was recorded, or all was overwritten.
      if (line.is_begin && first) cpus.try_emplace(line.cpu, *first);
      const auto cpu = cpus.find(line.cpu);
      if (cpu == cpus.end()) continue;
      cpu->second.count = saturated_sum(cpu->second.count, line.count);
      cpu->second.lost = true;
    } else if (line.kind == Kind::kEvent) {
      last = std::max(last, line.at);
      LastOfCpu& cpu = cpus[line.cpu];
      if (cpu.lost) losses.push_back({cpu.offset, cpu.at, last, cpu.count, line.cpu});
      cpu = {lines.offset(), last, false, 0};
      if (!first) first = cpu;
    }
    if (losses.size() > kMostLosses) {
      return fail(ErrorKind::kDamaged,
                  "{}: events were lost more than {} times; record with larger buffers",
                  file.path(), kMostLosses);
    }
  }
  if (!lines.status()) return tl::unexpected(lines.status().error());
  for (const auto& [number, cpu] : cpus)
    if (cpu.lost) losses.push_back({cpu.offset, cpu.at, last, cpu.count, number});
  std::ranges::stable_sort(losses, {}, &TextLoss::offset);
  return losses;
}

bool next_event(TextLines& lines, std::string_view& text, TextLine& line) {
  while (lines.next(text))
    if ((line = parse_text_line(text)).kind == Kind::kEvent) return true;
  return false;
}

// Where a text that was pasted twice begins again, and how many events come from there on: all of
// them the lines that it begins with, in their order. No trace has its first line, with its time,
// again after a later time.
struct Repetition {
  std::uint64_t begin = 0, events = 0;
};

Result<Repetition> find_repetition(const File& file) {
  const Repetition none = {file.size(), 0};
  TextLines lines(file);
  std::string_view text, expected;
  TextLine line;
  if (!next_event(lines, text, line)) return none;
  const std::string first = "\n" + std::string(text);
  const std::uint64_t at = line.at;
  while (line.at <= at)
    if (!next_event(lines, text, line)) return none;
  const auto again = find_in(file, lines.offset() - 1, first);
  if (!again) return tl::unexpected(again.error());
  if (!*again) return none;
  Repetition found = {**again + 1, 0};
  TextLines second(file, found.begin), beginning(file);
  while (next_event(second, text, line) && next_event(beginning, expected, line)) {
    // The last line may be cut.
    if (second.is_whole() ? text != expected : !expected.starts_with(text)) return none;
    ++found.events;
  }
  return found;
}

// What a look at the text tells before it is read.
struct TextLook {
  Capabilities has;
  std::int64_t more_whole = 0;  // so many more times without a fraction than with one
  std::string whole_unit;       // "ns", "cycles", empty: not known
  std::uint64_t unit = 1;       // of times with a fraction, in ns
  [[nodiscard]] bool whole() const { return more_whole > 0; }
  [[nodiscard]] bool cycles() const { return whole() && whole_unit == "cycles"; }
  std::optional<std::uint64_t> first, last;

  void on(const TextLine& line) {
    more_whole += line.digits == 0 ? 1 : -1;
    std::uint64_t its = 1;
    for (int i = line.digits; i < 9 && line.digits != 0; ++i) its *= 10;
    unit = std::max(unit, its);
    if (!first) first = line.at;
    last = std::max(last.value_or(0), line.at);
  }
};

void look_from(const File& file, std::uint64_t from, std::uint64_t most, TextEvents& events,
               TextLook& look) {
  TextLines lines(file, from);
  Event event;
  std::string_view text;
  for (std::uint64_t i = 0; i < most && lines.next(text); ++i) {
    const TextLine line = parse_text_line(text);
    if (line.kind != Kind::kEvent) {
      if (look.whole_unit.empty()) look.whole_unit = unit_of_clock_line(text);
      continue;
    }
    look.on(line);
    const std::uint16_t type = events.type_of(line);
    if (events.decode(line, type, event)) events.witness(type).add(event.payload, look.has);
  }
}

// As of a trace.dat: three places, or all where no kvm_exit is there.
TextLook look_at(const File& file, std::string_view unit) {
  constexpr std::uint64_t kLines = 16'384, kTail = 64U << 10;
  TextEvents events;
  TextLook look;
  look.whole_unit = unit;
  look_from(file, 0, kLines, events, look);
  look_from(file, file.size() / 2, kLines, events, look);
  look_from(file, file.size() - file.size() / 50, kLines, events, look);
  look.has.late_switches = true;
  if (!look.has.kvm_exit) look_from(file, 0, ~std::uint64_t{0}, events, look);
  look_from(file, file.size() - std::min(file.size(), kTail), kLines, events, look);
  return look;
}

class TraceTextSource final : public Source {
 public:
  TraceTextSource(File file, const TextLook& look, const Repetition& again,
                  std::vector<TextLoss> losses)
      : file_(std::move(file)), lines_(file_), losses_(std::move(losses)), look_(look) {
    again_ = again;
    info_.path = file_.path();
    info_.kind = "trace text";
    info_.clock = "unknown";
    info_.cycles = look.cycles();
    if (look.unit > 1) info_.resolution_ns = look.unit;
  }

  void select(EventClass events) override { selected_ = events; }
  Read next(Event& event) override;

  [[nodiscard]] const Result<void>& status() const override { return lines_.status(); }
  [[nodiscard]] const SourceInfo& info() const override { return info_; }
  [[nodiscard]] SourceCounters counters() const override { return counters_; }
  [[nodiscard]] double progress() const override {
    return static_cast<double>(lines_.offset()) / static_cast<double>(file_.size());
  }
  [[nodiscard]] Capabilities capabilities() const override { return look_.has; }
  [[nodiscard]] Description describe() const override {
    Description is = Source::describe();
    is.witness = Witness::kKernel;
    is.has = look_.has;
    return is;
  }
  [[nodiscard]] std::optional<std::pair<Timestamp, Timestamp>> range() const override {
    if (!look_.first) return std::nullopt;
    return std::pair(Timestamp(*look_.first), Timestamp(*look_.last));
  }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override;
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> event_counts() const override;
  [[nodiscard]] std::string event_name(const Event& event) const override;
  [[nodiscard]] std::string event_text(const Event& event) const override;
  [[nodiscard]] std::string comm(ThreadId thread) const override {
    const auto found = comms_.find(static_cast<std::int32_t>(thread));
    return found == comms_.end() ? std::string() : printable(found->second);
  }
  [[nodiscard]] std::string exit_reason(std::uint32_t isa, std::uint32_t reason,
                                        std::uint32_t exception_class) const override {
    return events_.reasons().of_exit(isa, reason, exception_class);
  }
  [[nodiscard]] std::string userspace_reason(std::uint32_t reason) const override {
    return events_.reasons().of_userspace(reason);
  }

 private:
  bool fill_loss(Event& event);
  bool on_line(std::string_view text, Event& event);
  bool join(std::string_view text, std::size_t most, Event& event);
  void take(const TextLine& line, Event& event);
  void place(const TextLine& line, std::uint16_t type, Event& event);
  void note_comm(const TextLine& line);

  File file_;
  TextLines lines_;
  TextEvents events_;
  std::vector<TextLoss> losses_;
  std::size_t next_loss_ = 0;
  TextLook look_;
  Repetition again_;
  EventClass selected_ = EventClass::kAll;
  std::string joined_;
  std::size_t joined_pieces_ = 0;
  std::uint64_t last_ = 0, others_ = 0, wrapped_ = 0, early_ = 0;
  std::vector<std::uint64_t> counts_;  // by type
  std::unordered_map<std::int32_t, std::string> comms_;
  MarkerCalls marker_calls_;
  SourceInfo info_;
  SourceCounters counters_;
};

Read TraceTextSource::next(Event& event) {
  if (fill_loss(event)) return Read::kEvent;
  for (std::string_view text; lines_.offset() < again_.begin && lines_.next(text);) {
    if (on_line(text, event)) return Read::kEvent;
    if (fill_loss(event)) return Read::kEvent;
  }
  return Read::kEnd;
}

bool TraceTextSource::fill_loss(Event& event) {
  if (next_loss_ == losses_.size() || losses_[next_loss_].offset > lines_.offset()) return false;
  const TextLoss& loss = losses_[next_loss_++];
  event = {};
  event.at = Timestamp(std::max(loss.from, last_));
  event.cpu = loss.cpu;
  event.thread = ThreadId{-1};
  event.payload = Lost{Timestamp(loss.from), Timestamp(loss.to), loss.count};
  counters_.add_gap(loss.count);
  return true;
}

// Whether it is an event that was selected.
bool TraceTextSource::on_line(std::string_view text, Event& event) {
  // A mailer wraps a line once or twice.
  constexpr std::size_t kMostPieces = 2;
  const TextLine line = parse_text_line(text);
  if (line.kind == Kind::kHeading || line.kind == Kind::kLoss) return false;
  if (line.kind == Kind::kOther || (line.digits == 0) != look_.whole()) {
    const bool may_begin = text.find('[') != text.npos;
    if (may_begin && join(text, 1, event)) return true;
    ++others_;
    return false;
  }
  const std::uint16_t type = events_.type_of(line);
  if (!has(selected_, events_.class_of(type))) {
    place(line, type, event);
    return false;
  }
  if (events_.decode(line, type, event)) {
    take(line, event);
    return true;
  }
  if (join(text, kMostPieces, event)) return true;
  // It was: its type and time are known, and no more.
  const TextLine cut = parse_text_line(joined_);
  (void)events_.decode(cut, type, event);
  take(cut, event);
  ++counters_.damaged_events;
  others_ += joined_pieces_;
  return true;
}

// Whether the line and what follows it, up to so many lines that are none of a trace by themselves,
// make an event. Otherwise joined_ is the line alone.
bool TraceTextSource::join(std::string_view text, std::size_t most, Event& event) {
  joined_ = text;
  const std::size_t alone = joined_.size();
  joined_pieces_ = 0;
  for (std::string_view more; joined_pieces_ < most && lines_.next(more);) {
    const Kind kind = parse_text_line(more).kind;
    more.remove_prefix(std::min(more.find_first_not_of("> \t"), more.size()));
    if (kind != Kind::kOther || more.empty() || more.size() > kLongestTraceLine) {
      lines_.again();
      break;
    }
    (joined_ += ' ') += more;
    ++joined_pieces_;
    const TextLine line = parse_text_line(joined_);
    if (line.kind != Kind::kEvent || (line.digits == 0) != look_.whole()) continue;
    if (!events_.decode(line, events_.type_of(line), event)) continue;
    ++wrapped_;
    take(line, event);
    return true;
  }
  joined_.resize(alone);
  if (most == 1 && joined_pieces_ == 1) {  // it may begin one itself
    lines_.again();
    joined_pieces_ = 0;
  }
  return false;
}

void TraceTextSource::take(const TextLine& line, Event& event) {
  note_comm(line);
  place(line, event.type, event);
  if (std::holds_alternative<Marker>(event.payload)) marker_calls_.on(event, counters_);
}

void TraceTextSource::place(const TextLine& line, std::uint16_t type, Event& event) {
  if (line.at < last_) ++early_;
  last_ = std::max(last_, line.at);
  event.at = Timestamp(last_);
  counters_.add_event(event.at);
  if (counts_.size() <= type) counts_.resize(events_.types());
  ++counts_[type];
}

void TraceTextSource::note_comm(const TextLine& line) {
  constexpr std::size_t kMostComms = 1U << 16, kLongestComm = 64;
  if (line.comm == "<...>" || line.comm.size() > kLongestComm) return;
  const auto found = comms_.find(line.thread);
  if (found != comms_.end()) {
    if (found->second != line.comm) found->second = line.comm;
  } else if (comms_.size() < kMostComms) {
    comms_.emplace(line.thread, line.comm);
  }
}

std::vector<std::pair<std::string, std::uint64_t>> TraceTextSource::event_counts() const {
  std::vector<std::pair<std::string, std::uint64_t>> counts;
  for (std::size_t type = 0; type < counts_.size(); ++type) {
    if (counts_[type] == 0) continue;
    counts.emplace_back(events_.name(static_cast<std::uint16_t>(type)), counts_[type]);
  }
  return counts;
}

std::vector<std::pair<std::string, std::string>> TraceTextSource::facts() const {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"format", look_.cycles()
                     ? "trace as text, times in cycles"
                     : fmt::format("trace as text, times in units of {} ns", look_.unit)}};
  const auto note = [&facts](std::string text) { facts.emplace_back("note", std::move(text)); };
  if (info_.resolution_ns) {
    note(fmt::format(
        "times are whole units of {0} ns: an interval is exact to ± {0} ns, the sum of N of them "
        "to ± N times that",
        *info_.resolution_ns));
  }
  if (others_ != 0) {
    note(fmt::format("{} not of a trace, and passed over",
                     others_ == 1 ? "1 line is" : fmt::format("{} lines are", others_)));
  }
  if (again_.events != 0)
    note(fmt::format("{} events repeat those that the text begins with, and are read once",
                     again_.events));
  if (wrapped_ != 0)
    note(fmt::format("{} read from wrapped lines",
                     wrapped_ == 1 ? "1 event was" : fmt::format("{} events were", wrapped_)));
  if (early_ != 0) {
    note(fmt::format("{} events stand after one of a later time, and get that time", early_));
  }
  return facts;
}

std::string TraceTextSource::event_name(const Event& event) const {
  if (auto name = name_of_payload(event)) return *std::move(name);
  return events_.name(event.type);
}

std::string TraceTextSource::event_text(const Event& event) const {
  if (auto text = text_of_payload(event)) return *std::move(text);
  return printable({reinterpret_cast<const char*>(event.raw.data()), event.raw.size()});
}

}  // namespace
}  // namespace trace_text

bool has_trace_line(std::string_view text) {
  while (!text.empty()) {
    const trace_text::TextLine line = trace_text::parse_text_line(take_line(text));
    if (line.kind == trace_text::TextLine::Kind::kEvent) return true;
  }
  return false;
}

Result<std::unique_ptr<Source>> open_trace_text(const std::string& path, std::string_view unit) {
  auto file = File::open(path);
  if (!file) return tl::unexpected(std::move(file).error());
  const trace_text::TextLook look = trace_text::look_at(*file, unit);
  if (!look.first) {
    return fail(
        "{}: no line is one of a trace; text is read as trace-cmd report, the files trace and "
        "trace_pipe of tracefs and perf script print it",
        path);
  }
  if (look.whole() && look.whole_unit.empty()) {
    return fail(ErrorKind::kUsage,
                "{}: its times are whole numbers, and no line says of which clock; give --unit ns "
                "(trace-cmd report prints the clock boot so) or --unit cycles (x86-tsc)",
                path);
  }
  const auto again = trace_text::find_repetition(*file);
  if (!again) return tl::unexpected(again.error());
  auto losses = trace_text::find_text_losses(*file, again->begin);
  if (!losses) return tl::unexpected(std::move(losses).error());
  return std::make_unique<trace_text::TraceTextSource>(std::move(*file), look, *again,
                                                       std::move(*losses));
}

}  // namespace trapline
