// The events the merge understands and how each becomes a Payload. A new event is one row of the
// table in decoders.cc: its name, its fields, and a function of a few lines.
#pragma once

#include <span>
#include <string_view>

#include "merge/source/kernel_events/formats.h"

namespace trapline::kernel_events {

struct KnownEvent {
  std::string_view name;  // system:event
  std::array<const char*, Schema::kMostFields> fields;
  Schema::Decode decode;
  EventClass events = EventClass::kExits;
};

[[nodiscard]] std::span<const KnownEvent> known_events();

}  // namespace trapline::kernel_events
