#include "merge/source/trace_text/text_fields.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/model/event.h"
#include "merge/source/trace_text/reason_numbers.h"
#include "merge/source/trace_text/text_lines.h"

namespace trapline::trace_text {
namespace {

using kernel_events::Schema;

// Reads a printed text from left to right. Once something is missing, all later reads fail.
class FormatScan {
 public:
  explicit FormatScan(std::string_view text) : rest_(text) {}

  // Moves to after the first `word`.
  FormatScan& to(std::string_view word) {
    const std::size_t at = rest_.find(word);
    ok_ = ok_ && at != rest_.npos;
    if (ok_) rest_.remove_prefix(at + word.size());
    return *this;
  }
  // Skips `word` if it is next; returns whether it was.
  bool eat(std::string_view word) {
    blanks();
    return take_text(rest_, word);
  }
  // Reads a number; with 0x in front it is hexadecimal whatever `base` is.
  std::uint64_t number(int base) {
    blanks();
    const bool negative = rest_.starts_with('-');
    if (negative) rest_.remove_prefix(1);
    if (rest_.starts_with("0x")) {
      rest_.remove_prefix(2);
      base = 16;
    }
    std::uint64_t value = 0;
    ok_ = ok_ && take_number(rest_, value, base);
    if (!ok_) return 0;
    return negative ? ~value + 1 : value;
  }
  std::uint64_t decimal() { return number(10); }
  std::uint64_t hex() { return number(16); }
  std::string_view word() {
    blanks();
    const std::string_view word = rest_.substr(0, std::min(rest_.find(' '), rest_.size()));
    rest_.remove_prefix(word.size());
    ok_ = ok_ && !word.empty();
    return word;
  }
  // Reads the longest of the words in "a|b|c" that is next, and returns its index.
  std::uint64_t one_of(std::string_view words) {
    blanks();
    std::optional<std::string_view> longest;
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; words.data() != nullptr; ++i) {
      const std::size_t end = words.find('|');
      const std::string_view word = words.substr(0, end);
      if (rest_.starts_with(word) && (!longest || word.size() > longest->size())) {
        longest = word;
        found = i;
      }
      words = end == words.npos ? std::string_view() : words.substr(end + 1);
    }
    ok_ = ok_ && longest.has_value();
    if (ok_) rest_.remove_prefix(longest->size());
    return found;
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  void blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }

  std::string_view rest_;
  bool ok_ = true;
};

// ---- NAME=VALUE

// Returns whether print formats show the field in hexadecimal without 0x.
bool is_bare_hex(std::string_view field) {
  constexpr std::string_view kBare[] = {"ecx",         "function", "index", "fault_address",
                                        "clone_flags", "code",     "cmd"};
  return std::ranges::find(kBare, field) != std::end(kBare);
}

// Returns the value after the last "NAME=" or "NAME: "; the last, because names of threads come
// first and may contain anything.
std::optional<std::string_view> value_of(std::string_view text, std::string_view name) {
  for (std::size_t at = text.rfind(name); at != text.npos && !text.empty();
       at = at == 0 ? text.npos : text.rfind(name, at - 1)) {
    const bool begins = at == 0 || text[at - 1] == ' ' || text[at - 1] == '(';
    std::string_view after = text.substr(at + name.size());
    if (!begins || (!after.starts_with('=') && !after.starts_with(": "))) continue;
    after.remove_prefix(1);
    after.remove_prefix(std::min(after.find_first_not_of(' '), after.size()));
    return after.substr(0, std::min(after.find_first_of(" ,)"), after.size()));
  }
  return std::nullopt;
}

// Parses flags like "GFP_HIGHUSER_MOVABLE|__GFP_ZERO": those of linux/gfp_types.h that a decoder
// uses.
std::uint64_t gfp_bits(std::string_view names) {
  std::uint64_t bits = 0;
  for (const std::string_view name : split(names, '|')) {
    if (name.ends_with("MOVABLE") || name.starts_with("GFP_TRANSHUGE")) bits |= kGfpMovable;
    if (name == "__GFP_ZERO") bits |= kGfpZero;
    if (name == "__GFP_THISNODE") bits |= kGfpThisNode;
  }
  return bits;
}

bool set_value(TextValues& values, std::string_view text, std::string_view field) {
  const auto value = value_of(text, field);
  if (!value) return false;
  if (field == "gfp_flags" && value->find("GFP_") != value->npos) {
    values.set(field, gfp_bits(*value));
    return true;
  }
  FormatScan scan(*value);
  const std::uint64_t number = is_bare_hex(field) ? scan.hex() : scan.decimal();
  if (!scan.ok()) return false;
  values.set(field, number);
  return true;
}

// Reads the event's fields as far as the text has them. One is enough, because some kernels lack
// some of the fields.
bool read_list(std::string_view text, TextValues& values) {
  constexpr std::string_view kOfFlags = "common_flags";  // not part of the text
  // kvm_entry has no vCPU on arm64 and RISC-V, so it may lack every field.
  const KernelEvent& event = values.event();
  bool any = event.fields[0].empty() || event.decoded.decoder == Decoder::kEntry;
  for (const std::string_view field : event.fields) {
    if (field.empty()) break;
    any |= field == kOfFlags || set_value(values, text, field);
  }
  return any;
}

bool is_list(std::string_view text) {
  const auto* const end = std::ranges::find_if_not(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
  return end != text.begin() && end != text.end() && *end == '=';
}

// ---- print formats

// Compares a pattern of KernelEvent::printed with the text from left to right:
//
//   {field}        a number, decimal unless 0x stands before it
//   {field:x}      a hexadecimal number; {field:p}: the number of a page, read as its address
//   {field=a|b}    the longest of these words that comes next, read as its index
//   {=a|b}         the same, without a field
//   [ ... ]        may be missing
//   A||B           one pattern or the other
//   anything else  skips the text up to and including this
class PrintFormat {
 public:
  explicit PrintFormat(std::string_view pattern) : pattern_(pattern) {}

  bool read(std::string_view text, TextValues& values) {
    for (;;) {
      const std::size_t other = pattern_.find("||");
      FormatScan scan(text);
      PrintFormat one(pattern_.substr(0, other));
      if (one.read_part(scan, values)) return true;
      if (other == pattern_.npos) return false;
      pattern_.remove_prefix(other + 2);
    }
  }

 private:
  // Removes the pattern up to and including `end`, and returns what was before `end`.
  std::string_view take(char end) {
    const std::string_view taken = pattern_.substr(0, pattern_.find(end));
    pattern_.remove_prefix(std::min(taken.size() + 1, pattern_.size()));
    return taken;
  }
  bool read_part(FormatScan& scan, TextValues& values) {
    while (!pattern_.empty() && scan.ok()) {
      if (pattern_.starts_with('{')) {
        pattern_.remove_prefix(1);
        read_field(take('}'), scan, values);
      } else if (pattern_.starts_with('[')) {
        pattern_.remove_prefix(1);
        FormatScan after = scan;
        const TextValues before = values;
        if (PrintFormat(take(']')).read_part(after, values))
          scan = after;
        else
          values = before;
      } else {
        const std::string_view passed =
            pattern_.substr(0, std::min(pattern_.find('{'), pattern_.find('[')));
        pattern_.remove_prefix(passed.size());
        scan.to(trimmed(passed));
      }
    }
    return scan.ok();
  }
  static void read_field(std::string_view field, FormatScan& scan, TextValues& values) {
    constexpr unsigned kPageBits = 12;
    const std::size_t name_end = std::min(field.find(':'), field.find('='));
    const std::string_view name = field.substr(0, name_end);
    const std::string_view how = name_end == field.npos ? "" : field.substr(name_end + 1);
    const std::uint64_t value = how.empty()              ? scan.decimal()
                                : field[name_end] == '=' ? scan.one_of(how)
                                : how == "p"             ? scan.hex() << kPageBits
                                                         : scan.hex();
    if (scan.ok()) values.set(name, value);
  }

  std::string_view pattern_;
};

bool kvm_userspace_exit(FormatScan scan, TextValues& values) {
  if (!scan.eat("reason")) return false;
  const std::string_view name = scan.word();
  const std::uint64_t number = scan.to("(").decimal();
  const bool failed = name == "restart" || name == "error";
  values.set("reason", failed ? 0 : number);
  values.set("errno", failed ? ~number + 1 : 0);
  return scan.ok();
}
bool kvm_pic_set_irq(FormatScan scan, TextValues& values) {
  const std::uint64_t chip = scan.to("chip").decimal(), pin = scan.to("pin").decimal();
  const std::string_view how = scan.rest().substr(0, scan.rest().find(')'));
  const bool masked = how.find("masked") != how.npos;
  values.set("chip", chip);
  values.set("pin", pin);
  values.set("imr", masked ? std::uint64_t{1} << (pin & 7) : 0);
  return scan.ok();
}
// Parses "S", "R+", "D|K", "W": the bits of task_struct's state that a decoder uses.
std::uint64_t state_bits(std::string_view letters) {
  constexpr std::pair<char, std::uint64_t> kBits[] = {
      {'R', 0}, {'|', 0}, {'+', 0x100}, {'T', 0x4}, {'t', 0x8}, {'X', 0x10}, {'Z', 0x10}};
  constexpr std::uint64_t kSleeps = 0x1;
  std::uint64_t bits = 0;
  for (const char letter : letters) {
    const auto* known = std::ranges::find(kBits, letter, &std::pair<char, std::uint64_t>::first);
    bits |= known == std::end(kBits) ? kSleeps : known->second;
  }
  return bits;
}
// Marks a reason whose name was cut and may be one of several.
constexpr std::uint32_t kCutReason = 0x7fff;
constexpr const char* kCut = "[cut]";

std::optional<std::uint64_t> whole_decimal(std::string_view text) {
  FormatScan scan(text);
  const std::uint64_t value = scan.decimal();
  return scan.ok() && scan.rest().empty() ? std::optional(value) : std::nullopt;
}
struct PrintedThread {
  std::string_view comm;
  std::uint64_t pid = 0, priority = 0;
};
// Parses "comm", BEFORE_PID, "pid", BEFORE_PRIORITY, "prio". A comm may contain all of these.
std::optional<PrintedThread> printed_thread(std::string_view text, std::string_view before_pid,
                                            std::string_view before_priority) {
  const std::size_t second = text.rfind(before_priority), first = text.rfind(before_pid, second);
  if (second == text.npos || first > kMostOfComm) return std::nullopt;
  const std::size_t pid = first + before_pid.size();
  const auto number = whole_decimal(text.substr(pid, std::max(pid, second) - pid));
  const auto priority = whole_decimal(text.substr(second + before_priority.size()));
  if (!number || !priority) return std::nullopt;
  return PrintedThread{text.substr(0, first), *number, *priority};
}
// Parses "comm:pid [prio]" of trace-cmd's plugin.
std::optional<PrintedThread> plugin_thread(std::string_view text) {
  if (!text.ends_with(']')) return std::nullopt;
  return printed_thread(text.substr(0, text.size() - 1), ":", " [");
}
struct PrintedSwitch {
  PrintedThread prev, next;
  std::string_view state;
};
// Limit for the bytes before the arrow of a sched_switch: a name, two numbers and a state.
constexpr std::size_t kLongestPrev = 160;
// Parses "comm:pid [prio] S ==> comm:pid [prio]" or "prev_comm=comm prev_pid=1 prev_prio=120
// prev_state=S ==> next_comm=comm next_pid=2 next_prio=120", which raw output has without the
// arrow. A thread may be called "x:1 [1] R ==> y", so of several possible places for the arrow the
// right one is where the previous thread is the thread of the event's line.
bool sched_switch(FormatScan scan, TextValues& values) {
  const bool list = scan.eat("prev_comm=");
  const std::string_view text = scan.rest(), parts = list ? " next_comm=" : " ==> ",
                         before_state = list ? " prev_state=" : " ";
  const auto thread = [list](std::string_view one, std::string_view pid,
                             std::string_view priority) {
    return list ? printed_thread(one, pid, priority) : plugin_thread(one);
  };
  std::vector<PrintedSwitch> found;
  for (std::size_t at = text.find(parts); at < kLongestPrev; at = text.find(parts, at + 1)) {
    std::string_view left = text.substr(0, at), right = text.substr(at + parts.size());
    if (list && left.ends_with(" ==>")) left.remove_suffix(4);
    const std::size_t state = left.rfind(before_state);
    const auto prev = thread(left.substr(0, state), " prev_pid=", " prev_prio="),
               next = thread(right, " next_pid=", " next_prio=");
    if (state != left.npos && prev && next)
      found.push_back({*prev, *next, left.substr(state + before_state.size())});
  }
  const auto is_other = [&values](const PrintedSwitch& one) {
    return one.prev.comm != values.comm || std::cmp_not_equal(one.prev.pid, values.thread);
  };
  if (found.size() > 1) std::erase_if(found, is_other);
  if (found.size() != 1) return false;
  const PrintedSwitch& is = found.front();
  values.set("prev_pid", is.prev.pid);
  values.set("next_pid", is.next.pid);
  values.set("prev_prio", is.prev.priority);
  const auto number = parse_number(is.state);
  values.set("prev_state", number ? *number : state_bits(is.state));
  values.name = is.next.comm;
  return true;
}
// Parses "comm:pid [prio] CPU:001" of trace-cmd's plugin; until late 4.x kernels with "success=1".
bool sched_wakeup(FormatScan scan, TextValues& values) {
  const std::string_view text = scan.rest();
  const std::size_t cpu = text.rfind(" CPU:");
  if (cpu == text.npos) return false;
  const auto target = whole_decimal(text.substr(cpu + 5));
  const auto thread = plugin_thread(text.substr(0, text.rfind(']', cpu) + 1));
  if (!target || !thread) return false;
  values.set("pid", thread->pid);
  values.set("target_cpu", *target);
  return true;
}

std::optional<std::uint64_t> futex_operation(std::string_view text) {
  constexpr std::string_view kNames[] = {
      "FUTEX_WAIT",           "FUTEX_WAKE",        "FUTEX_FD",          "FUTEX_REQUEUE",
      "FUTEX_CMP_REQUEUE",    "FUTEX_WAKE_OP",     "FUTEX_LOCK_PI",     "FUTEX_UNLOCK_PI",
      "FUTEX_TRYLOCK_PI",     "FUTEX_WAIT_BITSET", "FUTEX_WAKE_BITSET", "FUTEX_WAIT_REQUEUE_PI",
      "FUTEX_CMP_REQUEUE_PI", "FUTEX_LOCK_PI2"};
  constexpr std::uint64_t kPrivate = 128, kRealtime = 256;
  if (!text.starts_with("FUTEX_")) {
    FormatScan scan(text);
    const std::uint64_t value = scan.hex();
    return scan.ok() ? std::optional(value) : std::nullopt;
  }
  const auto* name = std::ranges::find(kNames, text.substr(0, text.find('|')));
  if (name == std::end(kNames)) return std::nullopt;
  return static_cast<std::uint64_t>(name - std::begin(kNames)) |
         (text.find("|FUTEX_PRIVATE_FLAG") != text.npos ? kPrivate : 0) |
         (text.find("|FUTEX_CLOCK_REALTIME") != text.npos ? kRealtime : 0);
}
// Parses "op=FUTEX_WAKE|FUTEX_PRIVATE_FLAG uaddr=0x004bcae0 val=1"; also the kernel's
// "sys_futex(uaddr: 7f3c, op: 80, val: 1, …)", which is hexadecimal without 0x.
bool sys_enter_futex(FormatScan scan, TextValues& values) {
  const std::string_view text = scan.rest();
  const auto address = value_of(text, "uaddr"), op = value_of(text, "op"),
             val = value_of(text, "val");
  if (!address || !op || !val) return false;
  const auto operation = futex_operation(*op);
  const bool symbolic = op->starts_with("FUTEX_");
  FormatScan of_address(*address), of_val(*val);
  values.set("uaddr", of_address.hex());
  values.set("op", operation.value_or(0));
  values.set("val", symbolic ? of_val.decimal() : of_val.hex());
  return operation && of_address.ok() && of_val.ok();
}
// Parses "254,16 RA 1310720 () 57344 + 2560 [worker]".
bool block_io(FormatScan scan, TextValues& values) {
  constexpr int kMinorBits = 20;
  const std::uint64_t major = scan.decimal();
  if (!scan.eat(",")) return false;
  values.set("dev", major << kMinorBits | scan.decimal());
  values.name = scan.word();
  const std::string_view rest = scan.rest();
  const std::size_t plus = rest.find(" + ");
  if (!scan.ok() || plus == rest.npos) return false;
  FormatScan sector(rest.substr(rest.rfind(' ', plus - (plus == 0 ? 0 : 1)) + 1)),
      sectors(rest.substr(plus + 3));
  values.set("sector", sector.decimal());
  values.set("nr_sector", sectors.decimal());
  return sector.ok() && sectors.ok();
}
bool raw_block_io(std::string_view text, TextValues& values) {
  const auto kind = value_of(text, "rwbs");
  if (kind) values.name = *kind;
  return kind && read_list(text, values);
}

}  // namespace

// ---- TextValues

std::size_t TextValues::index(std::string_view field) const {
  for (std::size_t i = 0; i < kMostFields && !event_->fields[i].empty(); ++i)
    if (event_->fields[i] == field) return i;
  return kMostFields;
}

void TextValues::set(std::string_view field, std::uint64_t value) {
  const std::size_t i = index(field);
  if (i == kMostFields) return;
  values_[i] = value;
  there_ |= 1U << i;
}

bool TextValues::has(std::string_view field) const {
  const std::size_t i = index(field);
  return i != kMostFields && (there_ >> i & 1) != 0;
}

void TextValues::decode(Payload& payload) const {
  // Makes a record for the decoder: the fields, 64 bits each, then the text TextValues::name.
  constexpr std::size_t kMostName = 16, kName = 8 * kMostFields;
  std::array<std::byte, kName + kMostName> record{};
  Schema schema;
  schema.decoder = event_->decoded.decoder;
  schema.kind_of_payload = event_->decoded.kind;
  for (std::size_t i = 0; i < kMostFields; ++i) {
    schema.fields[i].offset = static_cast<std::uint16_t>(kName);
    if ((there_ >> i & 1) == 0) continue;
    schema.fields[i] = {static_cast<std::uint16_t>(8 * i), 8};
    std::memcpy(record.data() + 8 * i, &values_[i], 8);
  }
  const auto bytes = std::as_bytes(std::span(name.substr(0, kMostName)));
  std::ranges::copy(bytes, record.begin() + kName);
  kernel_events::decode_fields(
      schema, {0, record.data(), static_cast<std::uint32_t>(record.size())}, payload);
  if (auto* sched = std::get_if<SchedSwitch>(&payload)) sched->next_comm = name;
}

// ---- TextFields

TextFields::TextFields() : reasons_(kernels_reason_names()) {}

bool TextFields::read(std::string_view text, TextValues& values) {
  // libtraceevent prints a list of the fields if it cannot print the event.
  if (take_text(text, "[FAILED TO PARSE]"))
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const KernelEvent& event = values.event();
  const bool list = is_list(text);
  if (values.is_cut && event.decoded.decoder != Decoder::kExit) {
    // The last word may be incomplete, so it is not read as a value. Only the reason of a
    // user-space exit is guessed from it.
    const std::string_view word = text.substr(text.rfind(' ') + 1);
    text.remove_suffix(word.size());
    if (event.decoded.decoder == Decoder::kUserspaceExit && !list && text.find('(') == text.npos) {
      set_cut_userspace_exit(trimmed(text).ends_with("reason") ? word : "", values);
      return true;
    }
  }
  const Decoder decoder = event.decoded.decoder;
  if (decoder == Decoder::kExit) return read_exit(text, values);
  if (decoder == Decoder::kSwitch) return sched_switch(FormatScan(text), values);
  if (decoder == Decoder::kFutexCall) return sys_enter_futex(FormatScan(text), values);
  if (decoder == Decoder::kBlock)
    return list ? raw_block_io(text, values) : block_io(FormatScan(text), values);
  if (decoder == Decoder::kUserspaceExit || decoder == Decoder::kIrqPic ||
      decoder == Decoder::kWakeup) {
    if (list) return read_list(text, values);
    return decoder == Decoder::kUserspaceExit ? kvm_userspace_exit(FormatScan(text), values)
           : decoder == Decoder::kIrqPic      ? kvm_pic_set_irq(FormatScan(text), values)
                                              : sched_wakeup(FormatScan(text), values);
  }
  // A print format that is a list itself is tried: it may have other names for the fields.
  if (event.printed.empty() || (list && !is_list(event.printed))) return read_list(text, values);
  if (PrintFormat(event.printed).read(text, values)) return true;
  return list && read_list(text, values);
}

bool TextFields::read_exit(std::string_view text, TextValues& values) {
  if (is_list(text)) {
    const bool read = read_list(text, values);
    if (values.has("exit_reason") && !values.has("isa")) values.set("isa", isa_);
    // A list without a reason is not read: arm64 has no ret before Linux 4.x.
    return read && (values.has("exit_reason") || values.has("ret") || values.has("scause"));
  }
  // trace-cmd's plugin for x86 begins with the field that an event of another architecture lacks.
  take_text(text, "<CANT FIND FIELD exit_reason>");
  FormatScan scan(text);
  if (scan.eat("SEPC:")) {  // RISC-V
    values.set("sepc", scan.hex());
    values.set("scause", scan.to("SCAUSE:").hex());
    values.set("stval", scan.to("STVAL:").hex());
    values.set("htval", scan.to("HTVAL:").hex());
    return scan.ok();
  }
  if (const std::size_t colon = text.find(": HSR_EC:"); colon != text.npos) {
    const auto reason = arm64_reason(text.substr(0, colon));
    FormatScan number(text);
    values.set("ret", reason ? *reason : number.hex());
    values.set("esr_ec", scan.to("HSR_EC:").hex());
    values.set("vcpu_pc", scan.to("PC:").hex());
    return scan.ok() && (reason || number.ok());
  }
  if (scan.eat("vcpu")) values.set("vcpu_id", scan.decimal());
  if (!scan.eat("reason")) return false;
  const std::string_view rest = scan.rest();
  const std::size_t rip = rest.find(" rip ");
  if (!scan.ok()) return false;
  if (rip == rest.npos) return read_part_of_exit(rest, values);
  const std::string_view after = trimmed(rest.substr(rip + 5));
  const bool has_rip = !values.is_cut || after.find(' ') != after.npos;
  FormatScan address(after);
  if (has_rip) values.set("guest_rip", address.hex());
  return address.ok() && read_x86_exit(trimmed(rest.substr(0, rip)), values);
}

// Parses a text without an address: "EPT_VIOLATION info1 0x0", "HLT", "EXTERNA". If no kernel has
// the name, it was cut off.
bool TextFields::read_part_of_exit(std::string_view text, TextValues& values) {
  values.is_part = true;
  const std::size_t end = std::min(text.find(" info"), text.find(" intr_info"));
  const std::string_view name = trimmed(text.substr(0, end));
  if (name.empty() && !values.is_cut) return false;
  if (end != text.npos) return read_x86_exit(name, values);
  // Prose may follow the name, which may have two words.
  for (std::size_t size = name.size(); !values.is_cut && size != name.npos && size != 0;
       size = name.rfind(' ', size - 1)) {
    if (x86_reason(name.substr(0, size))) return read_x86_exit(name.substr(0, size), values);
  }
  set_cut_exit(values.is_cut ? name : "", values);
  return true;
}

void TextFields::set_cut_exit(std::string_view name, TextValues& values) {
  const auto reason = x86_reason_beginning(name);
  if (reason) isa_ = reason->isa;
  if (!reason) (isa_ == kIsaVmx ? reasons_.vmx : reasons_.svm).try_emplace(kCutReason, kCut);
  values.set("exit_reason", reason ? reason->reason : kCutReason);
  values.set("isa", isa_);
}

void TextFields::set_cut_userspace_exit(std::string_view name, TextValues& values) {
  std::optional<std::uint32_t> only;
  std::size_t found = 0;
  for (const auto& [number, full] : reasons_.userspace) {
    if (name.empty() || !full.starts_with(name)) continue;
    only = number;
    ++found;
  }
  if (found != 1) reasons_.userspace.try_emplace(kCutReason, kCut);
  values.set("reason", found == 1 ? *only : kCutReason);
  values.set("errno", 0);
}

// Parses "EPT_VIOLATION", "EPT_VIOLATION FAILED_VMENTRY", "EXIT_NPF", "PF excp", "0x4f", "UNKNOWN
// (79)".
bool TextFields::read_x86_exit(std::string_view name, TextValues& values) {
  constexpr std::uint32_t kFailedEntry = 1U << 31;
  constexpr std::uint32_t kFirstNamed = 0x8000, kMostNamed = 256;
  constexpr std::string_view kFailed = " FAILED_VMENTRY", kUnknown = "UNKNOWN (";
  const bool failed = name.ends_with(kFailed);
  if (failed) name.remove_suffix(kFailed.size());
  std::uint32_t reason = 0;
  if (const auto known = x86_reason(name)) {
    reason = known->reason;
    isa_ = known->isa;
  } else if (name.starts_with(kUnknown) || name.starts_with("0x")) {
    FormatScan number(name.starts_with("0x") ? name : name.substr(kUnknown.size()));
    reason = static_cast<std::uint32_t>(number.decimal());
    if (!number.ok()) return false;
  } else {
    // A name of a newer kernel, for which our tables have no number.
    if (name.empty() || name.size() > 64) return false;
    isa_ = name.front() >= 'a' && name.front() <= 'z' ? kIsaSvm : kIsaVmx;
    auto& names = isa_ == kIsaVmx ? reasons_.vmx : reasons_.svm;
    const std::string text = printable(name);
    const auto found =
        std::ranges::find_if(names, [&](const auto& one) { return one.second == text; });
    if (found == names.end() && named_ == kMostNamed) return false;
    reason = found != names.end() ? found->first : kFirstNamed + named_++;
    names.emplace(reason, text);
  }
  values.set("exit_reason", failed ? reason | kFailedEntry : reason);
  values.set("isa", isa_);
  return true;
}

}  // namespace trapline::trace_text
