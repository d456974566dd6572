// The interface for consumers of the pipeline: reports, timelines, exporters, watches, live views.
//
// Calls come in order of time: an event, then what it completes. Views in the arguments (text,
// intervals) are valid only during the call.
#pragma once

#include <cstdint>
#include <span>

#include "merge/analyze/guest_stacks.h"
#include "merge/analyze/irq_tracker.h"
#include "merge/analyze/wait_tracker.h"

namespace trapline {

class Pipeline;
struct GuestInterval;
struct Stall;
struct VhostTurn;

// The results that a sink selects, as bits. The pipeline makes only what some sink selects.
enum class SpanClass : std::uint32_t {
  kNone = 0,
  kEvents = 1,        // event() for events that are decoded for the other selected classes
  kExits = 2,         // exit()
  kIntervals = 4,     // exit() has its intervals and handlers
  kGuestRuns = 8,     // guest_run()
  kFunctions = 16,    // begin() and end() for calls of guest functions
  kRequests = 32,     // request(), delivered(), turn()
  kInterrupts = 64,   // interrupt()
  kHalts = 128,       // halt polling is followed: Pipeline::halts()
  kLosses = 256,      // lost()
  kCalls = 512,       // call()
  kStateRuns = 2048,  // states(); implies kIntervals
  kWaits = 4096,      // wait(), and exit() has its waits: Pipeline::waits(); implies kIntervals
  kAllEvents = 8192,  // with kEvents: event() for every event, decoded
  // guest_interval(): PipelineOptions::guest_intervals; implies kWaits
  kGuestIntervals = 16384,
  kStalls = 32768,       // stall(); implies kWaits
  kKernelParts = 65536,  // exit() has its kernel's shares: Pipeline::kernel(); implies kIntervals
  kHostRuns = 262144,    // Pipeline::host_runs()
  kFaults = 524288,      // exit() has its page fault: Pipeline::faults(); implies kIntervals
  // event() for ioctls, messages of interrupts, wake-ups, new threads; Pipeline::waits()->woke()
  kDeeds = 1048576,
  kChanges = 2097152,  // event() for events that changed a thread: Pipeline::changes()
};
[[nodiscard]] constexpr SpanClass operator|(SpanClass a, SpanClass b) {
  return static_cast<SpanClass>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
[[nodiscard]] constexpr bool has(SpanClass set, SpanClass one) {
  return (static_cast<std::uint32_t>(set) & static_cast<std::uint32_t>(one)) != 0;
}

class SpanSink {
 public:
  virtual ~SpanSink() = default;
  // Returns the same classes at every call; called before the first event.
  [[nodiscard]] virtual SpanClass selects() const = 0;

  // Gets the selected events, after the pipeline has handled them: Pipeline::ended() is the exit
  // that the event ended, Pipeline::vcpu() the state of a thread.
  virtual void event(const Event&, const Pipeline&) {}
  virtual void exit(const ExitSpan&, const Pipeline&) {}
  // With kExits: gets an exit without a known end. It has what exit() has, except handlers and the
  // kernel's parts. The culprit of a wait that did not end is not known.
  virtual void unended(const UnendedExit&, const Pipeline&) {}
  // Gets the times of vCPUs that are neither in a reported exit nor in a run of the guest.
  virtual void states(std::span<const StateRun>, const Pipeline&) {}
  virtual void guest_run(const GuestRun&, const Pipeline&) {}
  // Get a call of a guest function, of any vCPU, when it begins and when it ends. The calls of one
  // stack begin and end in the order in which they nest.
  virtual void begin(const FunctionCall&, const Pipeline&) {}
  virtual void end(const FunctionCall&, const Pipeline&) {}
  // Gets a wait that ended, because the vCPU's thread that waited runs again.
  virtual void wait(const EndedWait&, const Pipeline&) {}
  // Gets an interval of a guest as soon as its vCPU's time is known up to the interval's end.
  virtual void guest_interval(const GuestInterval&, const Pipeline&) {}
  // Gets a vCPU's stall when it has ended; the stalls of whole VMs all come at the recording's end.
  virtual void stall(const Stall&, const Pipeline&) {}
  virtual void request(const RequestSpan&, const Pipeline&) {}
  virtual void delivered(const Delivered&, const Pipeline&) {}
  virtual void turn(const VhostTurn&, const Pipeline&) {}
  virtual void interrupt(const IrqSpan&, const Pipeline&) {}
  // Gets a call of a guest function that ended, with its own time; for recordings without exits.
  virtual void call(const FunctionCall&, const Pipeline&) {}
  // Gets a loss of the host's events; spans that the lost events could have ended are incomplete.
  virtual void lost(const Event&, const Lost&, const Pipeline&) {}
};

}  // namespace trapline
