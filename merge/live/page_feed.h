// Where the pages of a live view come from: an ftrace instance, a session that is being written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/model/event.h"
#include "merge/source/trace_dat/layout.h"
#include "merge/source/trace_dat/unfinished.h"

namespace trapline::live {

class PageFeed {
 public:
  virtual ~PageFeed() = default;

  // Sub-buffers, formats and clock of what is recorded; without data.
  [[nodiscard]] virtual const trace_dat::Layout& layout() const = 0;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::size_t cpus() const = 0;
  [[nodiscard]] virtual std::size_t page_size() const = 0;

  // Before the pages of a round. False: no page comes any more after those of this round.
  [[nodiscard]] virtual Result<bool> begin_round() = 0;
  // The next page of a CPU, in the kernel's order, filled up with zeros; false when there is none
  // now.
  [[nodiscard]] virtual Result<bool> next(std::size_t cpu, std::span<std::byte> page) = 0;
  // How much later than its time an event may come, at most.
  [[nodiscard]] virtual std::uint64_t latency_ns() const = 0;
  // Descriptors that are readable when many pages are ready; may be none.
  [[nodiscard]] virtual std::vector<int> polled() const { return {}; }

  // Now and then: whose threads these are.
  virtual void look_at_threads(std::span<const ThreadId>) {}
  // The process of each thread that is known.
  [[nodiscard]] virtual std::map<ThreadId, ThreadId> threads() const { return {}; }
  [[nodiscard]] virtual std::map<ThreadId, std::string> vm_names() const { return {}; }
  [[nodiscard]] virtual std::string comm(ThreadId) const { return {}; }  // empty: not known

  // What a session of these pages begins with: the head of its trace.dat.
  [[nodiscard]] virtual Result<std::string> head() const = 0;
  [[nodiscard]] virtual trace_dat::StartFacts start_facts() const = 0;
  [[nodiscard]] virtual std::string cmdlines() const = 0;  // "TID COMM\n" each
  // A line for the user when it has ended; may be empty.
  [[nodiscard]] virtual std::string last_words() const { return {}; }
};

}  // namespace trapline::live
