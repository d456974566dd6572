// Reads the fields of a printed event under the names that the decoders use
// (merge/model/kernel_events.h), so that the same decoders work for records and for texts.
//
//   kvm_pio: pio_write at 0x70 size 1 count 1 val 0x8f     the kernel's print format
//   kvm_pio: rw=1 port=0x70 size=1 count=1 val=0x8f        raw: trace-cmd report -R
//
// KernelEvent::printed has the kernel's print format if it is not a list of NAME=VALUE. For formats
// that such a pattern cannot describe, text_fields.cc has functions.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "merge/source/kernel_events/formats.h"

namespace trapline::trace_text {

// The values read from one event.
class TextValues {
 public:
  explicit TextValues(const KernelEvent& event) : event_(&event) {}

  void set(std::string_view field, std::uint64_t value);
  [[nodiscard]] bool has(std::string_view field) const;
  // The next thread's comm (sched_switch) or a block request's rwbs. Points into the text.
  std::string_view name;
  // The thread of the event's line, which decides if a text can be read in several ways.
  std::int32_t thread = -1;
  std::string_view comm = {};
  bool is_cut = false;   // the text's last word may be incomplete
  bool is_part = false;  // the values read show that the text should continue

  // Makes the event's payload, as its decoder does from a record with these fields.
  void decode(Payload& payload) const;
  [[nodiscard]] const KernelEvent& event() const { return *event_; }

 private:
  static constexpr std::size_t kMostFields = KernelEvent::kMostFields;
  [[nodiscard]] std::size_t index(std::string_view field) const;

  const KernelEvent* event_;
  std::array<std::uint64_t, kMostFields> values_{};
  std::uint32_t there_ = 0;  // one bit per field
};

class TextFields {
 public:
  TextFields();

  // Reads the event's fields; false if the text does not fit: it is cut off, or its format unknown.
  [[nodiscard]] bool read(std::string_view text, TextValues& values);
  // Returns the kernel's names of reasons and those that only the text has.
  [[nodiscard]] const kernel_events::ReasonNames& reasons() const { return reasons_; }

 private:
  bool read_exit(std::string_view text, TextValues& values);
  bool read_x86_exit(std::string_view name, TextValues& values);
  bool read_part_of_exit(std::string_view text, TextValues& values);
  void set_cut_exit(std::string_view name, TextValues& values);
  void set_cut_userspace_exit(std::string_view name, TextValues& values);

  kernel_events::ReasonNames reasons_;
  std::uint32_t isa_ = 1;    // 1: VMX, 2: SVM; as the last exit that showed it
  std::uint32_t named_ = 0;  // reasons that only the text has
};

}  // namespace trapline::trace_text
