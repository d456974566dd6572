#include "merge/source/payload_text.h"

#include <fmt/format.h>

#include "backend_ftrace/base/text.h"

namespace trapline {

std::optional<std::string> name_of_payload(const Event& event) {
  if (std::holds_alternative<Lost>(event.payload)) return "lost";
  if (const auto* call = std::get_if<GuestCall>(&event.payload))
    return call->entry ? "guest:entry" : "guest:exit";
  return std::nullopt;
}

std::optional<std::string> text_of_payload(const Event& event) {
  if (const auto* lost = std::get_if<Lost>(&event.payload)) {
    return (lost->count == 0 ? "events (count unknown)" : fmt::format("{} events", lost->count)) +
           (lost->on_purpose ? ", left out by --snapshot-on" : "");
  }
  if (const auto* call = std::get_if<GuestCall>(&event.payload))
    return call->name.empty() ? fmt::format("{:#x}", call->function) : printable(call->name);
  if (const auto* marker = std::get_if<Marker>(&event.payload))
    return printable(trimmed(marker->text));
  return std::nullopt;
}

}  // namespace trapline
