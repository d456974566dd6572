#include "merge/source/kernel_events/formats.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/model/numbered_names.h"

namespace trapline::kernel_events {
namespace {

Field field_of(std::span<const FormatField> fields, std::string_view name) {
  const auto field = std::ranges::find(fields, name, &FormatField::name);
  if (field == fields.end() || field->offset > UINT16_MAX) return {};
  const bool integer = field->size == 1 || field->size == 2 || field->size == 4 || field->size == 8;
  // Decoders read an array (a comm, a marker's text) by its offset alone.
  if (!field->array && !integer) return {};
  return {static_cast<std::uint16_t>(field->offset),
          static_cast<std::uint8_t>(field->array ? 0 : field->size)};
}

std::string named(const SymbolNames& names, std::uint32_t key, std::string_view otherwise) {
  const auto found = names.find(key);
  return found != names.end() ? found->second : fmt::format("{}{:#x}", otherwise, key);
}

// Returns the name of scause, whose highest bit marks an interrupt; the number if the cause has no
// name. RISC-V's kvm_exit prints only numbers, so the recording has no names; these are the ones of
// arch/riscv/include/asm/csr.h, which `perf kvm stat` prints too.
std::string riscv_cause(std::uint32_t cause, std::uint32_t exception_class) {
  constexpr NumberedNames kExceptions[] = {
      {0, "EXC_INST_MISALIGNED,EXC_INST_ACCESS,EXC_INST_ILLEGAL,EXC_BREAKPOINT"},
      {4, "EXC_LOAD_MISALIGNED,EXC_LOAD_ACCESS,EXC_STORE_MISALIGNED,EXC_STORE_ACCESS,EXC_SYSCALL"},
      {9, "EXC_HYPERVISOR_SYSCALL,EXC_SUPERVISOR_SYSCALL,,EXC_INST_PAGE_FAULT,EXC_LOAD_PAGE_FAULT"},
      {14, ",EXC_STORE_PAGE_FAULT,,,,,EXC_INST_GUEST_PAGE_FAULT,EXC_LOAD_GUEST_PAGE_FAULT"},
      {22, "EXC_VIRTUAL_INST_FAULT,EXC_STORE_GUEST_PAGE_FAULT"},
  };
  constexpr NumberedNames kInterrupts[] = {
      {0, ",IRQ_S_SOFT,IRQ_VS_SOFT,IRQ_M_SOFT,,IRQ_S_TIMER,IRQ_VS_TIMER,IRQ_M_TIMER,,IRQ_S_EXT"},
      {10, "IRQ_VS_EXT,IRQ_M_EXT,IRQ_S_GEXT,IRQ_PMU_OVF"},
  };

  const std::uint32_t number = cause & ~kRiscvInterrupt;
  const bool interrupt = (cause & kRiscvInterrupt) != 0;
  const auto name = interrupt ? name_in(kInterrupts, number) : name_in(kExceptions, number);
  if (name.empty()) return fmt::format("{} {:#x}", interrupt ? "IRQ" : "EXC", number);
  return std::string(name) + (exception_class == kRiscvWfi ? " (WFI)" : "");
}

}  // namespace

std::string ReasonNames::of(const ExitReason& exit) const {
  const auto& [reason, isa, exception_class] = exit;
  constexpr std::uint32_t kVmx = 1, kVmxReasonMask = 0xffff, kVmxFailedEntry = 1u << 31, kTrap = 2;
  if (isa == kIsaArm64) {
    return reason == kTrap ? named(arm64_class, exception_class, "class ")
                           : named(arm64_ret, reason, "ret ");
  }
  if (isa == kIsaRiscv) return riscv_cause(reason, exception_class);
  if (isa == kVmx) {
    // Prints as the kernel does: a failed entry is not an exit of a guest that ran.
    return named(vmx, reason & kVmxReasonMask, "") +
           ((reason & kVmxFailedEntry) != 0 ? " FAILED_VMENTRY" : "");
  }
  if (isa == ExitReason::kIsaUserspace) {
    // A recording without kvm_userspace_exit has no names; its markers may have QEMU's numbers.
    return userspace.empty() ? run_exit_name(reason) : named(userspace, reason, "KVM_EXIT ");
  }
  return named(svm, reason, "");
}

Result<Formats> Formats::parse(std::string name, FormatTexts texts) {
  Formats formats;
  formats.texts_ = std::make_shared<const FormatTexts>(std::move(texts));
  formats.order_ = formats.texts_->order;
  formats.printing_ = std::make_shared<EventTexts>(std::move(name), *formats.texts_);
  std::map<std::uint16_t, const KernelEvent*> by_type;  // the last of a type's formats counts
  for (const EventFormat& format : formats.texts_->formats) {
    const auto id = format_id(format.text);
    if (!id) continue;
    if (formats.names_.size() <= *id) formats.names_.resize(*id + 1U);
    formats.names_[*id] = format.name();
    by_type.erase(*id);
    const KernelEvent* known = events::find(formats.names_[*id]);
    if (known != nullptr && known->decoded.decoder != Decoder::kNone) by_type[*id] = known;
  }
  std::vector<std::uint16_t> known;
  for (const auto& [type, event] : by_type) known.push_back(type);
  auto described = formats.printing_->describe(known);
  if (!described) return tl::unexpected(std::move(described).error());
  for (std::size_t i = 0; i < known.size(); ++i)
    formats.add_known(known[i], *by_type[known[i]], std::move((*described)[i]));
  if (formats.reasons_.svm.empty()) formats.reasons_.svm = formats.reasons_.vmx;
  return formats;
}

void Formats::add_known(std::uint16_t type, const KernelEvent& known, EventDescription format) {
  if (format.fields.empty()) return unread_.push_back(type);
  Schema schema;
  schema.decoder = known.decoded.decoder;
  schema.events = known.decoded.read_for;
  schema.kind_of_payload = known.decoded.kind;
  schema.order = order_;
  schema.min_size = kCommonFields;
  for (std::size_t i = 0; i < known.fields.size() && !known.fields[i].empty(); ++i) {
    schema.fields[i] = field_of(format.fields, known.fields[i]);
    schema.min_size =
        std::max(schema.min_size, std::uint32_t{schema.fields[i].offset} + schema.fields[i].size);
  }
  if (schemas_.size() <= type) schemas_.resize(type + 1U);
  schemas_[type] = schema;
  const bool of_exits =
      schema.decoder == Decoder::kExit || schema.decoder == Decoder::kUserspaceExit;
  if (of_exits && !format.print_read) nameless_.push_back(type);
  if (of_exits) read_reason_names(schema.decoder, std::move(format.symbols));
}

void Formats::read_reason_names(Decoder decoder, std::vector<SymbolTableOfField> symbols) {
  for (SymbolTableOfField& table : symbols) {
    if (decoder == Decoder::kUserspaceExit) {
      if (table.field == "reason") reasons_.userspace = std::move(table.names);
    } else if (table.field == "ret") {
      reasons_.arm64_ret = std::move(table.names);
    } else if (table.field == "esr_ec") {
      reasons_.arm64_class = std::move(table.names);
    } else if (table.field == "exit_reason") {
      // The print format has (isa == 1) ? VMX's table : SVM's table, in this order.
      (reasons_.vmx.empty() ? reasons_.vmx : reasons_.svm) = std::move(table.names);
    }
  }
}

void Formats::read_comms(std::string_view text) {
  while (!text.empty()) {
    const auto line = take_line(text);
    const auto space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const auto pid = parse_number(line.substr(0, space));
    if (pid && *pid <= INT32_MAX)
      comms_[static_cast<std::int32_t>(*pid)] = printable(line.substr(space + 1));
  }
}

std::string_view Formats::name(std::uint16_t type) const {
  return type < names_.size() ? std::string_view(names_[type]) : std::string_view();
}

int Formats::type(const KernelEvent& event) const {
  for (std::size_t type = 0; type < names_.size(); ++type)
    if (names_[type] == event.full_name) return static_cast<int>(type);
  return -1;
}

std::string Formats::comm(ThreadId thread) const {
  if (thread == ThreadId{0}) return "<idle>";
  const auto found = comms_.find(tid_of(thread));
  return found == comms_.end() ? std::string() : found->second;
}

}  // namespace trapline::kernel_events
