// Events as the kernel, trace-cmd's plugins and trace-cmd report -R print them: what is read of the
// text is what the decoder of trace.dat makes of the record, for any values of its fields. The rest
// of the input is read as the event's text, too.
#include "merge/source/trace_text/text_fields.h"

#include <fmt/args.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "merge/source/trace_text/reason_numbers.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/input_files.h"

namespace {

using namespace trapline;
using kernel_events::Schema;

// The print formats, with the record's fields by their names and texts that stand for a value of
// one: rw_ is read or write, and so on (texts_of). None: the list of -R alone.
struct PrintedForm {
  std::string_view event, text;
};
constexpr PrintedForm kForms[] = {
    {"kvm:kvm_exit", "vcpu {vcpu_id} reason {x86_} rip 0x{guest_rip:x} info1 0x0 info2 0x0"},
    {"kvm:kvm_exit", "<CANT FIND FIELD exit_reason>reason {x86_} rip 0x{guest_rip:x} info 0 0"},
    {"kvm:kvm_exit", "{arm64_}: HSR_EC: 0x{esr_ec:04x} (DABT_LOW), PC: 0x{vcpu_pc:016x}"},
    {"kvm:kvm_exit",
     "SEPC:0x{sepc:x}, SCAUSE:0x{scause:x}, STVAL:0x{stval:x}, HTVAL:0x{htval:x}, HTINST:0x0"},
    {"kvm:kvm_entry", "vcpu {vcpu_id}, rip 0xfff0"},
    {"kvm:kvm_userspace_exit", "reason {userspace_}"},
    {"kvm:kvm_fpu", "{load_}"},
    {"kvm:kvm_get_timer_map", "VCPU: {vcpu_id}, dv: 0, dp: 1, ep: -1"},
    {"kvm:kvm_timer_restore_state", "arch_timer_ctx_index: 1"},
    {"kvm:kvm_pio", "pio_{rw_} at 0x{port:x} size 1 count 1 val 0x{val:x} "},
    {"kvm:kvm_mmio", "mmio {type_} len 4 gpa 0x{gpa:x} val 0x{val:x}"},
    {"kvm:kvm_fast_mmio", "fast mmio at gpa 0x{gpa:x}"},
    {"kvm:kvm_msr", "msr_{write_} {ecx:x} = 0x{data:x}"},
    {"kvm:kvm_sys_access", "PC: 80 SYS_X ({Op0},{Op1},{CRn},{CRm},{Op2}) {is_write_}"},
    {"kvm:kvm_cr", "cr_{rw_} {cr:x} = 0x{val:x}"},
    {"kvm:kvm_cpuid", "func {function:x} idx {index:x} rax 1 rbx 2 rcx 3 rdx 4, cpuid entry found"},
    {"kvm:kvm_hypercall", "nr 0x{nr:x} a0 0x1 a1 0x2 a2 0x3 a3 0x4"},
    {"kvm:kvm_xen_hypercall", "cpl 0 nr 0x{nr:x} a0 0x1"},
    {"kvm:kvm_hv_hypercall", "code 0x{code:x} fast var_cnt 0x0"},
    {"kvm:kvm_hvc_arm64", "HVC at 0x80 (r0: 0x{r0:016x}, imm: 0x0)"},
    {"kvm:kvm_page_fault",
     "vcpu 0 rip 0x1 address 0x{fault_address:016x} error_code 0x{error_code:x}"},
    {"kvm:kvm_guest_fault", "ipa 0x{ipa:x}, hsr 0x{hsr:x}, hxfar 0x0, pc 0x0"},
    {"kvm:kvm_write_tsc_offset",
     "vcpu={vcpu_id} prev={previous_tsc_offset} next={next_tsc_offset}"},
    {"kvm:kvm_vcpu_wakeup", "{waited_} time {ns} ns, polling {valid_}"},
    {"kvm:kvm_wfx_arm64", "guest executed wf{is_wfe_} at: 0x80"},
    {"kvm:kvm_halt_poll_ns", "vcpu {vcpu_id}: halt_poll_ns {new} (grow {old})"},
    {"kvm:kvm_set_irq", "gsi {gsi} level {level} source 0"},
    {"kvm:kvm_irq_line", "Inject PPI interrupt (1), vcpu->idx: 0, num: {irq_num}, level: {level}"},
    {"kvm:kvm_msi_set_irq", "dst {destination_:x} vec {data} (Fixed|physical|edge)"},
    {"kvm:kvm_ioapic_set_irq", "pin {pin} dst 1 vec {e} (Fixed|physical|edge)"},
    {"kvm:kvm_apic_accept_irq", "apicid {apicid:x} vec {vec} (Fixed|edge)"},
    {"kvm:kvm_apicv_accept_irq", "apicid {apicid:x} vec {vec} (Fixed|edge)"},
    {"kvm:kvm_inj_virq", "IRQ 0x{vector:x}{reinjected_}"},
    {"kvm:kvm_inj_virq", "Soft/INTn 0x{vector:x}{reinjected_}"},
    {"kvm:kvm_inj_virq", "irq {irq}"},
    {"kvm:kvm_nested_vmenter", "rip: 0x1"},
    {"kvm:kvm_nested_vmexit", "reason: x"},
    {"kvm:kvm_nested_vmexit_inject", "reason: x"},
    {"kvm:kvm_pic_set_irq", "chip {chip} pin {pin} (edge{imr_})"},
    {"kvm:kvm_ack_irq", "irqchip {irqchip_} pin {pin}"},
    {"kvm:kvm_eoi", "apicid {apicid:x} vector {vector}"},
    {"kvm:vgic_update_irq_pending", "VCPU: {vcpu_id}, IRQ {irq}, level: {level}"},
    {"sched:sched_switch",
     "prev_comm=a b prev_pid={prev_pid} prev_prio={prev_prio} prev_state={state_} ==> "
     "next_comm={comm_} next_pid={next_pid} next_prio=120"},
    {"sched:sched_switch",
     "prev_comm=a prev_pid={prev_pid} prev_prio={prev_prio} prev_state={prev_state} "
     "next_comm={comm_} next_pid={next_pid} next_prio=120"},
    {"sched:sched_switch", "a:b:{prev_pid} [{prev_prio}] {state_} ==> {comm_}:{next_pid} [120]"},
    {"sched:sched_wakeup", "comm=a pid={pid} prio=120 target_cpu={target_cpu:03d}"},
    {"sched:sched_wakeup", "{comm_}:{pid} [120] CPU:{target_cpu:03d}"},
    {"sched:sched_waking", "{comm_}:{pid} [120]<CANT FIND FIELD success> CPU:{target_cpu:03d}"},
    {"sched:sched_migrate_task", "comm=a pid={pid} prio=120 orig_cpu=0 dest_cpu={dest_cpu}"},
    {"timer:hrtimer_expire_entry", "hrtimer=0x1 function=x now=5"},
    {"timer:timer_expire_exit", "timer=0x1"},
    {"irq:irq_handler_entry", "irq={irq} name=virtio0"},
    {"irq:irq_handler_exit", "irq={irq} ret=handled"},
    {"irq:softirq_entry", "vec={vec} [action=TIMER]"},
    {"irq:softirq_exit", "vec={vec} [action=TIMER]"},
    {"syscalls:sys_enter_futex", "uaddr: 0x{uaddr:x}, op: 0x{op:x}, val: 0x{val:x}, utime: 0x0"},
    {"syscalls:sys_enter_futex", "op={futex_} uaddr=0x{uaddr:08x} val={val}"},
    {"syscalls:sys_exit_futex", "0x1"},
    {"block:block_bio_queue", "{major_},{minor_} {rwbs_} {sector} + {nr_sector} [worker]"},
    {"block:block_rq_issue", "{major_},{minor_} {rwbs_} 4096 () {sector} + {nr_sector} [a b]"},
    {"block:block_rq_complete", "{major_},{minor_} {rwbs_} () {sector} + {nr_sector} [0]"},
    {"task:task_newtask", "pid={pid} comm=a clone_flags={clone_flags:x} oom_score_adj=0"},
    {"syscalls:sys_enter_ioctl", "fd: 0xd, cmd: 0x{cmd:x}, arg: 0x0"},
    {"ftrace:funcgraph_entry", ""},
    {"ftrace:funcgraph_exit", ""},
};

// A field of one event that has few values.
const std::map<std::string_view, std::uint64_t> kMost = {
    {"rw", 1},           {"write", 1},
    {"is_write", 1},     {"type", 2},
    {"load", 1},         {"valid", 1},
    {"waited", 1},       {"is_wfe", 1},
    {"level", 1},        {"reinjected", 1},
    {"irqchip", 2},      {"target_cpu", 4095},
    {"dest_cpu", 4095},  {"data", 255},
    {"e", 255},          {"dev", 0xffffffff},
    {"pid", 0x7fffffff}, {"prev_pid", 0x7fffffff},
    {"prev_prio", 139},  {"next_pid", 0x7fffffff}};

struct State {
  const char* letters;
  std::uint64_t bits;
};
constexpr State kStates[] = {{"R", 0}, {"R+", 0x100}, {"S", 1},    {"D", 2},  {"T", 4},
                             {"t", 8}, {"X", 0x10},   {"Z", 0x20}, {"S|K", 1}};
constexpr const char* kFutex[] = {"FUTEX_WAIT", "FUTEX_WAKE", "FUTEX_FD"};
constexpr std::uint64_t kFutexPrivate = 128, kFutexRealtime = 256;
constexpr const char* kKinds[] = {"R", "W", "WS", "FF", "RA", "D", "FWFS"};

// A record of the event: its fields, those that the form leaves out are not there.
class Recorded {
 public:
  Recorded(const KernelEvent& event, std::string_view form, fuzz::Choices& input) : event_(event) {
    for (std::size_t i = 0; i < event.fields.size() && !event.fields[i].empty(); ++i)
      fields_[std::string(event.fields[i])] = value(event.fields[i], input);
    choose_texts(form, input);
    if (event.decoded.decoder == Decoder::kExit) choose_exit(form, input);
    const bool old_virq = form.starts_with("irq ");
    if (event.decoded.decoder == Decoder::kIrqInject)
      leave_out(old_virq ? Names{"vector", "reinjected"} : Names{"irq"});
    if (input.up_to(1) == 0) leave_out({"common_flags"});
  }

  [[nodiscard]] Payload decoded() const {
    constexpr std::size_t kFields = Schema::kMostFields;
    std::string bytes(8 * kFields, '\0');
    Schema schema;
    schema.decoder = event_.decoded.decoder;
    schema.kind_of_payload = event_.decoded.kind;
    for (std::size_t i = 0; i < kFields && !event_.fields[i].empty(); ++i) {
      schema.fields[i].offset = static_cast<std::uint16_t>(8 * kFields);  // of a text
      const auto field = fields_.find(std::string(event_.fields[i]));
      if (field == fields_.end() || is_text(field->first)) continue;
      schema.fields[i] = {static_cast<std::uint16_t>(8 * i), 8};
      std::memcpy(bytes.data() + 8 * i, &field->second, 8);
    }
    bytes += (event_.decoded.decoder == Decoder::kBlock ? texts_.at("rwbs_") : texts_.at("comm_")) +
             '\0';
    Payload payload = Other{};
    kernel_events::decode_fields(schema,
                                 {0, reinterpret_cast<const std::byte*>(bytes.data()),
                                  static_cast<std::uint32_t>(bytes.size())},
                                 payload);
    if (auto* sched = std::get_if<SchedSwitch>(&payload)) sched->next_comm = texts_.at("comm_");
    return payload;
  }

  [[nodiscard]] std::string printed(std::string_view form) const {
    fmt::dynamic_format_arg_store<fmt::format_context> arguments;
    for (const auto& [name, value] : fields_)
      if (!is_text(name)) arguments.push_back(fmt::arg(name.c_str(), value));
    for (const auto& [name, text] : texts_) arguments.push_back(fmt::arg(name.c_str(), text));
    for (const auto& [name, number] : numbers_) arguments.push_back(fmt::arg(name.c_str(), number));
    return fmt::vformat(form, arguments);
  }

  // NAME=VALUE, as trace-cmd report -R has it.
  [[nodiscard]] std::string listed() const {
    constexpr std::string_view kBareHex[] = {"ecx",         "function", "index", "fault_address",
                                             "clone_flags", "code",     "cmd"};
    std::string text;
    for (const std::string_view name : event_.fields) {
      if (name.empty()) break;
      const auto field = fields_.find(std::string(name));
      if (field == fields_.end() || field->first == "common_flags") continue;
      const bool bare = std::ranges::find(kBareHex, field->first) != std::end(kBareHex);
      if (!text.empty()) text += ' ';
      if (is_text(field->first))
        text += fmt::format("{}={}", name, texts_.at("rwbs_"));
      else if (bare)
        text += fmt::format("{}={:x}", name, field->second);
      else if (event_.system == "syscalls")
        text += fmt::format("{}=0x{:08x}", name, field->second);
      else
        text += fmt::format("{}={}", name, field->second);
    }
    return text;
  }

  [[nodiscard]] std::optional<std::uint64_t> field(const std::string& name) const {
    const auto found = fields_.find(name);
    return found == fields_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  using Names = std::vector<std::string>;
  static bool is_text(const std::string& name) { return name == "rwbs" || name == "next_comm"; }

  static std::uint64_t value(std::string_view name, fuzz::Choices& input) {
    std::uint64_t value = input.byte();
    if (value % 4 == 0)
      for (int i = 0; i < 7; ++i) value = value << 8 | input.byte();
    const auto most = kMost.find(name);
    return most == kMost.end() ? value : value % (most->second + 1);
  }
  void leave_out(const Names& names) {
    for (const std::string& name : names) fields_.erase(name);
  }
  std::uint64_t field_or_0(const char* name) const { return field(name).value_or(0); }

  // The words that stand for values, and what only some values have words for.
  void choose_texts(std::string_view form, fuzz::Choices& input) {
    const auto word = [this](const char* field, const char* zero, const char* other) {
      texts_[std::string(field) + "_"] = field_or_0(field) == 0 ? zero : other;
    };
    for (const char* field : {"rw", "write", "is_write"}) word(field, "read", "write");
    word("load", "unload", "load");
    word("waited", "poll", "wait");
    word("valid", "invalid", "valid");
    word("is_wfe", "i", "e");
    word("reinjected", "", " [reinjected]");
    constexpr const char* kTypes[] = {"unsatisfied-read", "read", "write"};
    constexpr const char* kChips[] = {"PIC master", "PIC slave", "IOAPIC"};
    texts_["type_"] = kTypes[field_or_0("type") % 3];
    texts_["irqchip_"] = kChips[field_or_0("irqchip") % 3];
    texts_["imr_"] = (field_or_0("imr") >> (field_or_0("pin") & 7) & 1) != 0 ? "|masked" : "";
    numbers_["destination_"] = field_or_0("address") >> 12 & 0xff;
    numbers_["major_"] = field_or_0("dev") >> 20, numbers_["minor_"] = field_or_0("dev") & 0xfffff;
    texts_["rwbs_"] = kKinds[input.up_to(std::size(kKinds) - 1)];
    std::string& comm = texts_["comm_"];
    // Anything that a name may hold, but for what ends it.
    for (unsigned i = input.up_to(15); i > 0; --i) {
      const char letter = static_cast<char>(' ' + input.up_to(94));
      comm += letter == '>' || letter == '=' ? '[' : letter;
    }
    if (form.find("{state_}") != form.npos) {
      const State& state = kStates[input.up_to(std::size(kStates) - 1)];
      texts_["state_"] = state.letters, fields_["prev_state"] = state.bits;
    }
    if (event_.decoded.decoder == Decoder::kUserspaceExit) choose_userspace(input);
    if (form.find("{futex_}") != form.npos) {
      const unsigned operation = input.up_to(std::size(kFutex) - 1), flags = input.up_to(3);
      fields_["op"] =
          operation | (flags & 1 ? kFutexPrivate : 0) | (flags & 2 ? kFutexRealtime : 0);
      texts_["futex_"] = std::string(kFutex[operation]) + (flags & 1 ? "|FUTEX_PRIVATE_FLAG" : "") +
                         (flags & 2 ? "|FUTEX_CLOCK_REALTIME" : "");
    }
  }
  // A run that failed has no reason.
  void choose_userspace(fuzz::Choices& input) {
    const std::uint64_t error = input.up_to(12);
    fields_["errno"] = 0 - error;
    if (error != 0) fields_["reason"] = 0;
    texts_["userspace_"] = error == 0
                               ? fmt::format("KVM_EXIT_X ({})", fields_["reason"])
                               : fmt::format("{} ({})", error == 4 ? "restart" : "error", error);
  }
  void choose_exit(std::string_view form, fuzz::Choices& input) {
    static const auto names = trace_text::kernels_reason_names();
    const auto pick = [&input](const kernel_events::SymbolNames& of) {
      return *std::next(of.begin(), input.up_to(static_cast<unsigned>(of.size() - 1)));
    };
    const Names x86 = {"exit_reason", "guest_rip", "isa", "vcpu_id"},
                arm64 = {"ret", "esr_ec", "vcpu_pc"}, riscv = {"sepc", "scause", "stval", "htval"};
    const bool is_arm64 = form.find("HSR_EC") != form.npos, is_riscv = form.starts_with("SEPC");
    for (const Names* others : {&x86, &arm64, &riscv})
      if (others != (is_arm64 ? &arm64 : is_riscv ? &riscv : &x86)) leave_out(*others);
    if (is_arm64) {
      const auto [number, name] = pick(names.arm64_ret);
      fields_["ret"] = number, texts_["arm64_"] = name;
    } else if (!is_riscv) {
      const unsigned isa = 1 + input.up_to(1);
      const auto [number, name] = pick(isa == 1 ? names.vmx : names.svm);
      const bool failed = input.up_to(3) == 0;
      fields_["exit_reason"] = number | (failed ? 1u << 31 : 0), fields_["isa"] = isa;
      texts_["x86_"] = name + (failed ? " FAILED_VMENTRY" : "");
      if (form.starts_with("<")) leave_out({"vcpu_id"});
    }
  }

  const KernelEvent& event_;
  std::map<std::string, std::uint64_t> fields_;
  std::map<std::string, std::string> texts_;
  std::map<std::string, std::uint64_t> numbers_;
};

// ---- payloads, member by member

auto members(const Other&) { return std::tuple(); }
auto members(const KvmExit& e) {
  return std::tuple(e.reason, e.isa, e.exception_class, e.vcpu, e.rip, e.fault_address);
}
auto members(const KvmEntry& e) { return std::tuple(e.vcpu); }
auto members(const KvmUserspaceExit& e) { return std::tuple(e.reason, e.error); }
auto members(const KvmStateLoad& e) { return std::tuple(e.vcpu); }
auto members(const KvmDetail& e) {
  return std::tuple(e.value, e.data, e.kind, e.access, e.unsatisfied);
}
auto members(const KvmTscOffset& e) { return std::tuple(e.next); }
auto members(const KvmNested& e) { return std::tuple(e.step); }
auto members(const KvmVcpuWakeup& e) { return std::tuple(e.ns, e.waited, e.valid); }
auto members(const KvmHaltPoll& e) { return std::tuple(e.now, e.before); }
auto members(const KvmIrq& e) { return std::tuple(e.step, e.level, e.pin, e.vector, e.vcpu); }
auto members(const SchedSwitch& e) {
  return std::tuple(e.prev, e.next, e.runnable, e.next_comm, e.left, e.fair);
}
auto members(const SchedWakeup& e) {
  return std::tuple(e.thread, e.cpu, e.waking, e.context, e.level);
}
auto members(const IoctlEnter& e) { return std::tuple(e.command); }
auto members(const NewThread& e) { return std::tuple(e.child, e.same_process); }
auto members(const Marker& e) { return std::tuple(e.text); }
auto members(const Lost& e) { return std::tuple(e.count); }
auto members(const GuestCall& e) { return std::tuple(e.entry); }
auto members(const HostEvent& e) {
  return std::tuple(e.step, e.number, e.thread, e.address, e.call, e.level);
}
auto members(const BlockIo& e) {
  return std::tuple(e.step, e.read, e.write, e.device, e.sectors, e.sector, e.level);
}
auto members(const KvmWfx& e) { return std::tuple(e.is_wfe); }

bool equal(const Payload& a, const Payload& b) {
  return a.index() == b.index() && std::visit(
                                       [&b](const auto& of_a) {
                                         using T = std::decay_t<decltype(of_a)>;
                                         return members(of_a) == members(std::get<T>(b));
                                       },
                                       a);
}

void compare(const KernelEvent& event, const Recorded& recorded, const std::string& text) {
  trace_text::TextFields reader;
  trace_text::TextValues values(event);
  if (const auto flags = recorded.field("common_flags")) values.set("common_flags", *flags);
  Payload read = Other{};
  const bool is_read = reader.read(text, values);
  if (is_read) values.decode(read);
  if (!is_read || !equal(read, recorded.decoded())) {
    std::fprintf(stderr, "%s: %s\n", std::string(event.full_name).c_str(), text.c_str());
    fuzz::broken("a text is not read as its record is");
  }
}

void read_any(const KernelEvent& event, std::string_view text) {
  trace_text::TextFields reader;
  trace_text::TextValues values(event);
  Payload payload = Other{};
  if (reader.read(text, values)) values.decode(payload);
}

void check(const PrintedForm& form, std::string_view bytes) {
  const KernelEvent* const event = events::find(form.event);
  fuzz::hold(event != nullptr, "a form is of no event");
  read_any(*event, bytes);
  fuzz::Choices input(bytes);
  const bool listed = input.up_to(3) == 0 || form.text.empty();
  const Recorded recorded(*event, form.text, input);
  // Without fields there is no list, a thread's name has none.
  if (listed && !event->fields[0].empty() && event->decoded.decoder != Decoder::kSwitch)
    compare(*event, recorded, recorded.listed());
  else if (!form.text.empty())
    compare(*event, recorded, recorded.printed(form.text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const PrintedForm& form = kForms[data[0] % std::size(kForms)];
  fuzz::bounded(size, [&] { check(form, fuzz::text_of(data, size).substr(1)); });
  return 0;
}
