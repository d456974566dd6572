// Gets the formats of a recording's events and the events' texts from libtraceevent, which runs in
// a worker process. The worker is started for the first request and gets bytes of the recording,
// never a file. The worker's answers are checked like a file's content.
//
// A text costs a round trip to the worker, so later events on the same page, of types that were
// requested before, are printed in the same trip. The worker sends a few texts at a time and prints
// the next ones while these are used.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/source/kernel_events/recorded_event.h"

namespace trapline {
class MessageWriter;
class Worker;
}  // namespace trapline

namespace trapline::kernel_events {

struct FormatTexts;
struct EventFormat;

struct FormatField {
  std::string name;
  std::uint32_t offset = 0, size = 0;  // bytes; the field ends within 64 KiB
  bool array = false;  // its length is fixed, or given by the event's end or by a word of the event
};

// The names that a recording has for numbers.
using SymbolNames = std::map<std::uint32_t, std::string>;
struct SymbolTableOfField {
  std::string field;  // the first field of the expression whose values have names
  SymbolNames names;  // printable
};

// The fields and names that an event's format declares, as in events/SYSTEM/NAME/format.
struct EventDescription {
  std::vector<FormatField> fields;          // common fields first; empty: the format is unreadable
  std::uint32_t size = 0;                   // end of the last field
  bool print_read = true;                   // libtraceevent understands the print format
  std::vector<SymbolTableOfField> symbols;  // of __print_symbolic, in the print format's order

  // Checks a worker's answer about the format of `type`; nullopt if it cannot be right.
  [[nodiscard]] static std::optional<EventDescription> parse(std::uint16_t type,
                                                             std::span<const std::byte> answer);
};

// Returns the value of the line of a format that begins with `key`, such as "name:"; "" without it.
[[nodiscard]] std::string_view format_line(std::string_view text, std::string_view key);
// Returns the number after "ID:", if it is below 65,536.
[[nodiscard]] std::optional<std::uint16_t> format_id(std::string_view text);

// Returns whether one of the formats prints an address as a symbol.
[[nodiscard]] bool prints_symbols(std::string_view formats);

class EventTexts {
 public:
  // Appends at most `most` events that follow, on the same CPU, the event whose text is requested.
  using Following = std::function<void(std::size_t most, std::vector<RecordedEvent>&)>;
  // Returns the recorded kernel's symbols, as in /proc/kallsyms.
  using Kallsyms = std::function<std::string()>;

  // `recording`: the recording's name, for messages.
  EventTexts(std::string recording, const FormatTexts& formats);
  ~EventTexts();

  // Describes the formats of these types, which must be types of the recording. If a format cannot
  // be read, or the worker fails on it even alone, its description has no fields, and status() is
  // an Error. The result is an Error (kRuntime) if no worker can be started.
  [[nodiscard]] Result<std::vector<EventDescription>> describe(
      std::span<const std::uint16_t> types);
  // Returns the printable text of an event; "[cut off]" if the event is shorter than its fields,
  // "[not printed]" if the worker failed on it.
  [[nodiscard]] std::string text(std::uint16_t type, std::span<const std::byte> event,
                                 std::uint32_t cpu, const Following& following,
                                 const Kallsyms& kallsyms);
  // Returns the worker's first failure.
  [[nodiscard]] const Result<void>& status() const { return status_; }

 private:
  struct Type {
    const EventFormat* format = nullptr;
    std::optional<std::uint32_t> size;  // end of the last field, once it was asked for
    bool requested = false;
    bool sent = false;     // the current worker has the format
    bool alone = false;    // a batch that included this type failed
    bool refused = false;  // the worker failed on it
  };
  struct PrintedText {
    std::string event;  // the event's bytes
    std::uint32_t cpu = 0;
    bool due = false;    // the worker has the event, and has not sent the text yet
    bool ahead = false;  // the text was printed ahead, and nobody has asked for it so far
    std::string text;
    [[nodiscard]] bool is(std::string_view requested, std::uint32_t of_cpu) const {
      return cpu == of_cpu && event == requested;
    }
  };
  struct Wanted {
    Type* type;
    std::string_view event;  // the event's bytes
  };

  PrintedText& known_of(std::string_view event);
  std::vector<Wanted> with_following(Type& type, std::string_view event, std::uint32_t cpu,
                                     const Following& following);
  [[nodiscard]] Result<void> start();
  [[nodiscard]] Result<std::vector<EventDescription>> ask_formats(std::span<Type* const> types);
  [[nodiscard]] MessageWriter request_for(std::span<Type* const> types) const;
  [[nodiscard]] bool runs() const;
  [[nodiscard]] Result<void> send_formats(std::span<Type* const> types,
                                          std::vector<EventDescription>& described);
  [[nodiscard]] Result<void> print(std::vector<Wanted> wanted, std::uint32_t cpu,
                                   const Kallsyms& kallsyms);
  [[nodiscard]] Result<void> receive_up_to(const PrintedText* last);
  std::size_t forget_due();
  void failed(Type& type, Error error, std::string_view doing);

  std::string recording_;
  const FormatTexts& formats_;
  std::unordered_map<std::uint32_t, Type> types_;
  std::unique_ptr<Worker> worker_;
  std::uint64_t printed_ = 0;  // events that the present worker got to print
  // `wants_`: texts of requested types need this section of the recording. `has_`: the present
  // worker has the section.
  bool wants_printk_ = false, has_printk_ = false;
  bool wants_kallsyms_ = false, has_kallsyms_ = false;
  // Printed texts. A hash of an event's bytes selects the slot of its text; the next text in that
  // slot replaces it. Many events of a recording differ only in their times, which are not part of
  // the bytes.
  std::vector<PrintedText> known_;
  // The events whose texts are due: the worker has them and will print them in this order.
  std::deque<std::pair<Type*, PrintedText*>> due_;
  std::vector<RecordedEvent> after_;
  std::uint64_t ahead_ = 0;  // events that were printed before they were asked for
  std::uint64_t hits_ = 0;   // the events of ahead_ that were asked for since
  unsigned failures_ = 0;
  Result<void> status_;
};

}  // namespace trapline::kernel_events
