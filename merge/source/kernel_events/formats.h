// The event formats of one recording: fields looked up by name once, names and texts of events.
//
// Fields and the names of reasons are read from the format's text (format_text.h); whole texts are
// printed by libtraceevent in a worker (event_texts.h), without its plugins: the one of kvm hides
// vcpu_id and does not know arm64.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/bytes.h"
#include "merge/model/event.h"
#include "merge/model/kernel_events.h"
#include "merge/source/kernel_events/event_texts.h"
#include "merge/source/kernel_events/format_text.h"
#include "merge/source/kernel_events/recorded_event.h"
#include "merge/source/source.h"

namespace trapline::kernel_events {

struct EventFormat {
  std::string system;
  std::string text;  // as in events/SYSTEM/NAME/format
};

// What a kernel says of its events, whether a file kept it or tracefs tells it.
struct FormatTexts {
  std::endian order = std::endian::little;
  std::uint32_t long_size = 8;
  std::vector<EventFormat> formats;
};

// An integer field of an event; absent ones read as the fallback.
struct Field {
  std::uint16_t offset = 0;
  std::uint8_t size = 0;  // 1, 2, 4 or 8; 0: this recording's event does not have it
};

// How to decode the events of one type. Field positions are those of the decoder's own list.
struct alignas(64) Schema {  // a cache line each
  static constexpr std::size_t kMostFields = KernelEvent::kMostFields;

  Decoder decoder = Decoder::kNone;  // kNone: nothing of the type is needed
  std::uint8_t kind_of_payload = 0;
  EventClass events = EventClass::kOthers;  // by whom
  std::uint32_t min_size = 0;               // a shorter event is damaged
  std::endian order = std::endian::little;  // of its numbers
  std::array<Field, kMostFields> fields{};

  template <typename Kind>
  [[nodiscard]] Kind kind() const {
    return static_cast<Kind>(kind_of_payload);
  }
  [[nodiscard]] bool has(std::size_t i) const { return fields[i].size != 0; }
  [[nodiscard]] std::uint64_t get(const RecordedEvent& event, std::size_t i,
                                  std::uint64_t fallback = 0) const {
    const std::byte* at = event.data + fields[i].offset;
    switch (fields[i].size) {
      case 1:
        return load<std::uint8_t>(at);
      case 2:
        return load<std::uint16_t>(at, order);
      case 4:
        return load<std::uint32_t>(at, order);
      case 8:
        return load<std::uint64_t>(at, order);
      default:
        return fallback;
    }
  }
};

// Leaves the payload as it is where the fields say nothing.
void decode_fields(const Schema& schema, const RecordedEvent& event, Payload& payload);

inline constexpr std::uint32_t kCommonFields = 8;  // bytes that every event begins with

// The names that a recording gives to numbers, from __print_symbolic of the print format.
struct ReasonNames {
  SymbolNames vmx, svm, arm64_ret, arm64_class, userspace;

  // The name of a kvm_exit's reason, or its number where the recording has none.
  [[nodiscard]] std::string of_exit(std::uint32_t isa, std::uint32_t reason,
                                    std::uint32_t exception_class) const;
  [[nodiscard]] std::string of_userspace(std::uint32_t reason) const;
};

class Formats {
 public:
  // `name` is the recording's, for messages.
  [[nodiscard]] static Formats parse(std::string name, FormatTexts texts);

  // Indexed by common_type; types beyond its size need nothing.
  [[nodiscard]] std::span<const Schema> schemas() const { return schemas_; }
  // Of an event of at least two bytes.
  [[nodiscard]] std::uint16_t type_of(const std::byte* event) const {
    return load<std::uint16_t>(event, order_);
  }
  // Fills type, thread and payload; false when the record is shorter than its format says.
  [[nodiscard]] bool decode(const RecordedEvent& recorded, Event& event) const {
    event.payload.emplace<Other>();
    if (recorded.size < kCommonFields) [[unlikely]] {
      event.type = 0;
      event.thread = ThreadId{-1};
      return false;
    }
    const std::byte* const thread = recorded.data + thread_.offset;
    const bool swapped = order_ != std::endian::native;
    auto type = load<std::uint16_t>(recorded.data, std::endian::native);
    auto id = load<std::uint32_t>(thread, std::endian::native);
    if (swapped) [[unlikely]] {
      type = byte_swapped(type);
      id = byte_swapped(id);
    }
    event.type = type;
    event.thread = ThreadId{static_cast<std::int32_t>(id)};
    if (type >= schemas_.size()) return true;
    const Schema& schema = schemas_[type];
    if (schema.decoder == Decoder::kNone) return true;
    if (recorded.size < schema.min_size) [[unlikely]]
      return false;
    decode_fields(schema, recorded, event.payload);
    return true;
  }
  [[nodiscard]] const ReasonNames& reasons() const { return reasons_; }
  // "kvm:kvm_exit"; empty when the recording has no such type.
  [[nodiscard]] std::string_view name(std::uint16_t type) const;
  // The type of an event, or -1.
  [[nodiscard]] int type(const KernelEvent& event) const;
  // The events' fields as trace-cmd prints them.
  [[nodiscard]] EventTexts& texts() const { return *printing_; }
  // The saved command lines: "PID COMM\n" each.
  void read_comms(std::string_view text);
  // The command's name of a thread, or empty.
  [[nodiscard]] std::string comm(ThreadId thread) const;

 private:
  Formats() = default;
  void add_known(std::size_t type, const EventFormat& format);
  void read_reason_names(Decoder decoder, std::string_view text);

  std::vector<Schema> schemas_;
  Field thread_{4, 4};
  std::endian order_ = std::endian::little;
  ReasonNames reasons_;
  std::vector<std::string> names_;  // by type
  std::map<std::int32_t, std::string> comms_;
  std::unique_ptr<const FormatTexts> texts_;
  std::unique_ptr<EventTexts> printing_;  // reads texts_
};

}  // namespace trapline::kernel_events
