#include "merge/source/trace_text/text_fields.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend_ftrace/base/text.h"
#include "merge/model/event.h"
#include "merge/source/trace_text/reason_numbers.h"

namespace trapline::trace_text {
namespace {

using kernel_events::KnownEvent;
using kernel_events::Schema;

// Reads a print format from left to right; once something is missing, it stays so.
class FormatScan {
 public:
  explicit FormatScan(std::string_view text) : rest_(text) {}

  // Goes on after the first `word`.
  FormatScan& to(std::string_view word) {
    const std::size_t at = rest_.find(word);
    ok_ = ok_ && at != rest_.npos;
    if (ok_) rest_.remove_prefix(at + word.size());
    return *this;
  }
  // Whether it goes on with `word`; then after it.
  bool eat(std::string_view word) {
    blanks();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  // With 0x in front hexadecimal in any case.
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
  [[nodiscard]] std::string_view rest() const { return rest_; }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  void blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }

  std::string_view rest_;
  bool ok_ = true;
};

// ---- NAME=VALUE

// Formats that print a field in hexadecimal without 0x.
bool is_bare_hex(std::string_view field) {
  constexpr std::string_view kBare[] = {"ecx",         "function", "index", "fault_address",
                                        "clone_flags", "code",     "cmd"};
  return std::ranges::find(kBare, field) != std::end(kBare);
}

// The names that print formats have for fields of the record.
std::string_view printed_name(std::string_view event, std::string_view field) {
  if (event == "kvm:kvm_write_tsc_offset") {
    if (field == "vcpu_id") return "vcpu";
    if (field == "previous_tsc_offset") return "prev";
    if (field == "next_tsc_offset") return "next";
  }
  return field;
}

// The value after the last "NAME=" or "NAME: ": names of threads, which may hold anything, come
// first.
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

bool set_value(TextValues& values, std::string_view text, std::string_view field) {
  auto value = value_of(text, field);
  if (!value) value = value_of(text, printed_name(values.event().name, field));
  if (!value) return false;
  FormatScan scan(*value);
  const std::uint64_t number = is_bare_hex(field) ? scan.hex() : scan.decimal();
  if (!scan.ok()) return false;
  values.set(field, number);
  return true;
}

// As many fields of the event as the text has. Fields that are there in some kernels only decide
// nothing, so one is enough.
bool read_list(std::string_view text, TextValues& values) {
  constexpr std::string_view kOfFlags = "common_flags";  // which are no part of the text
  // Entries have no vCPU on arm64 and RISC-V.
  bool any = values.event().fields[0] == nullptr || values.event().name == "kvm:kvm_entry";
  for (const char* field : values.event().fields) {
    if (field == nullptr) break;
    any |= field == kOfFlags || set_value(values, text, field);
  }
  return any;
}

bool is_list(std::string_view text) {
  const std::size_t end =
      text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
  return end != text.npos && end != 0 && text[end] == '=';
}

// ---- print formats

using ReadFormat = std::function<bool(FormatScan, TextValues&)>;

struct NumberAfter {
  std::string_view word;
  const char* field = nullptr;
  int base = 10;
};
// A text that has nothing but numbers, in this order.
ReadFormat numbers(std::vector<NumberAfter> numbers) {
  return [numbers = std::move(numbers)](FormatScan scan, TextValues& values) {
    for (const auto& [word, field, base] : numbers) values.set(field, scan.to(word).number(base));
    return scan.ok();
  };
}

bool kvm_entry(FormatScan scan, TextValues& values) {
  // arm64 and RISC-V print no vCPU, and trace-cmd's plugin says at length that it found none.
  if (scan.eat("vcpu")) values.set("vcpu_id", scan.decimal());
  return scan.ok();
}
bool kvm_userspace_exit(FormatScan scan, TextValues& values) {
  if (!scan.eat("reason")) return false;
  const std::string_view name = scan.word();
  const std::uint64_t number = scan.to("(").decimal();
  const bool failed = name == "restart" || name == "error";
  values.set("reason", failed ? 0 : number);
  values.set("errno", failed ? ~number + 1 : 0);
  return scan.ok();
}
bool kvm_fpu(FormatScan scan, TextValues& values) {
  const bool load = scan.eat("load");
  values.set("load", load ? 1 : 0);
  return load || scan.eat("unload");
}
bool kvm_pio(FormatScan scan, TextValues& values) {
  const bool write = scan.eat("pio_write");
  if (!write && !scan.eat("pio_read")) return false;
  values.set("rw", write ? 1 : 0);
  values.set("port", scan.to("at").hex());
  // A kernel before 3.15 prints no value.
  if (FormatScan value = scan; value.to("val").ok()) values.set("val", value.hex());
  return scan.ok();
}
bool kvm_mmio(FormatScan scan, TextValues& values) {
  if (!scan.eat("mmio")) return false;
  const std::string_view type = scan.word();
  constexpr std::string_view kTypes[] = {"unsatisfied-read", "read", "write"};
  const auto* found = std::ranges::find(kTypes, type);
  if (found == std::end(kTypes)) return false;
  values.set("type", static_cast<std::uint64_t>(found - std::begin(kTypes)));
  values.set("gpa", scan.to("gpa").hex());
  values.set("val", scan.to("val").hex());
  return scan.ok();
}
// "msr_write 4b564d01 = 0xe8381", "cr_read 0 = 0x10"
bool access(FormatScan scan, TextValues& values, std::string_view prefix, std::string_view is_write,
            std::string_view what, std::string_view value) {
  if (!scan.eat(prefix)) return false;
  const bool write = scan.eat("write");
  if (!write && !scan.eat("read")) return false;
  values.set(is_write, write ? 1 : 0);
  values.set(what, scan.hex());
  values.set(value, scan.to("=").hex());
  return scan.ok();
}
bool kvm_msr(FormatScan scan, TextValues& values) {
  return access(scan, values, "msr_", "write", "ecx", "data");
}
bool kvm_cr(FormatScan scan, TextValues& values) {
  return access(scan, values, "cr_", "rw", "cr", "val");
}
// "PC: ffff80000 SYS_ICC_SGI1R_EL1 (3,0,12,11,5) write"
bool kvm_sys_access(FormatScan scan, TextValues& values) {
  scan.to("(");
  for (const char* field : {"Op0", "Op1", "CRn", "CRm", "Op2"}) {
    values.set(field, scan.decimal());
    if (!scan.eat(",") && !scan.eat(")")) return false;
  }
  values.set("is_write", scan.eat("write") ? 1 : 0);
  return scan.ok();
}
bool kvm_cpuid(FormatScan scan, TextValues& values) {
  values.set("function", scan.to("func").hex());
  if (FormatScan index = scan; index.to("idx").ok()) values.set("index", index.hex());
  return scan.ok();
}
bool kvm_vcpu_wakeup(FormatScan scan, TextValues& values) {
  const bool waited = scan.eat("wait");
  if (!waited && !scan.eat("poll")) return false;
  values.set("waited", waited ? 1 : 0);
  values.set("ns", scan.to("time").decimal());
  // Before 5.0 nothing is said of polling.
  values.set("valid", scan.rest().find("invalid") == std::string_view::npos ? 1 : 0);
  return scan.ok();
}
// trace-cmd prints "wf>c<" for "wf%c": then it is not known which.
bool kvm_wfx_arm64(FormatScan scan, TextValues& values) {
  if (!scan.to("executed").ok()) return false;
  const bool wfe = scan.eat("wfe");
  if (wfe || scan.eat("wfi")) values.set("is_wfe", wfe ? 1 : 0);
  return wfe || values.has("is_wfe");
}
bool kvm_halt_poll_ns(FormatScan scan, TextValues& values) {
  values.set("vcpu_id", scan.to("vcpu").decimal());
  values.set("new", scan.to("halt_poll_ns").decimal());
  values.set("old", scan.to("(").to(" ").decimal());
  return scan.ok();
}
// The address and the data that mean it.
bool kvm_msi_set_irq(FormatScan scan, TextValues& values) {
  values.set("address", scan.to("dst").hex() << 12);
  values.set("data", scan.to("vec").decimal());
  return scan.ok();
}
// "IRQ 0x8 [reinjected]", "Soft/INTn 0x19"; before 5.19 "irq 8"
bool kvm_inj_virq(FormatScan scan, TextValues& values) {
  if (scan.eat("irq")) {
    values.set("irq", scan.decimal());
    return scan.ok();
  }
  if (!scan.eat("IRQ") && !scan.eat("Soft/INTn")) return false;
  values.set("vector", scan.hex());
  values.set("reinjected", scan.eat("[reinjected]") ? 1 : 0);
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
bool kvm_ack_irq(FormatScan scan, TextValues& values) {
  scan.to("irqchip");
  std::uint64_t chip = 0;
  if (scan.eat("IOAPIC")) {
    chip = 2;
  } else if (scan.eat("PIC slave")) {
    chip = 1;
  } else if (!scan.eat("PIC master")) {
    return false;
  }
  values.set("irqchip", chip);
  values.set("pin", scan.to("pin").decimal());
  return scan.ok();
}

// "S", "R+", "D|K", "W": the bits of task_struct's state, as far as a decoder asks for them.
std::uint64_t state_bits(std::string_view letters) {
  std::uint64_t bits = 0;
  for (const char letter : letters) {
    switch (letter) {
      case 'R':
      case '|':
        break;
      case '+':
        bits |= 0x100;
        break;
      case 'T':
        bits |= 0x4;
        break;
      case 't':
        bits |= 0x8;
        break;
      case 'X':
      case 'Z':
        bits |= 0x10;
        break;
      default:
        bits |= 0x1;
        break;
    }
  }
  return bits;
}
// "comm:pid [prio]" from its end; a comm may hold colons and brackets.
bool read_plugin_thread(std::string_view text, std::string_view& comm, std::uint64_t& pid,
                        std::uint64_t& priority) {
  const std::size_t open = text.rfind(" [");
  if (open == text.npos) return false;
  const std::size_t colon = text.rfind(':', open);
  if (colon == text.npos) return false;
  comm = text.substr(0, colon);
  FormatScan of_pid(text.substr(colon + 1)), of_priority(text.substr(open + 2));
  pid = of_pid.decimal();
  priority = of_priority.decimal();
  return of_pid.ok() && of_priority.ok();
}
bool sched_switch(FormatScan scan, TextValues& values) {
  const std::string_view text = scan.rest();
  std::uint64_t prev = 0, prev_priority = 0, next = 0, next_priority = 0;
  std::string_view comm, state;
  if (text.starts_with("prev_comm=")) {
    for (const char* field : {"prev_pid", "next_pid", "prev_prio"})
      if (!set_value(values, text, field)) return false;
    const auto letters = value_of(text, "prev_state");
    const std::size_t begin = text.find("next_comm="), end = text.rfind(" next_pid=");
    if (!letters || begin == text.npos || end == text.npos || end < begin) return false;
    state = *letters;
    comm = text.substr(begin + 10, end - begin - 10);
  } else {
    const std::size_t arrow = text.rfind(" ==> ");
    if (arrow == text.npos) return false;
    const std::string_view left = text.substr(0, arrow);
    const std::size_t blank = left.rfind(' ');
    std::string_view prev_comm;
    if (blank == left.npos ||
        !read_plugin_thread(left.substr(0, blank), prev_comm, prev, prev_priority) ||
        !read_plugin_thread(text.substr(arrow + 5), comm, next, next_priority)) {
      return false;
    }
    state = left.substr(blank + 1);
    values.set("prev_pid", prev);
    values.set("next_pid", next);
    values.set("prev_prio", prev_priority);
  }
  const auto number = parse_number(state);
  values.set("prev_state", number ? *number : state_bits(state));
  values.name = comm;
  return true;
}
// "comm:pid [prio] CPU:001", of trace-cmd's plugin; with "success=1" before 4.x's end
bool sched_wakeup(FormatScan scan, TextValues& values) {
  const std::string_view text = scan.rest();
  const std::size_t cpu = text.rfind(" CPU:");
  if (cpu == text.npos) return false;
  FormatScan of_cpu(text.substr(cpu + 5));
  std::string_view comm;
  std::uint64_t pid = 0, priority = 0;
  if (!read_plugin_thread(text.substr(0, cpu), comm, pid, priority)) return false;
  values.set("pid", pid);
  values.set("target_cpu", of_cpu.decimal());
  return of_cpu.ok();
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
// "op=FUTEX_WAKE|FUTEX_PRIVATE_FLAG uaddr=0x004bcae0 val=1"; the kernel's "sys_futex(uaddr:
// 7f3c, op: 80, val: 1, …)" is hexadecimal without 0x.
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
// "254,16 RA 1310720 () 57344 + 2560 [worker]"
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

const std::unordered_map<std::string_view, ReadFormat>& formats() {
  static const std::unordered_map<std::string_view, ReadFormat> formats = {
      {"kvm:kvm_entry", kvm_entry},
      {"kvm:kvm_userspace_exit", kvm_userspace_exit},
      {"kvm:kvm_fpu", kvm_fpu},
      {"kvm:kvm_get_timer_map", numbers({{"VCPU:", "vcpu_id"}})},
      {"kvm:kvm_pio", kvm_pio},
      {"kvm:kvm_mmio", kvm_mmio},
      {"kvm:kvm_fast_mmio", numbers({{"gpa", "gpa", 16}})},
      {"kvm:kvm_msr", kvm_msr},
      {"kvm:kvm_sys_access", kvm_sys_access},
      {"kvm:kvm_cr", kvm_cr},
      {"kvm:kvm_cpuid", kvm_cpuid},
      {"kvm:kvm_hypercall", numbers({{"nr", "nr", 16}})},
      {"kvm:kvm_xen_hypercall", numbers({{"nr", "nr", 16}})},
      {"kvm:kvm_hv_hypercall", numbers({{"code", "code", 16}})},
      {"kvm:kvm_hvc_arm64", numbers({{"r0:", "r0", 16}})},
      {"kvm:kvm_page_fault", numbers({{"address", "fault_address", 16}})},
      {"kvm:kvm_guest_fault", numbers({{"ipa", "ipa", 16}})},
      {"kvm:kvm_vcpu_wakeup", kvm_vcpu_wakeup},
      {"kvm:kvm_wfx_arm64", kvm_wfx_arm64},
      {"kvm:kvm_halt_poll_ns", kvm_halt_poll_ns},
      {"kvm:kvm_set_irq", numbers({{"gsi", "gsi"}, {"level", "level"}})},
      {"kvm:kvm_irq_line", numbers({{"num:", "irq_num"}, {"level:", "level"}})},
      {"kvm:kvm_msi_set_irq", kvm_msi_set_irq},
      {"kvm:kvm_ioapic_set_irq", numbers({{"pin", "pin"}, {"vec", "e"}})},
      {"kvm:kvm_apic_accept_irq", numbers({{"apicid", "apicid", 16}, {"vec", "vec"}})},
      {"kvm:kvm_apicv_accept_irq", numbers({{"apicid", "apicid", 16}, {"vec", "vec"}})},
      {"kvm:kvm_inj_virq", kvm_inj_virq},
      {"kvm:kvm_pic_set_irq", kvm_pic_set_irq},
      {"kvm:kvm_ack_irq", kvm_ack_irq},
      {"kvm:kvm_eoi", numbers({{"apicid", "apicid", 16}, {"vector", "vector"}})},
      {"kvm:vgic_update_irq_pending",
       numbers({{"VCPU:", "vcpu_id"}, {"IRQ", "irq"}, {"level:", "level"}})},
      {"sched:sched_switch", sched_switch},
      {"sched:sched_wakeup", sched_wakeup},
      {"sched:sched_waking", sched_wakeup},
      {"syscalls:sys_enter_futex", sys_enter_futex},
      {"block:block_bio_queue", block_io},
      {"block:block_rq_issue", block_io},
      {"block:block_rq_complete", block_io},
  };
  return formats;
}

}  // namespace

// ---- TextValues

std::size_t TextValues::index(std::string_view field) const {
  for (std::size_t i = 0; i < event_.fields.size() && event_.fields[i] != nullptr; ++i)
    if (event_.fields[i] == field) return i;
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
  // A record of 64-bit fields, with the name after them.
  constexpr std::size_t kMostName = 16, kName = 8 * kMostFields;
  std::array<std::byte, kName + kMostName> record{};
  Schema schema;
  for (std::size_t i = 0; i < kMostFields; ++i) {
    schema.fields[i].offset = static_cast<std::uint16_t>(kName);
    if ((there_ >> i & 1) == 0) continue;
    schema.fields[i] = {static_cast<std::uint16_t>(8 * i), 8};
    std::memcpy(record.data() + 8 * i, &values_[i], 8);
  }
  const auto bytes = std::as_bytes(std::span(name.substr(0, kMostName)));
  std::ranges::copy(bytes, record.begin() + kName);
  event_.decode(schema, {0, record.data(), static_cast<std::uint32_t>(record.size())}, payload);
  if (auto* sched = std::get_if<SchedSwitch>(&payload)) sched->next_comm = name;
}

// ---- TextFields

TextFields::TextFields() : reasons_(kernels_reason_names()) {}

bool TextFields::read(std::string_view text, TextValues& values) {
  // What libtraceevent could not print it lists.
  constexpr std::string_view kFailed = "[FAILED TO PARSE]";
  if (text.starts_with(kFailed)) {
    text.remove_prefix(kFailed.size());
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  const KnownEvent& event = values.event();
  if (event.name == "kvm:kvm_exit") return read_exit(text, values);
  const auto format = formats().find(event.name);
  const bool own_list =
      event.name == "sched:sched_switch" || event.name == "syscalls:sys_enter_futex";
  if (format == formats().end() || (is_list(text) && !own_list)) {
    return event.name.starts_with("block:") ? raw_block_io(text, values) : read_list(text, values);
  }
  return format->second(FormatScan(text), values);
}

bool TextFields::read_exit(std::string_view text, TextValues& values) {
  if (is_list(text)) {
    const bool read = read_list(text, values);
    if (values.has("exit_reason") && !values.has("isa")) values.set("isa", isa_);
    // An exit of arm64 before 4.x has no ret; one of x86 has its reason.
    return read && (values.has("exit_reason") || values.has("ret") || values.has("scause"));
  }
  // trace-cmd's plugin of x86 begins with what it misses of an event of another architecture.
  constexpr std::string_view kMissing = "<CANT FIND FIELD exit_reason>";
  if (text.starts_with(kMissing)) text.remove_prefix(kMissing.size());
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
  if (!scan.ok() || rip == rest.npos) return false;
  FormatScan after(rest.substr(rip + 5));
  values.set("guest_rip", after.hex());
  return after.ok() && read_x86_exit(trimmed(rest.substr(0, rip)), values);
}

// "EPT_VIOLATION", "EPT_VIOLATION FAILED_VMENTRY", "EXIT_NPF", "PF excp", "0x4f", "UNKNOWN (79)"
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
    // A kernel's newer name, of which no table has the number.
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
