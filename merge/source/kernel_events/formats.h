// The event formats of one recording: finds fields by name once, and gives the names and texts of
// events.
//
// libtraceevent reads the formats and prints whole texts, in a worker (event_texts.h), without its
// plugins, because its plugin for kvm hides vcpu_id and does not support arm64. The formats of
// events with a decoder are read at the start; others when a text needs them.
#pragma once

#include <algorithm>
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
#include "merge/source/kernel_events/recorded_event.h"
#include "merge/source/source.h"

namespace trapline::kernel_events {

struct EventFormat {
  std::string system;
  std::string text;  // as in events/SYSTEM/NAME/format
  // Returns a name such as "kvm:kvm_exit".
  [[nodiscard]] std::string name() const;
};

// The facts that a kernel gives about its events, from a file or from tracefs.
struct FormatTexts {
  std::endian order = std::endian::little;
  std::uint32_t long_size = 8;
  std::vector<EventFormat> formats;
  std::string printk;  // the texts of trace_printk(), as in printk_formats
};

// An integer field of an event. If this recording does not have the field, it reads as the
// fallback.
struct Field {
  std::uint16_t offset = 0;
  std::uint8_t size = 0;  // 1, 2, 4 or 8 bytes; 0: this recording's event does not have the field
};

// Says how to decode events of one type. `fields` are in the order of KernelEvent::fields.
struct alignas(64) Schema {  // one cache line each
  static constexpr std::size_t kMostFields = KernelEvent::kMostFields;

  Decoder decoder = Decoder::kNone;  // kNone: the type is not decoded
  std::uint8_t kind_of_payload = 0;
  EventClass events = EventClass::kOthers;  // the purpose that the type is read for
  std::uint32_t min_size = 0;               // a shorter event is damaged
  std::endian order = std::endian::little;  // byte order of its numbers
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

// The functions that decode, by Decoder: for each event, one switch over all of them costs more.
using Decode = void(const Schema&, const RecordedEvent&, Payload&);
using Decoders = std::array<Decode*, static_cast<std::size_t>(Decoder::kMarker) + 1>;
extern const Decoders kDecoders;
// Decodes the payload; leaves it as it is if the fields do not give one.
inline void decode_fields(const Schema& schema, const RecordedEvent& event, Payload& payload) {
  kDecoders[static_cast<std::size_t>(schema.decoder)](schema, event, payload);
}

inline constexpr std::uint32_t kCommonFields = 8;  // bytes at the beginning of every event

// The names that a recording has for exit reasons, from __print_symbolic in the print format.
struct ReasonNames {
  SymbolNames vmx, svm, arm64_ret, arm64_class, userspace;

  // Returns the name of an exit's reason, or its number if the recording has no name.
  [[nodiscard]] std::string of(const ExitReason& exit) const;
};

class Formats {
 public:
  // `name` is the recording's name for messages. Error: no worker can be started. If a format
  // cannot be read, only texts().status() is an Error.
  [[nodiscard]] static Result<Formats> parse(std::string name, FormatTexts texts);

  // Returns the schemas, indexed by common_type; types beyond their number are not decoded.
  [[nodiscard]] std::span<const Schema> schemas() const { return schemas_; }
  // Returns the type of an event of at least two bytes.
  [[nodiscard]] std::uint16_t type_of(const std::byte* event) const {
    return load<std::uint16_t>(event, order_);
  }
  // Fills type, thread and payload; false if the record is shorter than its format says.
  [[nodiscard]] bool decode(const RecordedEvent& recorded, Event& event) const {
    event.payload.emplace<Other>();
    if (recorded.size < kCommonFields) [[unlikely]] {
      event.type = 0;
      event.thread = ThreadId{-1};
      return false;
    }
    const std::byte* const thread = recorded.data + kThreadAt;
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
    if (recorded.size < schema.min_size) [[unlikely]]
      return false;
    decode_fields(schema, recorded, event.payload);
    return true;
  }
  [[nodiscard]] const ReasonNames& reasons() const { return reasons_; }
  // Returns a name such as "kvm:kvm_exit"; empty if the recording has no such type.
  [[nodiscard]] std::string_view name(std::uint16_t type) const;
  // Returns whether events of the type would be decoded, or might be, if the type had a format that
  // can be read.
  [[nodiscard]] bool is_unread(std::uint16_t type) const {
    return name(type).empty() || std::ranges::find(unread_, type) != unread_.end();
  }
  // Returns whether events of the type are exits whose print format, which has the names of the
  // reasons, cannot be read.
  [[nodiscard]] bool is_nameless(std::uint16_t type) const {
    return std::ranges::find(nameless_, type) != nameless_.end();
  }
  // Returns the type of an event; -1 if the recording does not have it.
  [[nodiscard]] int type(const KernelEvent& event) const;
  // Returns the printer of events, which prints their fields as trace-cmd does.
  [[nodiscard]] EventTexts& texts() const { return *printing_; }
  // Reads the saved command lines: "PID COMM\n" each.
  void read_comms(std::string_view text);
  // Returns the thread's name (comm); "" if not known.
  [[nodiscard]] std::string comm(ThreadId thread) const;

 private:
  Formats() = default;
  void add_known(std::uint16_t type, const KernelEvent& known, EventDescription format);
  void read_reason_names(Decoder decoder, std::vector<SymbolTableOfField> symbols);

  std::vector<Schema> schemas_;
  static constexpr std::size_t kThreadAt = 4;  // common_pid
  std::endian order_ = std::endian::little;
  ReasonNames reasons_;
  std::vector<std::string> names_;  // by type
  std::vector<std::uint16_t> unread_, nameless_;
  std::map<std::int32_t, std::string> comms_;
  // Copies of this object share texts_ and printing_, and so one worker.
  std::shared_ptr<const FormatTexts> texts_;
  std::shared_ptr<EventTexts> printing_;  // reads texts_
};

}  // namespace trapline::kernel_events
