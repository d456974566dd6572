// Finds a recording's capabilities, the kinds of events that it has, from its events one by one,
// until no more can be found.
#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "merge/model/capabilities.h"
#include "merge/source/kernel_events/formats.h"

namespace trapline::kernel_events {

// The capabilities that a recording is known to have if it has an event of a given name.
struct Witness {
  [[nodiscard]] static Witness of(std::string_view name);  // "kvm:kvm_exit"
  void add(const Payload& payload, Capabilities& found) const;
  [[nodiscard]] bool is_known(const Capabilities& found) const {
    return capability == nullptr ? found.any_kvm || !of_kvm : found.*capability;
  }

  bool Capabilities::*capability = nullptr;
  bool of_kvm = false;
};

// Collects the capabilities that events prove. Names are compared once for each event type, so that
// look() compares only numbers.
class CapabilityLooker {
 public:
  // Borrows `formats`.
  explicit CapabilityLooker(const Formats& formats);
  void look(const RecordedEvent& event);
  [[nodiscard]] const Capabilities& found() const { return found_; }
  // Returns whether all capabilities that the recording's formats can show were found. Later events
  // can only add to found().vcpus.
  [[nodiscard]] bool is_complete() const;

 private:
  const Formats& formats_;
  std::vector<Witness> by_type_;
  Capabilities found_;
  std::set<ThreadId> entered_;  // threads with a kvm_entry that has no vCPU number
};

// Returns the capabilities that the recording's formats allow, without looking at events.
[[nodiscard]] Capabilities capabilities_by_format(const Formats& formats);

}  // namespace trapline::kernel_events
