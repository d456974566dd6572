// The culprit of a wait, which is what kept a vCPU waiting (a thread, an interrupt, a quota …), and
// the piece of a wait that is charged to one culprit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "merge/analyze/threads.h"
#include "merge/model/exit_span.h"

namespace trapline {

enum class CulpritKind : std::uint8_t {
  kUnknown,
  kThread,      // ran on the CPU that the vCPU waited for, or woke it
  kIdle,        // the CPU was idle and had not picked the vCPU up after its wake-up
  kIdleOther,   // the CPU was idle, and no wake-up explains why the vCPU did not run
  kNotAllowed,  // the CPU went idle while the vCPU was in its queue
  kQuota,       // as kNotAllowed, in time that the CPU quota of the vCPU's cgroup throttled
  kTimer,       // a timer of the host's kernel woke the vCPU
  kInterrupt,   // a device's interrupt woke the vCPU or ran on its CPU; number: interrupt line
  kDisk,        // the end of a read or write of the host's disk woke the vCPU
  kIpi,         // the vCPU of `thread` sent the vCPU an interrupt
  kFutex,       // `thread` woke the waiters of a futex, the vCPU among them
  kLock,        // `thread` held a lock (a futex) that the vCPU waited for
  kSoftirq,     // a softirq ran on the vCPU's CPU; number: its vector
  kPage,        // `thread` served the page that the vCPU waited for in a page fault (userfaultfd)
  // `thread` collapsed small pages into a huge one while the vCPU waited in a page fault.
  kCollapse,
};

// The information that is missing if the culprit is unknown.
enum class Missing : std::uint8_t {
  kNone,
  kSwitches,    // what ran on the CPU: before the CPU's first sched_switch, or none is recorded
  kWakeups,     // what woke the vCPU: sched_waking
  kMigrations,  // on which CPU the vCPU waited: sched_migrate_task
  kContext,     // which interrupt woke the vCPU: irq and timer events
  kLost,        // events were lost
  kRoom,        // the CPU's record, or the exit's, exceeds what is kept
  kSelected,    // how long the running thread ran: only some threads' switches are recorded
  kFlags,       // whether an interrupt woke the vCPU: the text has no flags
  kCpu,         // the vCPU's CPU: it was put on a CPU that has no recorded event
};

struct Culprit {
  CulpritKind kind = CulpritKind::kUnknown;
  Missing missing = Missing::kNone;
  ThreadId thread{};         // set if is_thread(); unnamed() returns the thread without a name
  std::uint32_t number = 0;  // kInterrupt: interrupt line; kSoftirq: vector
  NameId handler = kNoName;  // the waking thread's last QEMU event in the wait
  // Set if the waking thread itself slept during most of the wait: what it slept for or, if a
  // sleeping thread woke it in turn, the cause at the end of that chain. kUnknown: none, or not
  // known.
  CulpritKind root = CulpritKind::kUnknown;
  [[nodiscard]] bool is_thread() const {
    return kind == CulpritKind::kThread || kind == CulpritKind::kIpi ||
           kind == CulpritKind::kFutex || kind == CulpritKind::kLock ||
           kind == CulpritKind::kPage || kind == CulpritKind::kCollapse;
  }
  friend auto operator<=>(const Culprit&, const Culprit&) = default;
};

// Returns the unknown culprit, with what is missing.
[[nodiscard]] inline Culprit unknown_for(Missing missing) { return {.missing = missing}; }

// The event that proves a claim: its time, and the CPU that wrote it. Only an event can make an
// EventRef.
class EventRef {
 public:
  explicit EventRef(const Event& event) : at_(event.at), cpu_(event.cpu) {}
  explicit EventRef(const ThreadChange& change) : at_(change.at), cpu_(change.cpu) {}
  [[nodiscard]] Timestamp at() const { return at_; }
  [[nodiscard]] std::uint32_t cpu() const { return cpu_; }

 private:
  friend class CpuRunners;  // keeps the times of each CPU's switches and interrupts
  friend class ProvenCulprit;
  EventRef(Timestamp at, std::uint32_t cpu) : at_(at), cpu_(cpu) {}
  Timestamp at_;
  std::uint32_t cpu_;
};

// A culprit with the event that proves it. Without such an event the culprit is unknown, and stays
// unknown.
class ProvenCulprit {
 public:
  explicit ProvenCulprit(Missing missing = Missing::kNone)
      : culprit_(unknown_for(missing)), by_(Timestamp(), 0) {}
  ProvenCulprit(const Culprit& culprit, const EventRef& by) : culprit_(culprit), by_(by) {}
  operator const Culprit&() const { return culprit_; }  // NOLINT(*-explicit-*)
  const Culprit* operator->() const { return &culprit_; }
  // Returns the event that proves the culprit; nullptr if the culprit is unknown.
  [[nodiscard]] const EventRef* proof() const {
    return culprit_.kind == CulpritKind::kUnknown ? nullptr : &by_;
  }
  // Returns the same culprit and proof with another kind, which further events show. An unknown
  // culprit stays unknown.
  [[nodiscard]] ProvenCulprit as(CulpritKind kind) const {
    ProvenCulprit other = *this;
    if (proof() != nullptr) other.culprit_.kind = kind;
    return other;
  }
  void set_thread(ThreadId thread) { culprit_.thread = thread; }
  void set_handler(NameId handler) { culprit_.handler = handler; }
  void set_root(CulpritKind root) { culprit_.root = root; }

 private:
  Culprit culprit_;
  EventRef by_;
};

struct WaitShare {
  Part part = Part::kPreempted;
  ProvenCulprit culprit;
  Timestamp begin, end;
  ThreadId root{};  // the thread of Culprit::root, if that is a thread
  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
};

// The names of threads that kept others waiting, as they were during the wait: a thread can execute
// another program.
class CulpritNames {
 public:
  static constexpr std::size_t kMost = 1u << 16;

  // Returns what Culprit::thread gets for the thread while it has this name: the thread itself for
  // its first name, the thread with a number added for a later one. With `has_one_name`, the thread
  // has no other name, so it stays itself even while the name is not known ("").
  [[nodiscard]] ThreadId of(ThreadId thread, std::string_view name, bool has_one_name);
  // Returns whether the thread has several names.
  [[nodiscard]] bool is_of_several(ThreadId thread) const;
  // Returns the name behind an id; empty if of() did not return the id, and for a name beyond
  // kMost.
  [[nodiscard]] std::string_view operator[](ThreadId thread) const;

 private:
  static constexpr unsigned kNameAt = kTidBits + kLifeBits;  // the first bit of a name's number
  static constexpr std::int32_t kMostNames = (1 << (31 - kNameAt)) - 1;  // per thread
  std::unordered_map<ThreadId, std::string> names_;
};

struct WaitCounters {
  std::uint64_t waits = 0;        // waits that ended when the thread ran again
  std::uint64_t cut_by_loss = 0;  // waits whose end a loss could hide
  // Woken threads whose CPU is known only because they ran there next.
  std::uint64_t cpu_assumed = 0;
};

}  // namespace trapline
