// The sources of a live view's pages: an ftrace instance, or a session that is being written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/model/event.h"
#include "merge/record/recorder.h"
#include "merge/source/trace_dat/layout.h"
#include "merge/source/trace_dat/unfinished.h"

namespace trapline::live {

// Facts about threads from outside the events: their processes and names, and the names of VMs.
struct KnownThreads {
  std::map<ThreadId, ThreadId> processes;    // of each thread
  std::map<ThreadId, std::string> vm_names;  // by process
  mutable std::map<ThreadId, std::string> comms;
};

class PageFeed {
 public:
  virtual ~PageFeed() = default;

  // Returns page size, CPUs, formats and clock of the recording; without data.
  [[nodiscard]] const trace_dat::Layout& layout() const { return layout_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  // Begins a round, in which next() reads pages of all CPUs. Returns false if no page will come
  // after this round.
  [[nodiscard]] virtual Result<bool> begin_round() { return true; }
  // Reads the next page of a CPU, in the kernel's order, padded with zeros; false if there is none
  // now.
  [[nodiscard]] virtual Result<bool> next(std::size_t cpu, std::span<std::byte> page) = 0;
  // Returns how much later than its time an event may come, at most.
  [[nodiscard]] virtual std::uint64_t latency_ns() const { return 0; }
  // Returns descriptors that are readable when many pages are ready; may be none.
  [[nodiscard]] virtual std::vector<int> polled() const { return {}; }

  // Called from time to time: looks up the processes of these threads.
  virtual void look_at_threads(std::span<const ThreadId>) {}
  [[nodiscard]] const KnownThreads& threads() const { return threads_; }
  [[nodiscard]] virtual std::string comm(ThreadId thread) const;  // empty: not known
  // Returns "TID COMM\n" for all threads whose names are known.
  [[nodiscard]] std::string cmdlines() const;

  // Returns the beginning of a session with these pages: the head of its trace.dat.
  [[nodiscard]] virtual Result<std::string> head() const = 0;
  [[nodiscard]] const trace_dat::StartFacts& start_facts() const { return start_; }
  // Returns a line for the user at the end; may be empty.
  [[nodiscard]] virtual std::string last_words() const { return {}; }

 protected:
  std::string name_;  // as the user knows it
  trace_dat::Layout layout_;
  trace_dat::StartFacts start_;
  KnownThreads threads_;
};

// Opens the pages of an ftrace instance: `name`, or one of our own, which records as `options` say
// (clock, buffer_kb, events), after removing those of dead recorders. Errors (kUsage): no instance
// has that name.
//
// Guarantees: our own instance is removed with the feed; after a SIGKILL, by its watchdog
// (merge/record/instance.h). Somebody else's instance is not changed, but the pages that are read
// here are removed from it.
[[nodiscard]] Result<std::unique_ptr<PageFeed>> open_instance(const std::string& name,
                                                              const record::RecordOptions& options);

// Returns whether somebody is recording into this folder.
[[nodiscard]] bool is_open_session(const std::string& folder);
// Opens the pages of a session that is being recorded. They are read as the trace.dat that they
// would become (merge/source/trace_dat/unfinished.h) or, once the recorder has finished, as the
// trace.dat that they are. Writes nothing.
[[nodiscard]] Result<std::unique_ptr<PageFeed>> open_session(const std::string& folder);

}  // namespace trapline::live
