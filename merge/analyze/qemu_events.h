// QEMU's trace events as they stand in markers: "NAME ARGS".
//
// What the exit model needs of them is the name, the memory region that an access went to, and the
// vCPU. memory_region_* and kvm_run_exit are known as QEMU 2.x to 11 prints them; where the
// program's trace-events-all is given and declares them otherwise, its formats are used. Texts come
// from whoever may write trace_marker, and in part from the guest: nothing in them is trusted.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backend_ftrace/tracetool/event_format.h"
#include "merge/model/event.h"
#include "merge/model/names.h"

namespace trapline {

struct QemuEvent {
  enum class Kind : std::uint8_t {
    kDevice,       // an event of a device or a subsystem
    kAccelerator,  // kvm_*: tells of the run itself, not of who served it
    kRegionRead,   // memory_region_*: traced after the region's read function ran,
    kRegionWrite,  // and before its write function runs
  };
  NameId name = kNoName;
  Kind kind = Kind::kDevice;
  bool has_address = false;
  std::uint64_t address = 0;    // kRegion*: port or guest-physical address
  NameId region = kNoName;      // kRegion*: the region's name
  std::int32_t vcpu = kNoVcpu;  // kvm_run_exit
};

class QemuEventReader {
 public:
  // Borrows both. `declared` are the events of the program's trace-events-all, or none.
  explicit QemuEventReader(Names& names, std::span<const tracetool::Event> declared = {});

  // False when the marker is not a QEMU event (a name of letters, digits and _ comes first, after
  // the optional PID@TIME: of the log backend).
  [[nodiscard]] bool read(std::string_view text, QemuEvent& event);

 private:
  // How to read the events of one name, decided when the name is first seen.
  enum class Layout : std::uint8_t { kUnseen, kNothing, kRegion, kRunExit, kDeclared };
  struct Known {
    Layout layout = Layout::kUnseen;
    QemuEvent::Kind kind = QemuEvent::Kind::kDevice;
    const tracetool::Event* declared = nullptr;
    std::unique_ptr<tracetool::EventFormat> format;
  };
  void learn(std::string_view name, Known& known) const;
  void read_declared(const Known& known, std::string_view arguments, QemuEvent& event);

  Names* names_;
  std::span<const tracetool::Event> declared_;
  std::vector<Known> known_;  // by NameId
};

// The marker's text without its line end and the log backend's "PID@SECONDS.MICROSECONDS:".
[[nodiscard]] std::string_view event_part(std::string_view marker);

}  // namespace trapline
