// A VMM's trace events as they stand in markers: "NAME ARGS".
//
// What the exit model needs of them is the name, the device that an access went to, and the vCPU.
// VmmKnowledge says which events tell it and how they print it; where the program's
// trace-events-all is given and declares them otherwise, its formats are used. Texts come from
// whoever may write trace_marker, and in part from the guest: nothing in them is trusted.
#pragma once

#include <memory>
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
  std::int32_t vcpu = kNoVcpu;  // where the event tells it
  std::int32_t running = -1;    // kVmState: 0 stopped, 1 running; else, not known
};

class VmmEventReader {
 public:
  // Borrows all. `declared`: by the program's trace-events-all, or nullptr.
  explicit VmmEventReader(Names& names, const tracetool::Declarations* declared = nullptr,
                          const VmmKnowledge& vmm = any_vmm());

  // False when the marker is not a VMM's event (a name of letters, digits and _ comes first, after
  // the optional PID@TIME: of QEMU's log backend).
  [[nodiscard]] bool read(std::string_view text, VmmEvent& event);

 private:
  // How to read the events of one name, decided when the name is first seen.
  enum class Layout : std::uint8_t { kUnseen, kNothing, kBuiltIn, kDeclared };
  struct EventPlan {
    Layout layout = Layout::kUnseen;
    VmmEventKind kind = VmmEventKind::kDevice;
    const VmmEventMeaning* meaning = nullptr;
    std::unique_ptr<const tracetool::Event> declared;
    std::unique_ptr<tracetool::EventFormat> format;
  };
  void learn(std::string_view name, EventPlan& plan) const;
  void read_built_in(const VmmEventMeaning& meaning, std::string_view arguments, VmmEvent& event);
  void read_declared(const EventPlan& plan, std::string_view arguments, VmmEvent& event);

  Names* names_;
  const tracetool::Declarations* declared_;
  const VmmKnowledge* vmm_;
  std::vector<EventPlan> plans_;  // by NameId
};

// The marker's text without its line end and the log backend's "PID@SECONDS.MICROSECONDS:".
[[nodiscard]] std::string_view event_part(std::string_view marker);

}  // namespace trapline
