// The threads of virtual machines, from /proc, which tell the VMs of a recording apart; and the
// names of all other threads that the kernel remembers.
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

// Guarantees: a thread that was seen once stays, with its last name. At most kMostThreads of
// virtual machines, and as many others, are kept.
class TracedThreads {
 public:
  static constexpr std::size_t kMostThreads = 20'000;

  // Tracks the process `root` and its descendants; without a root, every process that has a VM at
  // the first update, or looks like a virtual machine monitor (its name, or a thread's name, is one
  // that merge/analyze/vmm knows).
  explicit TracedThreads(pid_t root = 0) : root_(root) {}

  // Looks into /proc again. Returns whether a thread is new or has changed its name or process.
  bool update();

  [[nodiscard]] const std::map<pid_t, Thread>& threads() const { return threads_; }
  // Returns the threads of virtual machines in the form of session.json.
  [[nodiscard]] std::vector<SessionThread> in_session() const;
  // Adds threads of which only the names are known: lines "TID NAME" from the kernel's
  // saved_cmdlines. The kernel keeps few (usually 128), so look often.
  void add_names(std::string_view saved_cmdlines);
  // Adds the threads and names that only the older table has.
  void add_missing(const TracedThreads& older);
  // Returns what to tell the user about threads without room for their names; empty if there are
  // none.
  [[nodiscard]] std::string warning() const;
  // Returns "TID NAME\n" for each thread, as trace.dat needs.
  [[nodiscard]] std::string cmdlines() const;

 private:
  bool add_process(pid_t pid, std::size_t& left_out);
  void add_descendants(pid_t pid, std::set<pid_t>& found, unsigned depth) const;
  [[nodiscard]] bool is_monitor(pid_t pid) const;

  pid_t root_;
  std::map<pid_t, Thread> threads_;
  std::map<pid_t, std::string> names_;  // of other threads
  bool looked_ = false;                 // for processes that have a VM
  std::size_t left_out_ = 0;            // at least so many threads had no room
};

// How long each thread ran, and how often it was switched in, as the kernel counts it
// (/proc/TID/schedstat): before a recording and after it.
class RunCounts {
 public:
  struct Count {
    std::uint64_t ns = 0, turns = 0;
  };
  // Parses the text of a schedstat: "68700 1200 12" is the time on a CPU and the time in run
  // queues, both in ns, and how often it was switched in.
  [[nodiscard]] static std::optional<Count> parse(std::string_view text);

  void begin(const std::map<pid_t, Thread>& threads) { before_ = read(threads); }
  void end(const std::map<pid_t, Thread>& threads) { after_ = read(threads); }
  // Adds the counts of the threads that were there at both times. `knows_all`: begin() got all
  // threads, so a thread that it did not get began during the recording, with counts of 0.
  void add_to(std::vector<SessionThread>& threads, bool knows_all) const;

 private:
  using Counts = std::map<std::pair<pid_t, pid_t>, Count>;  // by process and thread
  [[nodiscard]] static Counts read(const std::map<pid_t, Thread>& threads);
  Counts before_, after_;
};

// Returns whether a thread is alive; nullopt if that cannot be known: in a pid namespace of its
// own, the recorder cannot look up the numbers that the kernel records.
[[nodiscard]] std::optional<bool> is_alive(ThreadId thread);

// Returns the entries of a folder of /proc whose names are numbers.
[[nodiscard]] std::vector<pid_t> numbers_in(const std::string& folder);
// Returns the present thread ids of a process.
[[nodiscard]] std::vector<pid_t> tasks_of(pid_t pid);
// Returns the ids of kernel threads that now work for the process, such as "kvm-pit/PID".
[[nodiscard]] std::vector<pid_t> kernel_threads_of(pid_t pid);

}  // namespace trapline::record
