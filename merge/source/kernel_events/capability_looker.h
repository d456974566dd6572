// Finds which witnesses a recording holds, from its first events on, until nothing can be added.
#pragma once

#include <string_view>
#include <vector>

#include "merge/model/capabilities.h"
#include "merge/source/kernel_events/formats.h"

namespace trapline::kernel_events {

// The capabilities of a recording that events of one name prove.
struct Witness {
  [[nodiscard]] static Witness of(std::string_view name);  // "kvm:kvm_exit"
  void add(const Payload& payload, Capabilities& found) const;

  bool Capabilities::*capability = nullptr;
  bool of_kvm = false;
};

// Types are told apart by name once, by number for each event.
class CapabilityLooker {
 public:
  // Borrows it.
  explicit CapabilityLooker(const Formats& formats);
  void look(const RecordedEvent& event);
  [[nodiscard]] const Capabilities& found() const { return found_; }
  // Whether all has been seen that events of these formats can add.
  [[nodiscard]] bool is_complete() const;

 private:
  const Formats& formats_;
  std::vector<Witness> by_type_;
  Capabilities found_;
};

// Without a look at events: what the formats of the recording could hold.
[[nodiscard]] Capabilities capabilities_by_format(const Formats& formats);

}  // namespace trapline::kernel_events
