// The fields of an event that was printed, by the names that the decoders of trace.dat have for
// them (merge/model/kernel_events.h): what they make of a record, they make of a text.
//
//   kvm_pio: pio_write at 0x70 size 1 count 1 val 0x8f     the kernel's print format
//   kvm_pio: rw=1 port=0x70 size=1 count=1 val=0x8f        raw: trace-cmd report -R
//
// KernelEvent::printed says what the kernel prints where that is no list of NAME=VALUE; what a
// pattern cannot say has a function in text_fields.cc.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "merge/source/kernel_events/formats.h"

namespace trapline::trace_text {

// What was read of one event.
class TextValues {
 public:
  explicit TextValues(const KernelEvent& event) : event_(&event) {}

  void set(std::string_view field, std::uint64_t value);
  [[nodiscard]] bool has(std::string_view field) const;
  // A name in the text: of the next thread, of a request's kind. It points into the text.
  std::string_view name;
  // Of the event's line: a text that can be read in several ways is the one that agrees with them.
  std::int32_t thread = -1;
  std::string_view comm = {};
  bool is_cut = false;   // the text's last word may be a part of one
  bool is_part = false;  // what was read says that more belongs to it

  // Makes the event's payload, as its decoder does of a record with these fields.
  void decode(Payload& payload) const;
  [[nodiscard]] const KernelEvent& event() const { return *event_; }

 private:
  static constexpr std::size_t kMostFields = KernelEvent::kMostFields;
  [[nodiscard]] std::size_t index(std::string_view field) const;

  const KernelEvent* event_;
  std::array<std::uint64_t, kMostFields> values_{};
  std::uint32_t there_ = 0;  // a bit a field
};

class TextFields {
 public:
  TextFields();

  // False where the text is not of the event: cut off, or of a format that is not known.
  [[nodiscard]] bool read(std::string_view text, TextValues& values);
  // Of the kernel, and those that only the text has.
  [[nodiscard]] const kernel_events::ReasonNames& reasons() const { return reasons_; }

 private:
  bool read_exit(std::string_view text, TextValues& values);
  bool read_x86_exit(std::string_view name, TextValues& values);
  bool read_part_of_exit(std::string_view text, TextValues& values);
  void set_cut_exit(std::string_view name, TextValues& values);
  void set_cut_userspace_exit(std::string_view name, TextValues& values);

  kernel_events::ReasonNames reasons_;
  std::uint32_t isa_ = 1;    // of the last exit that told
  std::uint32_t named_ = 0;  // reasons that only the text has
};

}  // namespace trapline::trace_text
