// Everything that a CallTracker uses from its host, which is QEMU or a test: registers, tasks, the
// filter, options and call instructions; and the counters that it returns.
#pragma once

#include <cstdint>

#include "plugin/guest_stack.h"

namespace trapline {

// The guest's registers. Only cold code reads them.
class GuestState {
 public:
  virtual ~GuestState() = default;
  virtual std::uint64_t stack_pointer() = 0;
  virtual std::uint64_t address_space() = 0;  // CR3, TTBR0, satp
  // x86: returns the level that was interrupted, from the frame that the processor pushes for a
  // handler, if that frame is at the stack pointer; -1: no such frame.
  virtual int interrupted_level_at(std::uint64_t stack_pointer) = 0;
  // Returns where a function that has run no instruction yet will return to; 0: not known.
  virtual std::uint64_t return_address(std::uint64_t stack_pointer) = 0;
};

class TaskChooser {
 public:
  virtual ~TaskChooser() = default;
  virtual Task* task_for(unsigned vcpu, const StackKey& stack, std::uint64_t stack_pointer) = 0;
  // Tells that the vCPU writes to this task from now on.
  virtual void entered(unsigned /*vcpu*/, Task& /*task*/) {}
  // Reports a number of records of stacks that have no task, because there are too many stacks.
  virtual void left_out(unsigned /*vcpu*/, std::uint64_t /*records*/) {}
};

// Writes calls as text too, for output=ftrace.
class CallText {
 public:
  virtual ~CallText() = default;
  virtual void write(bool entry, std::uint32_t task, std::uint64_t depth,
                     std::uint64_t function) = 0;
  // Counts entries and exits that are not written because they had no room.
  virtual void leave_out(std::uint64_t /*count*/) {}
};

// Tells which functions are recorded and where they start. Empty tables mean that everything is
// recorded and no starts are known.
class FunctionFilter {
 public:
  virtual ~FunctionFilter() = default;
  [[nodiscard]] virtual bool recorded(std::uint64_t function) const = 0;
  [[nodiscard]] virtual bool is_start(std::uint64_t address) const = 0;
};

struct TrackerOptions {
  bool sites_know_slots = true;      // x86: calls and returns come with their slot
  bool higher_level_is_user = true;  // x86: ring 3 is user mode; on others level 0 is
  bool know_starts = false;          // there are symbols
  // True if QEMU reports events; otherwise x86's are recognised where their handlers start.
  bool told_of_events = false;
  std::uint64_t handler_reach = 16;  // Architecture::handler_reach
  bool filtered = false;             // include= or exclude= is set
  std::uint64_t min_duration = 0;    // ns
  std::uint64_t max_depth = ~std::uint64_t{0};
  CallText* text = nullptr;
  bool records = true;  // false: only text is written
};

struct TrackerCounters {
  std::uint64_t calls = 0;  // counts calls outside the fast path too
  std::uint64_t returns = 0;
  std::uint64_t unmatched_returns = 0;
  std::uint64_t unwound = 0;
  std::uint64_t events = 0;
  std::uint64_t tail_calls = 0;
  std::uint64_t stack_switches = 0;
};

// A call instruction, as known at translation.
struct Site {
  std::uint64_t ret = 0;
  std::uint64_t function = 0;  // 0: known only when the call runs
  std::int32_t offset = 0;
  std::uint8_t level = 0;
  std::uint8_t reg = 0;  // register of an indirect call
};
static_assert(sizeof(Site) == 24);  // there are tens of thousands

}  // namespace trapline
