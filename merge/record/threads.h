// The threads of virtual machines, as /proc shows them: tells VMs apart in a recording. And the
// names of all others that the kernel remembers.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "merge/model/event.h"
#include "merge/session/session_json.h"

namespace trapline::record {

struct Thread {
  pid_t pid = 0;  // of its process
  std::string name;
  bool operator==(const Thread&) const = default;
};

// Guarantees: a thread once seen stays, with the last name it had; at most kMostThreads of virtual
// machines and as many others are kept, and those that found no place are counted, each once.
class ThreadTable {
 public:
  static constexpr std::size_t kMostThreads = 20'000;

  // The process and its descendants; or, without one, every process that looks like a virtual
  // machine monitor (its name, or a thread's name, is one that merge/analyze/vmm knows).
  explicit ThreadTable(pid_t root = 0) : root_(root) {}

  // Looks again; whether anything is new.
  bool update();

  [[nodiscard]] const std::map<pid_t, Thread>& threads() const { return threads_; }
  // The same as a session has them.
  [[nodiscard]] std::vector<SessionThread> in_session() const;
  // Threads of which the names alone are known: lines "TID NAME", of the kernel's saved_cmdlines.
  // It keeps few (128 mostly), so look often.
  void add_names(std::string_view saved_cmdlines);
  // What another table, an older one, has beside.
  void add_missing(const ThreadTable& older);
  // Threads whose names found no place, and what to tell the user of them; empty where all did.
  [[nodiscard]] std::size_t left_out() const;
  [[nodiscard]] std::string warning() const;
  // "TID NAME\n" each, as trace.dat wants them.
  [[nodiscard]] std::string cmdlines() const;

 private:
  bool add_process(pid_t pid);
  void add_descendants(pid_t pid, std::set<pid_t>& found, unsigned depth) const;
  [[nodiscard]] bool is_monitor(pid_t pid) const;

  void leave_out(pid_t tid);

  pid_t root_;
  std::map<pid_t, Thread> threads_;
  std::map<pid_t, std::string> names_;  // of other threads
  std::vector<bool> left_out_;          // by thread id, once there is one
};

// Whether a thread is alive; nothing where that cannot be known: in a pid namespace of its own the
// recorder cannot look up the numbers that the kernel records.
[[nodiscard]] std::optional<bool> is_alive(ThreadId thread);

// The thread ids of a process now.
[[nodiscard]] std::vector<pid_t> tasks_of(pid_t pid);

}  // namespace trapline::record
