// Interprets the lines of a text: finds the type of an event by its name, and decodes its payload.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "merge/source/kernel_events/capability_looker.h"
#include "merge/source/trace_text/text_fields.h"
#include "merge/source/trace_text/text_lines.h"

namespace trapline::trace_text {

class TextEvents {
 public:
  TextEvents();

  // Finds the type by the line's name and, for a syscall, by its text.
  [[nodiscard]] std::uint16_t type_of(const TextLine& line);
  // Returns whether the event is one of those that are decoded.
  [[nodiscard]] bool is_known(const TextLine& line) { return type_of(line) < known_.size(); }
  [[nodiscard]] EventClass class_of(std::uint16_t type) const;
  // Returns a name such as "kvm:kvm_exit"; for an event without a decoder, the name in the text.
  [[nodiscard]] const std::string& name(std::uint16_t type) const { return names_[type]; }
  [[nodiscard]] std::size_t types() const { return names_.size(); }
  [[nodiscard]] const kernel_events::Witness& witness(std::uint16_t type) const {
    return witnesses_[type];
  }

  enum class Fit : std::uint8_t {
    // The event has a decoder, but its text is not as any known kernel or tool prints it: the
    // payload is Other.
    kNone,
    kPart,  // the text is incomplete, and the missing part is not known
    kWhole
  };
  // Fills type, thread, CPU, text and payload, but not the time. For a line without a CPU or
  // thread, decodes only events of KVM, system calls and markers, since other events are about a
  // CPU. A line without a thread gets one that stands for its vCPU; lines without a vCPU get that
  // of the last vCPU on their CPU.
  [[nodiscard]] Fit decode(const TextLine& line, std::uint16_t type, Event& event);

  [[nodiscard]] const kernel_events::ReasonNames& reasons() const { return fields_.reasons(); }

 private:
  // Allows look-ups without a copy of the name.
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };

  std::uint16_t add(std::string_view name);
  ThreadId thread_of(const TextLine& line, const Payload& payload);

  TextFields fields_;
  // For texts without threads: the thread that had a CPU last, and the only thread seen at all.
  std::unordered_map<std::uint32_t, ThreadId> on_cpu_;
  std::optional<ThreadId> only_;
  bool several_ = false;
  std::unordered_map<std::string, std::uint16_t, Hash, std::equal_to<>> types_;
  std::vector<const KernelEvent*> known_;  // by type
  std::vector<std::string> names_;         // by type; those of events with a decoder come first
  std::vector<kernel_events::Witness> witnesses_;  // by type
  std::uint16_t marker_ = 0, ioctl_ = 0, futex_ = 0, futex_end_ = 0, function_ = 0;
};

}  // namespace trapline::trace_text
