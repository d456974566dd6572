// Reads a printed trace as a source: `trace-cmd report`, with and without -t and -R, the files
// trace and trace_pipe of tracefs, `perf script`, and excerpts pasted into a mail: quoted, cut,
// wrapped, with prose around.
//
//   file → TextLines → TextLine → TextEvents → Event
//                └ TextLosses, before it is read
//
// A text does not name its clock. Its times are as exact as their last digit. Whole numbers, which
// trace-cmd prints for clocks that it does not know, have the unit that the user or a line about
// the clock gives. An event that comes after one with a later time gets that later time. Such
// lines, and lines that are not part of a trace, are counted, and facts() reports them as notes. An
// event whose text is cut off counts as damaged. A text that was pasted twice is read once.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "backend_ftrace/base/saturated_sum.h"
#include "backend_ftrace/base/text.h"
#include "merge/model/kernel_events.h"
#include "merge/source/file.h"
#include "merge/source/marker_calls.h"
#include "merge/source/open_recording.h"
#include "merge/source/payload_text.h"
#include "merge/source/trace_text/logical_lines.h"
#include "merge/source/trace_text/text_events.h"
#include "merge/source/trace_text/text_lines.h"

namespace trapline {
namespace trace_text {
namespace {

using Kind = TextLine::Kind;

// Limit for losses, each of which takes 48 bytes of memory.
constexpr std::size_t kMostLosses = 500'000;

// Returns the offset of the first `word` from `from` on; nullopt if there is none.
Result<std::optional<std::uint64_t>> find_in(const File& file, std::uint64_t from,
                                             std::string_view word) {
  constexpr std::size_t kBlockSize = 256U << 10;
  std::string block;
  for (std::uint64_t at = from; at < file.size(); at += kBlockSize) {
    block.resize(static_cast<std::size_t>(
        std::min<std::uint64_t>(file.size() - at, kBlockSize + word.size())));
    if (auto read = file.read(at, std::as_writable_bytes(std::span(block))); !read)
      return tl::unexpected(std::move(read).error());
    // memmem is much faster than string::find(), which compares at each occurrence of the first
    // letter.
    const void* found = ::memmem(block.data(), block.size(), word.data(), word.size());
    if (found != nullptr)
      return at + static_cast<std::uint64_t>(static_cast<const char*>(found) - block.data());
  }
  return std::nullopt;
}

// ---- the first pass

// Facts about a text, found by a first pass before its events are read.
struct TextLook {
  Capabilities has;
  TextForm form;
  std::int64_t more_whole = 0;  // how many more times without a fraction than with one
  std::string whole_unit;       // "ns", "cycles"; empty: not known
  std::uint64_t unit = 1;       // the unit of times with a fraction, in ns
  std::uint32_t cpus = 0;       // of the machine; 0: not known
  [[nodiscard]] bool whole() const { return more_whole > 0; }
  [[nodiscard]] bool cycles() const { return whole() && whole_unit == "cycles"; }
  std::optional<std::uint64_t> first, last;
  bool has_cpu = false, has_thread = false, has_vcpu = false, has_comm = false;
  std::set<std::string, std::less<>> labels;
  // The first time at which a vCPU enters or exits twice in a row: then a text without threads is
  // of several VMs.
  std::optional<std::uint64_t> twice;
  bool has_exit = false, has_entry = false;
  std::map<ThreadId, bool> entered;

  void on_vcpu(const Event& event, std::uint64_t at) {
    const auto* exit = std::get_if<KvmExit>(&event.payload);
    const auto* entry = std::get_if<KvmEntry>(&event.payload);
    if (exit == nullptr && entry == nullptr) return;
    (exit != nullptr ? has_exit : has_entry) = true;
    has_vcpu = has_vcpu || (exit != nullptr ? exit->vcpu : entry->vcpu) != kNoVcpu;
    if (has_thread) return;
    const auto [known, is_new] = entered.try_emplace(event.thread, entry != nullptr);
    if (!is_new && known->second == (entry != nullptr) && !twice) twice = at;
    known->second = entry != nullptr;
  }

  void on(const TextLine& line) {
    constexpr std::size_t kMostLabels = 8;
    has_cpu = has_cpu || line.has_cpu;
    has_thread = has_thread || line.has_thread;
    has_comm = has_comm || !line.comm.empty();
    if (labels.size() < kMostLabels) labels.emplace(line.label);
    more_whole += line.digits == 0 ? 1 : -1;
    std::uint64_t its = 1;
    for (int i = line.digits; i < 9 && line.digits != 0; ++i) its *= 10;
    unit = std::max(unit, its);
    first = std::min(first.value_or(line.at), line.at);
    last = std::max(last.value_or(0), line.at);
  }
};

// Learns the form of a text from its first lines.
class FormLearner {
 public:
  void on(const TextLine& line, const LogicalLines& lines) {
    ++events_;
    form_.wrapped = std::max(form_.wrapped, lines.widest());
    const std::string_view text = unquoted(lines.text());
    for (std::size_t i = 1; i < prefixes_.size(); ++i)
      prefixes_[i] += prefix_size(static_cast<Prefix>(i), text) != 0 ? 1U : 0U;
    if (lines.pieces() != 0) return;
    const bool lacks = lines.lacks_text() && line.kind == Kind::kEvent;
    const std::size_t width = lines.text().size();
    if (width > form_.cut) {
      lacking_before_ += lacking_;
      form_.cut = width;
      of_width_ = lacking_ = 0;
    }
    if (width == form_.cut) ++of_width_;
    (width == form_.cut ? lacking_ : lacking_before_) += lacks ? 1 : 0;
  }
  [[nodiscard]] std::uint64_t events() const { return events_; }
  // Returns the learned form; `tried` is the form with which the lines were parsed. Either all
  // lines with incomplete text were cut at one width, or none was cut.
  [[nodiscard]] TextForm form(const TextForm& tried) const {
    constexpr std::uint64_t kLeastCut = 3;
    TextForm form = tried;
    form.learns = false;
    form.wrapped = form_.wrapped;
    form.cut = form_.cut;
    if (of_width_ < kLeastCut || lacking_ <= lacking_before_ || form.wrapped != 0) form.cut = 0;
    for (std::size_t i = 1; i < prefixes_.size(); ++i) {
      // In a line without a time, the event's name looks like a label.
      if (form.timeless && static_cast<Prefix>(i) == Prefix::kLabel) continue;
      if (prefixes_[i] * 10 < events_ * 9) continue;
      form.prefix = static_cast<Prefix>(i);
      break;
    }
    return form;
  }

 private:
  using Prefix = TextForm::Prefix;
  TextForm form_;
  std::uint64_t events_ = 0, of_width_ = 0, lacking_ = 0, lacking_before_ = 0;
  std::array<std::uint64_t, TextForm::kPrefixes> prefixes_{};
};

constexpr std::uint64_t kLookedAt = 16'384;

TextForm form_of(const File& file) {
  TextForm form;
  for (const int missing : {0, 1, 2}) {
    TextEvents events;
    form = {};
    form.loose = missing != 0;
    form.timeless = missing == 2;
    form.learns = true;
    LogicalLines lines(file, events, form);
    FormLearner learner;
    TextLine line;
    Event event;
    for (std::uint64_t i = 0;
         (i < kLookedAt || learner.events() == 0) && lines.next(line, event, EventClass::kAll); ++i)
      if (line.kind == Kind::kEvent) learner.on(line, lines);
    if (learner.events() == 0) continue;
    form = learner.form(form);
    form.folded = lines.folded_in_words() > 0;
    return form;
  }
  return {};
}

// A part of the file to read: without repetitions of earlier parts, and on one side of an omission.
struct TextPart {
  std::uint64_t begin = 0, end = 0, first = 0, last = 0;
  bool after_gap = false;
};

struct TextPlan {
  std::vector<TextPart> parts;  // in the order of their times
  std::uint64_t repeated = 0;   // number of events
  bool all_twice = false;       // each line is repeated directly below
};

// Finds where a text repeats itself and where something was left out:
//
//   repeated   at least eight events, or all, that stand above in the same order
//   left out   other lines stand between two events, and the time goes back, or forward by more
//              than a thousand times the usual distance; or the line is "[...]"
//
// The time between a halt's exit and its entry does not count as left out.
class TextPlanner {
 public:
  // Returns whether no further event will be stored.
  [[nodiscard]] bool is_full() const { return seen_.size() == kMostSeen; }
  void on_event(const TextLine& line, const LogicalLines& lines, const Payload& payload) {
    if (is_full()) return;
    Seen seen{hash_of(line), line.at, lines.begin(), lines.offset(), line.thread, between_};
    seen.is_cut = !lines.is_whole();
    between_ = Between::kNone;
    if (const auto* exit = std::get_if<KvmExit>(&payload))
      seen.what =
          is_halt({exit->reason, exit->isa, exit->exception_class}) ? What::kHalt : What::kExit;
    else if (std::holds_alternative<KvmEntry>(payload))
      seen.what = What::kEntry;
    seen_.push_back(seen);
  }
  void on_other(std::string_view text) {
    text = unquoted(text);
    constexpr std::string_view kLeftOut[] = {"...",   "[...]",     "[snip]", "<snip>", "[cut]",
                                             "<...>", "<snip...>", "[..]",   "\u2026", "[\u2026]"};
    if (is_of_stack(text)) return;
    between_ = std::max(between_, text.empty() ? Between::kBlank
                                  : std::ranges::find(kLeftOut, text) != std::end(kLeftOut)
                                      ? Between::kLeftOut
                                      : Between::kOther);
  }
  [[nodiscard]] TextPlan plan(std::uint64_t size) {
    TextPlan plan;
    find_repeated(plan);
    const std::vector<bool> gaps = find_gaps();
    plan.parts.push_back({0, size, 0, 0, false});
    bool any = false;
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const Seen& seen = seen_[i];
      if (seen.repeats) {
        if (i == 0 || !seen_[i - 1].repeats) plan.parts.back().end = seen.begin;
        continue;
      }
      TextPart* part = &plan.parts.back();
      if (i != 0 && (seen_[i - 1].repeats || gaps[i])) {
        if (!seen_[i - 1].repeats) part->end = seen.begin;
        const std::uint64_t begin = gaps[i] ? seen.begin : seen_[i - 1].end;
        part = &plan.parts.emplace_back(TextPart{begin, size, seen.at, seen.at, gaps[i]});
      }
      if (!any) part->first = seen.at;
      any = true;
      part->last = std::max(part->last, seen.at);
    }
    order(plan.parts);
    return plan;
  }

 private:
  static constexpr std::size_t kMostSeen = 1U << 20;
  enum class Between : std::uint8_t { kNone, kBlank, kOther, kLeftOut };
  enum class What : std::uint8_t { kOther, kHalt, kExit, kEntry };
  struct Seen {
    std::uint64_t hash = 0, at = 0, begin = 0, end = 0;
    std::int32_t thread = 0;
    Between before = Between::kNone;
    What what = What::kOther;
    bool repeats = false, is_cut = false;
  };

  static std::uint64_t hash_of(const TextLine& line) {
    std::uint64_t hash = line.at * 0x9e3779b97f4a7c15 ^ line.cpu;
    for (const std::string_view text : {line.name, line.text})
      hash = hash * 0x9e3779b97f4a7c15 + std::hash<std::string_view>()(text);
    return hash + static_cast<std::uint32_t>(line.thread);
  }
  [[nodiscard]] bool same(std::size_t one, std::size_t other) const {
    return seen_[one].hash == seen_[other].hash ||
           (seen_[one].is_cut && seen_[one].at == seen_[other].at);
  }

  void find_repeated(TextPlan& plan) {
    constexpr std::size_t kLeast = 8, kMostKnown = 64U << 10;
    // By hash: the index of the first event with this hash.
    std::unordered_map<std::uint64_t, std::size_t> known;
    std::size_t originals = 0;  // the events before any repetition
    std::uint64_t latest = 0;
    for (std::size_t i = 0; i < seen_.size();) {
      // Only an event before the latest time can be a repetition: equal lines may be two events.
      const auto found = seen_[i].at < latest ? known.find(seen_[i].hash) : known.end();
      std::size_t size = 0;
      if (found != known.end())
        while (i + size < seen_.size() && found->second + size < i &&
               same(i + size, found->second + size))
          ++size;
      const bool is_all =
          size != 0 && found->second == 0 && (size == originals || i + size == seen_.size());
      if (size < kLeast && !is_all) {
        if (known.size() < kMostKnown) known.try_emplace(seen_[i].hash, i);
        latest = std::max(latest, seen_[i].at);
        ++i;
        if (plan.repeated == 0) originals = i;
        continue;
      }
      for (const std::size_t end = i + size; i < end; ++i) seen_[i].repeats = true;
      plan.repeated += size;
    }
    plan.all_twice = stands_twice();
  }

  // Returns whether nearly all events are repeated directly below, as if a text with each line
  // twice had been sorted.
  [[nodiscard]] bool stands_twice() const {
    constexpr std::size_t kLeastTwice = 16;
    std::size_t in_pairs = 0;
    for (std::size_t i = 0, size = 1; i < seen_.size(); i += size, size = 1) {
      while (i + size < seen_.size() && seen_[i + size].hash == seen_[i].hash) ++size;
      if (size == 2) in_pairs += 2;
    }
    return seen_.size() >= kLeastTwice && in_pairs * 100 >= seen_.size() * 95;
  }

  // Returns for each event whether something was left out before it.
  [[nodiscard]] std::vector<bool> find_gaps() const {
    constexpr std::uint64_t kLeast = 10'000'000, kLeastTimesUsual = 1000;
    std::vector<bool> gaps(seen_.size());
    std::vector<std::uint64_t> distances;
    std::size_t blanks = 0, kept = 0;
    const Seen* before = nullptr;
    for (const Seen& seen : seen_) {
      if (seen.repeats) continue;
      ++kept;
      blanks += seen.before == Between::kBlank ? 1 : 0;
      if (before != nullptr && seen.at >= before->at) distances.push_back(seen.at - before->at);
      before = &seen;
    }
    const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
    std::ranges::nth_element(distances, middle);
    const std::uint64_t usual = distances.empty() ? 0 : *middle;
    const auto is_gap = [&](const Seen& from, const Seen& to) {
      if (to.before == Between::kNone || (to.before == Between::kBlank && blanks * 10 > kept))
        return false;
      if (to.at < from.at || to.before == Between::kLeftOut) return true;
      return to.at - from.at > std::max(kLeast, usual * kLeastTimesUsual);
    };
    constexpr std::size_t kNone = ~std::size_t{0};
    std::size_t open = kNone;  // a gap that may be a halt
    std::int32_t halted = -1;
    before = nullptr;
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const Seen& seen = seen_[i];
      if (seen.repeats) continue;
      if (before != nullptr && is_gap(*before, seen)) {
        gaps[i] = true;
        open = halted == -1 || seen.at < before->at ? kNone : i;
      }
      if (open != kNone && seen.what == What::kEntry && seen.thread == halted) gaps[open] = false;
      if (seen.what != What::kOther) {
        open = kNone;
        halted = seen.what == What::kHalt ? seen.thread : -1;
      }
      before = &seen;
    }
    return gaps;
  }

  // Orders excerpts by time; excerpts that overlap keep their order.
  static void order(std::vector<TextPart>& parts) {
    const bool back = std::ranges::adjacent_find(parts, [](const TextPart& a, const TextPart& b) {
                        return b.first < a.last;
                      }) != parts.end();
    if (!back) return;
    std::vector<TextPart> sorted = parts;
    std::ranges::stable_sort(sorted, {}, &TextPart::first);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (i != 0 && sorted[i].first < sorted[i - 1].last) return;
      sorted[i].after_gap = i != 0;
    }
    parts = std::move(sorted);
  }

  std::vector<Seen> seen_;
  Between between_ = Between::kNone;
};

void look_from(const File& file, std::uint64_t from, std::uint64_t most, TextEvents& events,
               TextLook& look, TextPlanner* planner = nullptr) {
  LogicalLines lines(file, events, look.form, from);
  Event event;
  TextLine line;
  for (std::uint64_t i = 0; i < most && lines.next(line, event, EventClass::kAll); ++i) {
    if (line.kind != Kind::kEvent) {
      if (look.whole_unit.empty()) look.whole_unit = unit_of_clock_line(lines.text());
      if (line.kind == Kind::kHeading)
        look.cpus = std::max(look.cpus, cpus_of_heading(lines.text()));
      if (planner != nullptr && line.kind != Kind::kLoss) planner->on_other(lines.text());
      look.entered.clear();
      continue;
    }
    look.on(line);
    if (!lines.lacks_all()) events.witness(event.type).add(event.payload, look.has);
    if (!look.form.timeless) look.on_vcpu(event, line.at);
    if (planner != nullptr) planner->on_event(line, lines, event.payload);
  }
}

// Looks at three places, like the sample of a trace.dat; at the whole text if no kvm_exit is there.
void look_at_places(const File& file, TextLook& look) {
  constexpr std::uint64_t kTail = 64U << 10;
  TextEvents events;
  look_from(file, 0, kLookedAt, events, look);
  look_from(file, file.size() / 2, kLookedAt, events, look);
  look_from(file, file.size() - file.size() / 50, kLookedAt, events, look);
  if (!look.has.kvm_exit) look_from(file, 0, ~std::uint64_t{0}, events, look);
  look_from(file, file.size() - std::min(file.size(), kTail), kLookedAt, events, look);
}

// Returns whether the line of the first event occurs again after a later time.
Result<bool> begins_again(const File& file, const TextForm& form) {
  TextEvents events;
  LogicalLines lines(file, events, form);
  TextLine line;
  Event event;
  std::string first;
  std::uint64_t at = 0;
  while (lines.next(line, event, EventClass::kAll)) {
    if (line.kind != Kind::kEvent) continue;
    if (first.empty()) {
      first = "\n" + std::string(lines.text());
      at = line.at;
    }
    if (line.at <= at) continue;
    const auto again = find_in(file, lines.offset() - 1, first);
    if (!again) return tl::unexpected(again.error());
    return again->has_value();
  }
  return false;
}

// Looks at the whole text if it may be pasted (it is short or begins again), else at some places.
Result<TextPlan> look_at(const File& file, TextLook& look) {
  constexpr std::uint64_t kPasted = 4U << 20;
  look.form = form_of(file);
  bool all = file.size() <= kPasted;
  if (!all) {
    if (auto looked = assign(all, begins_again(file, look.form)); !looked)
      return tl::unexpected(std::move(looked).error());
  }
  TextPlanner planner;
  if (all) {
    TextEvents events;
    look_from(file, 0, ~std::uint64_t{0}, events, look, &planner);
  } else {
    look_at_places(file, look);
  }
  look.has.late_switches = true;
  if (!planner.is_full()) return planner.plan(file.size());
  return fail(ErrorKind::kUsage,
              "{}: its first event stands in it again, and it is too long to tell what else does; "
              "give each trace in a file of its own",
              file.path());
}

// ---- losses

// A loss that a line of the text reports, or an omission in the text. The line stands before the
// CPU's next event, perhaps far below the CPU's last event before the loss. The timeline must know
// the loss when it has read that last event, so losses are searched for before the text is read. A
// text that reports no loss is only searched for the words that would.
struct TextLoss {
  std::size_t part = 0;
  std::uint64_t offset = 0;  // in the file: the loss is returned when reading has come so far
  std::uint64_t from = 0, to = 0;
  std::uint64_t count = 0;  // 0: not known
  std::uint32_t cpu = 0;
  // An omission in the text makes a loss on each CPU: true for the first CPU's, false for the
  // others.
  bool is_counted = true;
};

struct LastOfCpu {
  std::size_t part = 0;
  std::uint64_t offset = 0, at = 0;
  bool lost = false;
  std::uint64_t count = 0;
};

Result<bool> tells_of_losses(const File& file) {
  for (const std::string_view words :
       {"[LOST ", "EVENTS DROPPED]", " buffer started ####", "PERF_RECORD_LOST"}) {
    const auto found = find_in(file, 0, words);
    if (!found) return tl::unexpected(found.error());
    if (*found) return true;
  }
  return false;
}

class TextLosses {
 public:
  void on(const TextLine& line, std::size_t part, std::uint64_t offset) {
    if (line.kind == Kind::kLoss) {
      // If this loss begins the CPU's events, all that the CPU did before was lost: the loss begins
      // with the first event of the text.
      if (line.is_begin && first_) cpus_.try_emplace(line.cpu, *first_);
      const auto cpu = cpus_.find(line.cpu);
      if (cpu == cpus_.end()) return;
      cpu->second.count = saturated_sum(cpu->second.count, line.count);
      cpu->second.lost = true;
    } else if (line.kind == Kind::kEvent) {
      last_ = std::max(last_, line.at);
      LastOfCpu& cpu = cpus_[line.cpu];
      if (cpu.lost) add(line.cpu, cpu);
      cpu = {part, offset, last_, false, 0};
      if (!first_) first_ = cpu;
    }
  }
  // Adds a loss on each CPU seen so far, for what was left out of the text between two parts.
  void left_out(const TextPart& before, const TextPart& after, std::size_t part) {
    bool is_first = true;
    for (auto& [number, cpu] : cpus_) {
      losses_.push_back({part, after.begin, before.last, after.first, 0, number, is_first});
      cpu.lost = is_first = false;
    }
  }
  [[nodiscard]] std::size_t size() const { return losses_.size(); }
  [[nodiscard]] std::vector<TextLoss> take() {
    for (const auto& [number, cpu] : cpus_)
      if (cpu.lost) add(number, cpu);
    std::ranges::stable_sort(losses_, [](const TextLoss& a, const TextLoss& b) {
      return std::pair(a.part, a.offset) < std::pair(b.part, b.offset);
    });
    return std::move(losses_);
  }

 private:
  void add(std::uint32_t number, const LastOfCpu& cpu) {
    losses_.push_back({cpu.part, cpu.offset, cpu.at, last_, cpu.count, number});
  }

  std::map<std::uint32_t, LastOfCpu> cpus_;
  std::optional<LastOfCpu> first_;  // the text's first event
  std::uint64_t last_ = 0;
  std::vector<TextLoss> losses_;
};

// Returns the losses in the order in which they are read. Errors: the file cannot be read; there
// are more losses than a recording can have.
Result<std::vector<TextLoss>> find_text_losses(const File& file, const TextForm& form,
                                               const std::vector<TextPart>& parts) {
  bool any = std::ranges::any_of(parts, &TextPart::after_gap);
  if (!any) {
    if (auto checked = assign(any, tells_of_losses(file)); !checked)
      return tl::unexpected(std::move(checked).error());
  }
  if (!any) return std::vector<TextLoss>();
  TextLosses losses;
  TextEvents events;
  LogicalLines lines(file, events, form);
  Event event;
  TextLine line;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].after_gap) losses.left_out(parts[i - 1], parts[i], i);
    lines.go_to(parts[i].begin, parts[i].end);
    while (lines.next(line, event, EventClass{})) {
      losses.on(line, i, lines.offset());
      if (losses.size() > kMostLosses) {
        return fail(ErrorKind::kDamaged,
                    "{}: events were lost more than {} times; record with larger buffers",
                    file.path(), kMostLosses);
      }
    }
    if (!lines.status()) return tl::unexpected(lines.status().error());
  }
  return losses.take();
}

// Checks that vCPUs can be told apart. Errors: lines are folded within words; they are of several
// recordings or VMs; they have no thread, vCPU or name.
Result<void> check_machines(const std::string& path, const TextLook& look) {
  const auto is_file = [](const std::string& label) { return label.find('.') != label.npos; };
  if (look.form.folded)
    return fail(ErrorKind::kDamaged,
                "{}: its lines are folded within words, so numbers cannot be told from parts of "
                "them; give it as it was before",
                path);
  if (look.labels.size() > 1 && std::ranges::any_of(look.labels, is_file)) {
    return fail(ErrorKind::kUsage,
                "{0}: its lines are of several recordings ({1}), maybe of several machines; read "
                "one of them: grep '^ *{2}: ' {0} | trapline report -",
                path, fmt::join(look.labels, ", "), *std::ranges::find_if(look.labels, is_file));
  }
  constexpr const char* kPrint =
      "print both: trace-cmd report, or perf script -F comm,tid,cpu,time,event,trace";
  if (!look.has_thread && !look.has_vcpu && !look.has_comm && !look.form.timeless)
    return fail(ErrorKind::kDamaged, "{}: its lines have no thread and no vCPU; {}", path, kPrint);
  if (!look.has_thread && look.twice && look.has_exit && look.has_entry) {
    return fail(ErrorKind::kDamaged,
                "{}: its lines have no thread, and a vCPU enters or leaves the guest twice at {}: "
                "they are of several VMs; {}",
                path, *look.twice, kPrint);
  }
  return {};
}

class TraceTextSource final : public Source {
 public:
  TraceTextSource(File file, const TextLook& look, TextPlan plan, std::vector<TextLoss> losses)
      : file_(std::move(file)),
        plan_(std::move(plan)),
        losses_(std::move(losses)),
        look_(look),
        lines_(file_, events_, look_.form, plan_.parts[0].begin, plan_.parts[0].end) {
    info_.path = file_.path();
    info_.kind = "trace text";
    info_.clock = look.form.timeless ? "none" : "unknown";
    info_.cycles = look.cycles();
    if (look.unit > 1 && !look.form.timeless) info_.resolution_ns = look.unit;
  }
  [[nodiscard]] Result<std::unique_ptr<Source>> reopen() const override {
    return std::make_unique<TraceTextSource>(file_, look_, plan_, losses_);
  }

  void select(EventClass events) override { selected_ = events; }
  Read take(Event& event) override {
    for (TextLine line;;) {
      if (fill_loss(event)) return Read::kEvent;
      if (lines_.next(line, event, selected_)) {
        if (on_line(line, event)) return Read::kEvent;
      } else if (lines_.status() && part_ + 1 < plan_.parts.size()) {
        const TextPart& next = plan_.parts[++part_];
        lines_.go_to(next.begin, next.end);
      } else {
        return Read::kEnd;
      }
    }
  }

  [[nodiscard]] const Result<void>& status() const override { return lines_.status(); }
  [[nodiscard]] double progress() const override {
    return static_cast<double>(lines_.offset()) / static_cast<double>(file_.size());
  }
  [[nodiscard]] Capabilities capabilities() const override { return look_.has; }
  [[nodiscard]] Description describe() const override {
    Description is = Source::describe();
    is.machine.cpus = look_.cpus;
    return is;
  }
  [[nodiscard]] std::optional<std::pair<Timestamp, Timestamp>> range() const override {
    if (!look_.first) return std::nullopt;
    return std::pair(Timestamp(*look_.first), Timestamp(*look_.last));
  }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override {
    std::vector<std::pair<std::string, std::string>> facts = {
        {"format", look_.cycles()
                       ? "trace as text, times in cycles"
                       : fmt::format("trace as text, times in units of {} ns", look_.unit)}};
    const auto note = [&facts](std::string text) { facts.emplace_back("note", std::move(text)); };
    if (info_.resolution_ns) {
      note(
          fmt::format("times have a resolution of {0} ns: a duration is exact to ± {0} ns, a sum "
                      "of N durations to ± N times that",
                      *info_.resolution_ns));
    }
    const auto lines_are = [](std::uint64_t count) {
      return count == 1 ? std::string("1 line is") : fmt::format("{} lines are", count);
    };
    if (others_ != 0) note(lines_are(others_) + " not of a trace, and passed over");
    if (plan_.repeated != 0)
      note(fmt::format("{} events repeat earlier ones line by line, and are read once",
                       plan_.repeated));
    if (look_.form.timeless)
      note("no line has a time: exits are counted, and nothing is known of how long they took");
    if (!look_.has_cpu)
      note("no line has its CPU: the scheduler's events are counted, and not used");
    if (!look_.has_thread)
      note("no line has its thread: one VM is assumed, and its vCPUs' numbers tell them apart");
    if (cut_ != 0)
      note(fmt::format("{} cut at {} characters: what would follow is not known", lines_are(cut_),
                       look_.form.cut));
    if (wrapped_ != 0)
      note(fmt::format("{} read from wrapped lines",
                       wrapped_ == 1 ? "1 event was" : fmt::format("{} events were", wrapped_)));
    if (early_ != 0)
      note(fmt::format("{} events stand after one of a later time, and get that time", early_));
    return facts;
  }
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> event_counts() const override {
    std::vector<std::pair<std::string, std::uint64_t>> counts;
    for (std::size_t type = 0; type < counts_.size(); ++type) {
      if (counts_[type] == 0) continue;
      counts.emplace_back(events_.name(static_cast<std::uint16_t>(type)), counts_[type]);
    }
    return counts;
  }
  [[nodiscard]] std::string event_name(const Event& event) const override {
    if (auto name = name_of_payload(event)) return *std::move(name);
    return events_.name(event.type);
  }
  [[nodiscard]] std::string event_text(const Event& event) const override {
    if (auto text = text_of_payload(event)) return *std::move(text);
    return printable({reinterpret_cast<const char*>(event.raw.data()), event.raw.size()});
  }
  [[nodiscard]] std::string name_of(ThreadId thread) const override {
    const auto found = comms_.find(tid_of(thread));
    return found == comms_.end() ? std::string() : printable(found->second);
  }
  [[nodiscard]] std::string reason_name(const ExitReason& reason) const override {
    return events_.reasons().of(reason);
  }

 private:
  bool fill_loss(Event& event) {
    if (next_loss_ == losses_.size()) return false;
    const TextLoss& loss = losses_[next_loss_];
    if (std::pair(loss.part, loss.offset) > std::pair(part_, lines_.offset())) return false;
    ++next_loss_;
    event = {};
    event.at = Timestamp(std::max(loss.from, last_));
    event.cpu = loss.cpu;
    event.thread = ThreadId{-1};
    event.payload = Lost{Timestamp(loss.from), Timestamp(loss.to), loss.count};
    if (loss.is_counted) counters_.add_gap(loss.count);
    return true;
  }
  // Returns whether the line is a selected event.
  bool on_line(const TextLine& line, Event& event) {
    if (line.kind == Kind::kHeading || line.kind == Kind::kLoss) return false;
    if (line.kind == Kind::kOther || (line.digits == 0) != look_.whole()) {
      ++others_;
      return false;
    }
    if (lines_.pieces() != 0) ++wrapped_;
    place(line, event);
    if (!has(selected_, events_.class_of(event.type))) return false;
    if (lines_.lacks_all()) ++counters_.damaged_events;
    if (line.is_cut) ++cut_;
    note_comm(line);
    if (std::holds_alternative<Marker>(event.payload)) marker_calls_.on(event, counters_);
    return true;
  }
  void place(const TextLine& line, Event& event) {
    if (line.at < last_) ++early_;
    last_ = std::max(last_, line.at);
    event.at = Timestamp(last_);
    counters_.add_event(event.at);
    if (counts_.size() <= event.type) counts_.resize(events_.types());
    ++counts_[event.type];
  }
  void note_comm(const TextLine& line) {
    constexpr std::size_t kMostComms = 1U << 16, kLongestComm = 64;
    if (line.comm == "<...>" || line.comm.size() > kLongestComm) return;
    const auto found = comms_.find(line.thread);
    if (found != comms_.end()) {
      if (found->second != line.comm) found->second = line.comm;
    } else if (comms_.size() < kMostComms) {
      comms_.emplace(line.thread, line.comm);
    }
  }

  File file_;
  TextEvents events_;
  TextPlan plan_;
  std::size_t part_ = 0;
  std::vector<TextLoss> losses_;
  std::size_t next_loss_ = 0;
  TextLook look_;
  LogicalLines lines_;
  EventClass selected_ = EventClass::kAll;
  std::uint64_t last_ = 0, others_ = 0, wrapped_ = 0, early_ = 0, cut_ = 0;
  std::vector<std::uint64_t> counts_;  // by type
  std::unordered_map<std::int32_t, std::string> comms_;
  MarkerCalls marker_calls_;
};

}  // namespace
}  // namespace trace_text

bool has_trace_line(std::string_view text) {
  using namespace trace_text;
  TextForm loose, timeless;
  loose.loose = timeless.loose = timeless.timeless = true;
  TextEvents events;
  while (!text.empty()) {
    const std::string_view one = take_line(text);
    const TextLine line = parse_text_line(one);
    if (line.kind == TextLine::Kind::kEvent || begins_event(one, {})) return true;
    const TextLine other = parse_text_line(one, loose), bare = parse_text_line(one, timeless);
    if (other.kind == TextLine::Kind::kEvent && events.is_known(other)) return true;
    if (bare.kind == TextLine::Kind::kEvent && bare.name.ends_with(events::kvm_exit.name))
      return true;
  }
  return false;
}

Result<std::unique_ptr<Source>> open_trace_text(File file, std::string_view unit) {
  const std::string path = file.path();
  trace_text::TextLook look;
  look.whole_unit = unit;
  auto plan = trace_text::look_at(file, look);
  if (!plan) return tl::unexpected(std::move(plan).error());
  if (!look.first) {
    return fail(
        "{}: no line is one of a trace; text is read as trace-cmd report, the files trace and "
        "trace_pipe of tracefs and perf script print it",
        path);
  }
  if (auto checked = trace_text::check_machines(path, look); !checked)
    return tl::unexpected(std::move(checked).error());
  if (plan->all_twice) {
    return fail(ErrorKind::kDamaged,
                "{}: each of its lines stands there twice; give one of each: uniq {} | trapline "
                "report -",
                path, path);
  }
  if (look.whole() && look.whole_unit.empty()) {
    return fail(ErrorKind::kUsage,
                "{}: its times are whole numbers, and no line says of which clock; give --unit ns "
                "(trace-cmd report prints the clock boot so) or --unit cycles (x86-tsc)",
                path);
  }
  auto losses = trace_text::find_text_losses(file, look.form, plan->parts);
  if (!losses) return tl::unexpected(std::move(losses).error());
  return std::make_unique<trace_text::TraceTextSource>(std::move(file), look, std::move(*plan),
                                                       std::move(*losses));
}

}  // namespace trapline
