// The texts of a recording's events, printed by libtraceevent in a worker, which gets the formats
// and the events' bytes and nothing else. It is started for the first text.
//
// A text costs a round trip, so events that follow on the same page, of types that were asked for
// before, are printed with it.
#pragma once

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
  // Appends at most `most` events that come after the one that is asked for, of the same CPU.
  using Following = std::function<void(std::size_t most, std::vector<RecordedEvent>&)>;

  // `recording` for messages.
  EventTexts(std::string recording, const FormatTexts& formats);
  ~EventTexts();

  // Printable; "[cut off]" for an event that is shorter than its fields, "[not printed]" where the
  // worker failed on it.
  [[nodiscard]] std::string text(std::uint16_t type, std::span<const std::byte> event,
                                 std::uint32_t cpu, const Following& following);
  // The worker's first failure.
  [[nodiscard]] const Result<void>& status() const { return status_; }

 private:
  struct Type {
    const EventFormat* format = nullptr;
    std::uint32_t size = 0;  // up to the end of its fields
    bool asked = false;
    bool sent = false;     // to the present worker
    bool alone = false;    // a batch with it failed
    bool refused = false;  // the worker failed on it
  };
  struct PrintedText {
    std::vector<std::byte> event;
    std::uint32_t cpu = 0;
    std::string text;
  };
  struct Wanted {
    Type* type;
    std::span<const std::byte> event;
  };

  void look_at_formats();
  std::optional<std::string> remembered(std::span<const std::byte> event, std::uint32_t cpu);
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
  std::unordered_map<const std::byte*, PrintedText> known_;
  std::uint64_t ahead_ = 0;  // events that were printed before they were asked for
  std::uint64_t hits_ = 0;   // of those, asked for since
  unsigned failures_ = 0;
  Result<void> status_;
};

}  // namespace trapline::kernel_events
