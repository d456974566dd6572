// What a CallTracker is given by its host, QEMU or a test: the guest's registers, tasks, the
// functions that count, options, and the call instructions; and the counters that it gives back.
#pragma once

#include <cstdint>

#include "plugin/guest_stack.h"

namespace trapline {

// The guest's registers; cold code only.
class GuestState {
 public:
  virtual ~GuestState() = default;
  virtual std::uint64_t stack_pointer() = 0;
  virtual std::uint64_t address_space() = 0;  // CR3, TTBR0, satp
  // x86: the level that what the processor pushes there came from; -1: no such frame.
  virtual int interrupted_level_at(std::uint64_t stack_pointer) = 0;
};

class TaskChooser {
 public:
  virtual ~TaskChooser() = default;
  virtual Task* task_for(unsigned vcpu, const StackKey& stack, std::uint64_t stack_pointer) = 0;
  // The vCPU writes to this task from now on.
  virtual void entered(unsigned /*vcpu*/, Task& /*task*/) {}
  // So many records of a vCPU are of stacks that have no task, since there are too many.
  virtual void left_out(unsigned /*vcpu*/, std::uint64_t /*records*/) {}
};

// Where calls are written as text as well (output=ftrace).
class CallText {
 public:
  virtual ~CallText() = default;
  virtual void write(bool entry, std::uint32_t task, std::uint64_t depth,
                     std::uint64_t function) = 0;
  // So many are not written: what they are of had no room.
  virtual void leave_out(std::uint64_t /*count*/) {}
};

// What the functions are; empty tables mean: everything is recorded, no starts are known.
class FunctionFilter {
 public:
  virtual ~FunctionFilter() = default;
  [[nodiscard]] virtual bool recorded(std::uint64_t function) const = 0;
  [[nodiscard]] virtual bool is_start(std::uint64_t address) const = 0;
};

struct TrackerOptions {
  bool sites_know_slots = true;      // x86: calls and returns come with their slot
  bool higher_level_is_user = true;  // x86: ring 3; elsewhere level 0 is the least privileged
  bool know_starts = false;          // symbols are given
  bool told_of_events = false;       // by QEMU; else x86's are seen where their handlers start
  std::uint64_t handler_reach = 16;  // Architecture::handler_reach
  bool filtered = false;             // include, exclude
  std::uint64_t min_duration = 0;    // ns
  std::uint64_t max_depth = ~std::uint64_t{0};
  CallText* text = nullptr;
  bool records = true;  // false: text only
};

struct TrackerCounters {
  std::uint64_t calls = 0;  // counted when they leave the fast path too
  std::uint64_t returns = 0;
  std::uint64_t unmatched_returns = 0;
  std::uint64_t unwound = 0;
  std::uint64_t events = 0;
  std::uint64_t tail_calls = 0;
  std::uint64_t stack_switches = 0;
};

// A call instruction, known at translation.
struct Site {
  std::uint64_t ret = 0;
  std::uint64_t function = 0;  // 0: not known before it runs
  std::int32_t offset = 0;
  std::uint8_t level = 0;
  std::uint8_t reg = 0;  // of an indirect call
};
static_assert(sizeof(Site) == 24);  // there are tens of thousands

}  // namespace trapline
