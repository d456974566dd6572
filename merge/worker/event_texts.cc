// Reads the formats of kernel events through libtraceevent, and prints events in their formats.
#include <event-parse.h>
#include <sys/mman.h>
#include <trace-seq.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "merge/worker/channel.h"

namespace trapline::worker {
namespace {

constexpr std::size_t kMostText = 16 * 1024;  // per event

// Puts an event's bytes at the end of readable memory. libtraceevent does not check an event's
// size, so a print format that reads beyond the event ends the worker.
class Fence {
 public:
  explicit Fence(std::size_t size) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    size_ = (size + page - 1) / page * page;
    void* memory =
        ::mmap(nullptr, size_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED ||
        ::mprotect(static_cast<std::byte*>(memory) + size_, page, PROT_NONE) != 0) {
      ::_exit(kNoMemoryStatus);
    }
    start_ = static_cast<std::byte*>(memory);
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  // Copies the bytes to the end of the memory; all that is before them is zeros.
  std::byte* put(std::string_view bytes) {
    std::byte* const end = start_ + size_;
    std::memset(end - used_, 0, used_);
    used_ = bytes.size();
    std::memcpy(end - used_, bytes.data(), used_);
    return end - used_;
  }

 private:
  std::size_t size_ = 0, used_ = 0;
  std::byte* start_ = nullptr;
};

tep_handle* formats = nullptr;

// Returns the first field of an expression; "" if it has none.
std::string_view first_field(const tep_print_arg* arg) {
  if (arg->type == TEP_PRINT_FIELD) return arg->field.name;
  if (arg->type == TEP_PRINT_TYPE) return first_field(arg->typecast.item);
  if (arg->type != TEP_PRINT_OP) return {};
  const auto field = first_field(arg->op.left);
  return field.empty() ? first_field(arg->op.right) : field;
}

// Writes the __print_symbolic tables in the order of the print format.
void put_tables(const tep_print_arg* arg, MessageWriter& to) {
  for (; arg != nullptr; arg = arg->next) {
    if (arg->type == TEP_PRINT_OP) {
      put_tables(arg->op.left, to);
      put_tables(arg->op.right, to);
    } else if (arg->type == TEP_PRINT_TYPE) {
      put_tables(arg->typecast.item, to);
    } else if (arg->type == TEP_PRINT_SYMBOL) {
      to.text(first_field(arg->symbol.field));
      std::uint32_t count = 0;
      for (const auto* name = arg->symbol.symbols; name != nullptr; name = name->next) ++count;
      to.number(count);
      for (const auto* name = arg->symbol.symbols; name != nullptr; name = name->next) {
        const char* value = name->value;  // a number, in brackets where the format has them
        while (*value == '(' || *value == ' ') ++value;
        to.number(static_cast<std::uint32_t>(std::strtoull(value, nullptr, 0)));
        to.text(name->str);
      }
    }
  }
}

void describe(const tep_event* event) {
  MessageWriter to;
  if (event != nullptr) {
    to.number(static_cast<std::uint32_t>(event->id));
    to.number(std::uint32_t{(static_cast<unsigned>(event->flags) & TEP_EVENT_FL_FAILED) == 0});
    to.number(static_cast<std::uint32_t>(event->format.nr_common + event->format.nr_fields));
    for (const auto* list : {event->format.common_fields, event->format.fields}) {
      for (const auto* field = list; field != nullptr; field = field->next) {
        to.text(field->name);
        to.number(static_cast<std::uint32_t>(field->offset));
        to.number(static_cast<std::uint32_t>(field->size));
        to.number(std::uint32_t{(field->flags & (TEP_FIELD_IS_ARRAY | TEP_FIELD_IS_STRING)) != 0});
      }
    }
    put_tables(event->print_fmt.args, to);
  }
  answer(MessageKind::kFormat, to.bytes());
}

void add_formats(MessageReader& request) {
  const auto order = request.number<std::uint32_t>();
  const auto long_size = request.number<std::uint32_t>();
  if (formats == nullptr) {
    tep_set_loglevel(TEP_LOG_NONE);
    formats = tep_alloc();
    if (formats == nullptr) ::_exit(kNoMemoryStatus);
    tep_set_long_size(formats, static_cast<int>(long_size.value_or(8)));
    tep_set_file_bigendian(formats, order.value_or(0) == 0 ? TEP_LITTLE_ENDIAN : TEP_BIG_ENDIAN);
  }
  while (!request.at_end()) {
    const std::string system(request.text().value_or(""));
    const std::string format(request.text().value_or(""));
    tep_event* event = nullptr;
    // A print format that libtraceevent does not understand is no error: it then prints the events
    // as well as it can.
    if (tep_parse_format(formats, &event, format.c_str(), format.size(), system.c_str()) != 0)
      event = nullptr;
    describe(event);
  }
}

// Returns a text that is valid until the next call.
std::string_view printed(std::uint32_t cpu, std::string_view event, Fence& fence) {
  tep_record record{};
  record.data = fence.put(event);
  record.size = static_cast<int>(event.size());
  record.cpu = static_cast<int>(cpu);
  static trace_seq text;
  text.buffer == nullptr ? trace_seq_init(&text) : trace_seq_reset(&text);
  tep_print_event(formats, &text, &record, "%s", TEP_PRINT_INFO);
  trace_seq_terminate(&text);
  const std::size_t most = text.len < kMostText ? text.len : kMostText;
  return {text.buffer, ::strnlen(text.buffer, most)};
}

void print(MessageReader& request) {
  static Fence fence(1u << 16);
  MessageWriter texts;
  std::size_t at_once = 8, count = 0;  // few at first, since the caller waits for the first texts
  while (!request.at_end()) {
    const auto cpu = request.number<std::uint32_t>();
    const auto event = request.text();
    if (request.failed()) break;
    texts.text(formats == nullptr || event->size() > fence.size() ? std::string_view()
                                                                  : printed(*cpu, *event, fence));
    if (++count < at_once || request.at_end()) continue;
    answer(MessageKind::kTexts, texts.bytes());
    texts.clear();
    at_once *= 3;
  }
  answer(MessageKind::kTexts, texts.bytes());
}

}  // namespace

void print_events(Request&& request) {
  MessageReader payload(request.payload);
  if (request.kind == MessageKind::kFormats) add_formats(payload);
  const bool is_printk = request.kind == MessageKind::kPrintk;
  if ((is_printk || request.kind == MessageKind::kKallsyms) && formats != nullptr) {
    const std::string text(payload.text().value_or(""));
    (void)(is_printk ? tep_parse_printk_formats : tep_parse_kallsyms)(formats, text.c_str());
  }
  if (request.kind == MessageKind::kPrint) print(payload);
}

}  // namespace trapline::worker
