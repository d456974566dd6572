#include "merge/source/kernel_events/formats.h"

#include <event-parse.h>
#include <trace-seq.h>

#include <charconv>
#include <cstdlib>

#include "backend_ftrace/base/child.h"
#include "backend_ftrace/base/text.h"
#include "merge/source/kernel_events/decoders.h"
#include "merge/source/kernel_events/riscv_cause.h"

namespace trapline::trace_dat {
namespace {

constexpr std::size_t kTypes = 65536;  // common_type has 16 bits

// The value of a line "KEY: VALUE" of a format text.
std::string_view line_value(std::string_view text, std::string_view key) {
  const auto at = text.find(key);
  if (at == std::string_view::npos || (at != 0 && text[at - 1] != '\n')) return {};
  const auto rest = text.substr(at + key.size());
  return trimmed(rest.substr(0, rest.find('\n')));
}

bool is_known(std::string_view name) {
  for (const KnownEvent& known : known_events()) {
    if (known.name == name) return true;
  }
  return false;
}

void parse_format(tep_handle* tep, const EventFormat& format) {
  // libtraceevent wants a terminated text; std::string has one. A format it cannot parse leaves an
  // event without fields, which the look-up below treats as absent.
  (void)tep_parse_event(tep, format.text.c_str(), format.text.size(), format.system.c_str());
}

// Keys are C expressions as the kernel spelled them: 0x400, (0x24), (((0x24UL))), -1.
std::optional<std::uint32_t> symbol_key(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != '(' && c != ')' && c != ' ') digits += c;
  }
  char* end = nullptr;
  const long long value = std::strtoll(digits.c_str(), &end, 0);
  if (end == digits.c_str()) return std::nullopt;
  return static_cast<std::uint32_t>(value);
}

std::string_view symbol_field(const tep_print_arg* arg) {
  if (arg == nullptr) return {};
  if (arg->type == TEP_PRINT_FIELD) return arg->field.name == nullptr ? "" : arg->field.name;
  if (arg->type == TEP_PRINT_OP) return symbol_field(arg->op.left);
  if (arg->type == TEP_PRINT_TYPE) return symbol_field(arg->typecast.item);
  return {};
}

// Visits the __print_symbolic tables of a print format in the order of the text.
template <typename Visit>
void for_each_symbol_table(const tep_print_arg* arg, Visit visit, int depth = 0) {
  constexpr int kDeepest = 64;
  for (; arg != nullptr && depth < kDeepest; arg = arg->next) {
    if (arg->type == TEP_PRINT_SYMBOL) {
      visit(symbol_field(arg->symbol.field), arg->symbol.symbols);
    } else if (arg->type == TEP_PRINT_OP) {
      for_each_symbol_table(arg->op.left, visit, depth + 1);
      for_each_symbol_table(arg->op.right, visit, depth + 1);
    } else if (arg->type == TEP_PRINT_TYPE) {
      for_each_symbol_table(arg->typecast.item, visit, depth + 1);
    }
  }
}

SymbolNames symbol_names(const tep_print_flag_sym* symbol) {
  SymbolNames names;
  for (; symbol != nullptr; symbol = symbol->next) {
    if (symbol->value == nullptr || symbol->str == nullptr) continue;
    if (const auto key = symbol_key(symbol->value)) names.emplace(*key, printable(symbol->str));
  }
  return names;
}

Field field_of(tep_event* event, const char* name) {
  const tep_format_field* field = tep_find_any_field(event, name);
  if (field == nullptr || field->offset < 0 || field->offset > UINT16_MAX || field->size < 0) {
    return {};
  }
  const bool integer = field->size == 1 || field->size == 2 || field->size == 4 || field->size == 8;
  // Arrays (a comm, a marker's text) are addressed by offset alone.
  const bool array = (field->flags & (TEP_FIELD_IS_ARRAY | TEP_FIELD_IS_STRING)) != 0;
  if (!array && !integer) return {};
  return {static_cast<std::uint16_t>(field->offset),
          static_cast<std::uint8_t>(array ? 0 : field->size)};
}

std::string named(const SymbolNames& names, std::uint32_t key, std::string_view otherwise) {
  const auto found = names.find(key);
  return found != names.end() ? found->second : fmt::format("{}{:#x}", otherwise, key);
}

}  // namespace

std::string ReasonNames::of_exit(std::uint32_t isa, std::uint32_t reason,
                                 std::uint32_t exception_class) const {
  constexpr std::uint32_t kVmx = 1, kVmxReasonMask = 0xffff, kVmxFailedEntry = 1u << 31, kTrap = 2;
  if (isa == kIsaArm64) {
    return reason == kTrap ? named(arm64_class, exception_class, "class ")
                           : named(arm64_ret, reason, "ret ");
  }
  if (isa == kIsaRiscv) return riscv_cause(reason, exception_class);
  if (isa == kVmx) {
    // As the kernel prints it: an entry that failed is no exit of a guest that ran.
    return named(vmx, reason & kVmxReasonMask, "") +
           ((reason & kVmxFailedEntry) != 0 ? " FAILED_VMENTRY" : "");
  }
  return named(svm, reason, "");
}

std::string ReasonNames::of_userspace(std::uint32_t reason) const {
  return named(userspace, reason, "KVM_EXIT ");
}

void Formats::FreeTep::operator()(tep_handle* tep) const { tep_free(tep); }
Formats::Formats(Formats&&) noexcept = default;
Formats& Formats::operator=(Formats&&) noexcept = default;
Formats::~Formats() = default;

Result<Formats> Formats::parse(const std::string& name, FormatTexts texts) {
  tep_set_loglevel(TEP_LOG_NONE);
  Formats formats;
  formats.texts_ = std::move(texts);
  const auto work = [&formats] {
    formats.parse_known();
    formats.look_up_fields();
    formats.read_reason_names();
  };
  if (!survives(work)) {
    return fail(ErrorKind::kDamaged, "{}: damaged: its event formats cannot be parsed", name);
  }
  work();
  return formats;
}

void Formats::parse_known() {
  tep_.reset(tep_alloc());
  tep_set_long_size(tep_.get(), static_cast<int>(texts_.long_size));
  tep_set_file_bigendian(tep_.get(),
                         texts_.order == std::endian::big ? TEP_BIG_ENDIAN : TEP_LITTLE_ENDIAN);
  for (const EventFormat& format : texts_.formats) {
    const auto id = parse_number(line_value(format.text, "ID:"));
    if (!id || *id >= kTypes) continue;
    const std::string name =
        fmt::format("{}:{}", printable(format.system), printable(line_value(format.text, "name:")));
    if (names_.size() <= *id) names_.resize(*id + 1);
    names_[*id] = name;
    if (is_known(name)) parse_format(tep_.get(), format);
  }
}

void Formats::look_up_fields() {
  for (const KnownEvent& known : known_events()) {
    const auto colon = known.name.find(':');
    const std::string system(known.name.substr(0, colon));
    const std::string name(known.name.substr(colon + 1));
    tep_event* event = tep_find_event_by_name(tep_.get(), system.c_str(), name.c_str());
    if (event == nullptr || event->id < 0 || static_cast<std::size_t>(event->id) >= kTypes) {
      continue;
    }
    Schema schema;
    schema.decode = known.decode;
    schema.events = known.events;
    schema.min_size = 8;  // the common fields
    for (std::size_t i = 0; i < known.fields.size() && known.fields[i] != nullptr; ++i) {
      schema.fields[i] = field_of(event, known.fields[i]);
      schema.min_size =
          std::max(schema.min_size, std::uint32_t{schema.fields[i].offset} + schema.fields[i].size);
    }
    const auto type = static_cast<std::size_t>(event->id);
    if (schemas_.size() <= type) schemas_.resize(type + 1);
    schemas_[type] = schema;
  }
}

void Formats::read_reason_names() {
  tep_handle* tep = tep_.get();
  if (const tep_event* event = tep_find_event_by_name(tep, "kvm", "kvm_exit")) {
    for_each_symbol_table(event->print_fmt.args, [this](std::string_view field, auto* symbols) {
      if (field == "ret") reasons_.arm64_ret = symbol_names(symbols);
      if (field == "esr_ec") reasons_.arm64_class = symbol_names(symbols);
      if (field != "exit_reason") return;
      // (isa == 1) ? VMX's : SVM's, in this order.
      (reasons_.vmx.empty() ? reasons_.vmx : reasons_.svm) = symbol_names(symbols);
    });
    if (reasons_.svm.empty()) reasons_.svm = reasons_.vmx;
  }
  if (const tep_event* event = tep_find_event_by_name(tep, "kvm", "kvm_userspace_exit")) {
    for_each_symbol_table(event->print_fmt.args, [this](std::string_view field, auto* symbols) {
      if (field == "reason") reasons_.userspace = symbol_names(symbols);
    });
  }
}

void Formats::read_comms(std::string_view text) {
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const auto pid = parse_number(line.substr(0, space));
    if (pid && *pid <= INT32_MAX) {
      comms_[static_cast<std::int32_t>(*pid)] = printable(line.substr(space + 1));
    }
  }
}

std::string_view Formats::name(std::uint16_t type) const {
  return type < names_.size() ? std::string_view(names_[type]) : std::string_view();
}

int Formats::type(std::string_view name) const {
  for (std::size_t type = 0; type < names_.size(); ++type) {
    if (names_[type] == name) return static_cast<int>(type);
  }
  return -1;
}

std::string Formats::comm(ThreadId thread) const {
  if (thread == ThreadId{0}) return "<idle>";
  const auto found = comms_.find(static_cast<std::int32_t>(thread));
  return found == comms_.end() ? std::string() : found->second;
}

std::string Formats::text(std::uint16_t type, std::span<const std::byte> raw,
                          std::uint32_t cpu) const {
  if (!all_parsed_) {
    all_parsed_ = true;
    const auto parse_rest = [this] {
      for (const EventFormat& format : texts_.formats) {
        const auto id = parse_number(line_value(format.text, "ID:"));
        if (id && *id < names_.size() && !is_known(names_[*id])) parse_format(tep_.get(), format);
      }
    };
    if (survives(parse_rest)) parse_rest();
  }
  tep_record record{};
  record.data = const_cast<std::byte*>(raw.data());
  record.size = static_cast<int>(raw.size());
  record.cpu = static_cast<int>(cpu);
  tep_event* event = tep_find_event(tep_.get(), type);
  // libtraceevent reads fields without looking at the record's size: it gets those that fit.
  if (event == nullptr) return {};
  for (const tep_format_field* field = event->format.fields; field != nullptr;
       field = field->next) {
    if (field->offset < 0 || field->size < 0 ||
        static_cast<std::size_t>(field->offset) + static_cast<std::size_t>(field->size) >
            raw.size()) {
      return "[cut off]";
    }
  }
  trace_seq sequence;
  trace_seq_init(&sequence);
  tep_print_event(tep_.get(), &sequence, &record, "%s", TEP_PRINT_INFO);
  trace_seq_terminate(&sequence);
  const auto* buffer = sequence.buffer;
  std::string text = printable(trimmed(std::string_view(buffer, ::strnlen(buffer, sequence.len))));
  trace_seq_destroy(&sequence);
  return text;
}

}  // namespace trapline::trace_dat
