// What the lines of a text mean: the type of an event by its name, and its payload.
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

  // By the line's name and, of a syscall, its text.
  [[nodiscard]] std::uint16_t type_of(const TextLine& line);
  // Whether it is one of those that are decoded.
  [[nodiscard]] bool is_known(const TextLine& line) { return type_of(line) < known_.size(); }
  [[nodiscard]] EventClass class_of(std::uint16_t type) const;
  // "kvm:kvm_exit"; of an event that nothing decodes as the text has it.
  [[nodiscard]] const std::string& name(std::uint16_t type) const { return names_[type]; }
  [[nodiscard]] std::size_t types() const { return names_.size(); }
  [[nodiscard]] const kernel_events::Witness& witness(std::uint16_t type) const {
    return witnesses_[type];
  }

  enum class Fit : std::uint8_t {
    kNone,  // the event is one of those that are decoded, and its text is not as any kernel or tool
            // prints it: the payload is Other
    kPart,  // there would be more of the text: what is missing is not known
    kWhole
  };
  // Fills type, thread, CPU, text and payload; not the time. Without the line's CPU or thread only
  // events of KVM, system calls and markers are decoded: others are of a CPU. Without a thread the
  // vCPU's number stands for it, which holds for what the vCPU's CPU has done since.
  [[nodiscard]] Fit decode(const TextLine& line, std::uint16_t type, Event& event);

  [[nodiscard]] const kernel_events::ReasonNames& reasons() const { return fields_.reasons(); }

 private:
  // Without a copy of the name for each look-up.
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };

  std::uint16_t add(std::string_view name);
  ThreadId thread_of(const TextLine& line, const Payload& payload);

  TextFields fields_;
  // Without threads in the lines: who had a CPU last, and who alone was seen at all.
  std::unordered_map<std::uint32_t, ThreadId> on_cpu_;
  std::optional<ThreadId> only_;
  bool several_ = false;
  std::unordered_map<std::string, std::uint16_t, Hash, std::equal_to<>> types_;
  std::vector<const KernelEvent*> known_;          // by type
  std::vector<std::string> names_;                 // by type; the known ones come first
  std::vector<kernel_events::Witness> witnesses_;  // by type
  std::uint16_t marker_ = 0, ioctl_ = 0, futex_ = 0, futex_end_ = 0, function_ = 0;
};

}  // namespace trapline::trace_text
