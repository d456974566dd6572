// The pipeline turns events into spans: intervals of time on tracks, with their parent and, if one
// caused another, a flow.
//
//   track          span
//   vCPU           guest ── exit ────────────────────────── guest …
//                           ├ part kernel │ user │ kernel …            parent: the exit
//                           └ handler         ▔▔▔                      parent: the exit
//   guest task     function ─ function ─ …                             parent: the caller
//   requests       request ─────────                                   across threads
//                  └ stage bio │ block layer │ disk │ end              parent: the request
//   interrupts     interrupt ────                                      raised to EOI
//   waker          wakeup |                                            leads to the part after it
//   worker         turn ──────────                                     a vhost worker's, by wake-up
//                  └ waits for a CPU │ runs                            parent: the turn
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "merge/model/exit_span.h"

namespace trapline {

// Numbers spans in the order in which they are made; never 0, never reused.
enum class SpanId : std::uint64_t { kNone = 0 };

enum class SpanKind : std::uint8_t {
  kGuest,      // the vCPU ran the guest
  kExit,       // kvm_exit to kvm_entry
  kPart,       // a part of an exit
  kHandler,    // QEMU's device inside an exit's user time; begin == end if only one event shows it
  kFunction,   // a guest function, from its call to its return
  kRequest,    // a device's request, from its first event to its last
  kInterrupt,  // an interrupt of the guest, from its raise to its end
  kWakeup,     // a point in time: a vCPU's thread that sleeps in an exit is woken
  kRequestStage,  // a stage of a request, if its steps in the host's block layer are known
  kTurn,          // a turn of a vhost worker, from its wake-up to its next sleep
  kTurnPart,      // the worker waits for a CPU, or runs
};

// The stages of a request: until its first bio, in the block layer, on the disk, until its end.
// Without the bio's event the first two are one stage, kToDisk.
enum class RequestStageKind : std::uint8_t { kToBio, kBlockLayer, kDisk, kToEnd, kToDisk };
inline constexpr std::array<std::string_view, 5> kRequestStageNames = {"to bio", "block layer",
                                                                       "disk", "to end", "to disk"};
enum class TurnPart : std::uint8_t { kWaits, kRuns };
inline constexpr std::array<std::string_view, 2> kTurnPartNames = {"waits for a CPU", "runs"};

enum class TrackKind : std::uint8_t {
  kVcpu,
  kGuestTask,
  kRequests,
  kInterrupts,
  kWaker,
  kWorker,
  kGuestSpans,
};

// The track that a span is drawn on. A vCPU's track belongs to its thread; the tracks of a VM's
// requests and interrupts belong to the VM's process.
struct Track {
  TrackKind kind = TrackKind::kVcpu;
  MachineId machine = MachineId::kHost;
  // kVcpu, kGuestTask: the vCPU's thread; kWaker: the thread that woke a vCPU, 0 if an interrupt
  // did or if it is not known; kWorker: the worker; others: the VM's process.
  ThreadId thread{};
  // kGuestTask: the task within the machine, 0 if the vCPU has one stack; kWorker: the VM's
  // process.
  std::uint64_t task = 0;
  friend bool operator==(const Track&, const Track&) = default;
};

struct Span {
  SpanId id = SpanId::kNone;
  SpanId parent = SpanId::kNone;
  Track track;
  Timestamp begin, end;
  SpanKind kind = SpanKind::kGuest;
  Part part = Part::kKernel;  // for kPart
  // True if the end was seen. A span that a loss or the recording's end cut off ends at the last
  // known time.
  bool complete = true;
  std::int32_t vcpu = kNoVcpu;  // if known
  NameId name = kNoName;        // kHandler: the event; kFunction: the function; kRequest: its kind
  NameId region = kNoName;      // kHandler: the memory region
  // kInterrupt: vector; kFunction: depth; kRequest: index of its spec; kWakeup: the thread woken;
  // kRequestStage: a RequestStageKind; kTurn: 1 if a guest's notify woke the worker; kTurnPart: a
  // TurnPart.
  std::uint32_t number = 0;

  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
};

// How one span led to another.
enum class FlowKind : std::uint8_t {
  kServedBy,   // an exit to the handler that served it
  kNotify,     // the exit with the guest's notify to the request, or to the worker's turn
  kInjection,  // a request to the interrupt that tells the guest of the request's end
  kWakeup,     // a wake-up to the part of the exit that begins with it
};

}  // namespace trapline
