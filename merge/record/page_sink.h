// The interface for consumers of a recording's pages: files, a ring, a watch for hits, a live view.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "backend_ftrace/base/result.h"

namespace trapline::record {

class PageSink {
 public:
  virtual ~PageSink() = default;

  // A round consists of begin_round(), at most room() pages of each CPU, drained() for each CPU
  // without more pages, and end_round(). A page that comes after its CPU was drained belongs to a
  // later round.
  [[nodiscard]] virtual std::size_t room(unsigned /*cpu*/) const { return 64; }
  virtual void begin_round() {}
  // Takes a page, padded with zeros, in the kernel's order.
  [[nodiscard]] virtual Result<void> page(unsigned cpu, std::span<const std::byte> page) = 0;
  virtual void drained(unsigned /*cpu*/) {}
  [[nodiscard]] virtual Result<void> end_round() { return {}; }
};

// Copies a CPU's next page into `page`; returns false if there is none now.
using NextPage = std::function<Result<bool>(unsigned cpu, std::span<std::byte> page)>;

// Sinks that each get every page, in this order.
using PageSinks = std::span<PageSink* const>;

// Does one round: takes pages of each CPU with `next` and gives them to the sinks. Returns whether
// every CPU was drained. `page` is the buffer for one page and has its size.
[[nodiscard]] Result<bool> page_round(PageSinks sinks, unsigned cpus, std::span<std::byte> page,
                                      const NextPage& next);

}  // namespace trapline::record
