// The texts of a recording's events, printed by libtraceevent in a worker process. The worker gets
// only the formats and the events' bytes; it is started for the first text.
//
// A text costs a round trip to the worker, so later events on the same page, of types that were
// requested before, are printed in the same trip.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/source/kernel_events/recorded_event.h"

namespace trapline {
class Worker;
}

namespace trapline::kernel_events {

struct FormatTexts;
struct EventFormat;

class EventTexts {
 public:
  // Appends at most `most` events of the same CPU that follow the requested one.
  using Following = std::function<void(std::size_t most, std::vector<RecordedEvent>&)>;

  // `recording`: the recording's name, for messages.
  EventTexts(std::string recording, const FormatTexts& formats);
  ~EventTexts();

  // Returns the printable text of an event; "[cut off]" if the event is shorter than its fields,
  // "[not printed]" if the worker failed on it.
  [[nodiscard]] std::string text(std::uint16_t type, std::span<const std::byte> event,
                                 std::uint32_t cpu, const Following& following);
  // Returns the worker's first failure.
  [[nodiscard]] const Result<void>& status() const { return status_; }

 private:
  struct Type {
    const EventFormat* format = nullptr;
    std::uint32_t size = 0;  // end of the last field
    bool asked = false;
    bool sent = false;     // the current worker has the format
    bool alone = false;    // a batch that included this type failed
    bool refused = false;  // the worker failed on it
  };
  struct PrintedText {
    std::vector<std::byte> event;
    std::uint32_t cpu = 0;
    std::string text;
    [[nodiscard]] bool is(std::span<const std::byte> asked, std::uint32_t of_cpu) const {
      return cpu == of_cpu && event.size() == asked.size() &&
             std::memcmp(event.data(), asked.data(), asked.size()) == 0;
    }
  };
  struct Wanted {
    Type* type;
    std::span<const std::byte> event;
  };

  void look_at_formats();
  PrintedText& known_of(std::span<const std::byte> event);
  std::vector<Wanted> with_following(Type& type, std::span<const std::byte> event,
                                     const Following& following);
  [[nodiscard]] Result<void> start();
  [[nodiscard]] Result<void> send_formats(std::span<const Wanted> wanted);
  [[nodiscard]] Result<void> print(std::span<const Wanted> wanted, std::uint32_t cpu);
  void failed(const Wanted& wanted, Error error);

  std::string recording_;
  const FormatTexts& formats_;
  bool looked_ = false;
  std::unordered_map<std::uint32_t, Type> types_;
  std::unique_ptr<Worker> worker_;
  std::uint64_t printed_ = 0;  // by the present worker
  // Printed texts, each in the slot of its event's address; the next text of that slot replaces it.
  std::vector<PrintedText> known_;
  std::vector<RecordedEvent> after_;
  std::uint64_t ahead_ = 0;  // events that were printed before they were asked for
  std::uint64_t hits_ = 0;   // of those, asked for since
  unsigned failures_ = 0;
  Result<void> status_;
};

}  // namespace trapline::kernel_events
