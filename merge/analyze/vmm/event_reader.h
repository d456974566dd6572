// Reads a VMM's trace events in markers: "NAME ARGS".
//
// The exit model needs the name, the device of an access, and the vCPU. Vmm::event says which
// events contain these and how they print them; if the program's trace-events-all is given and
// declares an event differently, its format is used. Anyone who can write to trace_marker makes
// these texts, and the guest makes parts of them, so they are not trusted.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/tracetool/event_format.h"
#include "merge/analyze/vmm/vmms.h"
#include "merge/model/event.h"
#include "merge/model/names.h"

namespace trapline {

struct VmmEvent {
  using Kind = VmmEventKind;
  NameId name = kNoName;
  Kind kind = Kind::kDevice;
  bool has_address = false;
  std::uint64_t address = 0;    // kRegion*: port or guest-physical address
  NameId region = kNoName;      // kRegion*: the region's name
  std::int32_t vcpu = kNoVcpu;  // if the event contains it
  std::int64_t number = -1;     // VmmEventMeaning::number; -1: not known
};

class VmmEventReader {
 public:
  using MeaningOf = const VmmEventMeaning* (*)(std::string_view name);
  // Borrows its arguments. `declared`: the program's trace-events-all, or nullptr.
  explicit VmmEventReader(Names& names, const tracetool::Declarations* declared = nullptr,
                          MeaningOf meaning_of = vmm_event_meaning);

  // Reads a marker, or finds it among the last ones, since many texts repeat. Returns false if the
  // marker is not a VMM's event: a name of letters, digits and _ must come first, after the
  // optional PID@TIME: of QEMU's log backend.
  [[nodiscard]] bool read(std::string_view text, VmmEvent& event) {
    Seen& seen = seen_[Names::hash(text) % kSeen];
    if (seen.text != text || text.empty()) [[unlikely]]
      read_new(text, seen);
    event = seen.event;
    return event.name != kNoName;
  }

 private:
  // The last marker with a hash and its event; without a text if that is longer than kLongest.
  struct Seen {
    std::string text;
    VmmEvent event;
  };
  static constexpr std::size_t kSeen = 1024, kLongest = 255;
  // How to read the events of one name; decided when the name is first seen.
  enum class Layout : std::uint8_t { kUnseen, kNothing, kBuiltIn, kDeclared };
  struct EventPlan {
    Layout layout = Layout::kUnseen;
    const VmmEventMeaning* meaning = nullptr;
    std::unique_ptr<const tracetool::Event> declared;
    std::unique_ptr<tracetool::EventFormat> format;
  };
  void read_new(std::string_view marker, Seen& seen);
  void learn(std::string_view name, EventPlan& plan) const;
  void read_built_in(const VmmEventMeaning& meaning, std::string_view arguments, VmmEvent& event);
  void read_declared(const EventPlan& plan, std::string_view arguments, VmmEvent& event);

  Names* names_;
  const tracetool::Declarations* declared_;
  MeaningOf meaning_of_;
  std::vector<EventPlan> plans_;  // by NameId
  std::vector<Seen> seen_{kSeen};
};

// Returns the marker's text without its line end and without the log backend's
// "PID@SECONDS.MICROSECONDS:".
[[nodiscard]] std::string_view event_part(std::string_view marker);

}  // namespace trapline
