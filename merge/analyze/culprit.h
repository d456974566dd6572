// Who a vCPU waited for, and a piece of a wait that is charged to it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "merge/model/exit_span.h"

namespace trapline {

enum class CulpritKind : std::uint8_t {
  kUnknown,
  kThread,      // ran on the CPU that the vCPU waited for, or woke it
  kIdle,        // the CPU was idle, and had not yet taken it up after its wake-up
  kIdleOther,   // the CPU was idle, and no wake-up tells why it did not run
  kNotAllowed,  // the CPU chose to be idle while it was in its queue
  kQuota,       // the same, in throttled time of its cgroup's CPU quota
  kTimer,       // a timer of the host's kernel woke it
  kInterrupt,   // a device's interrupt woke it, or ran on its CPU; number: of the line
  kDisk,        // a read or write of the host's disk ended
  kIpi,         // the vCPU of `thread` sent it an interrupt
  kFutex,       // `thread` woke those who waited for a futex, as it did
  kLock,        // `thread` held a lock (a futex) that it waited for
  kSoftirq,     // a softirq ran on the CPU that it waited for; number: its vector
  kPage,        // `thread` served the page that it waited for in a page fault (userfaultfd)
  kCollapse,    // `thread` collapsed small pages into a huge one, and it waited in a page fault
};

// What is missing where the culprit is unknown.
enum class Missing : std::uint8_t {
  kNone,
  kSwitches,    // who ran on the CPU: before the CPU's first sched_switch, or none is recorded
  kWakeups,     // who woke it: sched_waking
  kMigrations,  // where it waited: sched_migrate_task
  kContext,     // which interrupt woke it: irq and timer events
  kLost,        // events that were lost
  kRoom,        // the CPU's record, or the exit's, is longer than what is kept
  kSelected,    // how long who ran on the CPU: only some threads' switches are recorded
  kFlags,       // whether an interrupt woke it: the text has no flags
  kCpu,         // where it was: it was put on a CPU of which no event is recorded
};

struct Culprit {
  CulpritKind kind = CulpritKind::kUnknown;
  Missing missing = Missing::kNone;
  ThreadId thread{};         // where is_thread(): tid_of() it
  std::uint32_t number = 0;  // kInterrupt: the line; kSoftirq: the vector
  NameId handler = kNoName;  // of the thread that woke: its last QEMU event in the wait
  // What the thread that woke slept for itself during most of the wait, at the end of the chain of
  // wakers; kUnknown: for nothing, or it is not known.
  CulpritKind root = CulpritKind::kUnknown;
  [[nodiscard]] bool is_thread() const {
    return kind == CulpritKind::kThread || kind == CulpritKind::kIpi ||
           kind == CulpritKind::kFutex || kind == CulpritKind::kLock ||
           kind == CulpritKind::kPage || kind == CulpritKind::kCollapse;
  }
  friend auto operator<=>(const Culprit&, const Culprit&) = default;
};

// Unknown, for want of what `missing` says.
[[nodiscard]] inline Culprit unknown_for(Missing missing) { return {.missing = missing}; }

struct WaitShare {
  Part part = Part::kPreempted;
  Culprit culprit;
  Timestamp begin, end;
  ThreadId root{};  // the thread of Culprit::root, where that is one
  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
};

// The names of the threads that kept others waiting, as they were then: an id is used again after
// its thread, and a program executes another one.
class CulpritNames {
 public:
  static constexpr std::size_t kMost = 1u << 16;

  // The thread under that name, for Culprit::thread: its own id under the first of its names. A
  // name that is not known, "", is the one that comes where it has no other.
  [[nodiscard]] ThreadId of(ThreadId thread, std::string_view name, bool has_one_name);
  // Whether it is one of several names of an id.
  [[nodiscard]] bool is_of_several(ThreadId thread) const;
  // Empty where of() did not make it, and of a name beyond kMost.
  [[nodiscard]] std::string_view operator[](ThreadId thread) const;

 private:
  static constexpr std::int32_t kMostNames = (1 << (31 - kTidBits)) - 1;  // of a thread
  std::unordered_map<ThreadId, std::string> names_;
};

struct WaitCounters {
  std::uint64_t waits = 0;        // ended by the thread's running again
  std::uint64_t cut_by_loss = 0;  // a loss could hide their end
  std::uint64_t cpu_assumed = 0;  // woken, and nothing but where it ran next tells its CPU
};

}  // namespace trapline
