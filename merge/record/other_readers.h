// Events that another process takes out of a ring buffer while it is recorded: through trace_pipe
// or trace_pipe_raw. The recorder never sees them, and the kernel counts no loss.
//
//   before() ── reads of our own ── after() ── nobody is to read ── before() ── …
//
// Guarantees: counts no read of our own; what others read during one of ours is not told apart, so
// that the count is a lower bound.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend_ftrace/base/unique_fd.h"

namespace trapline::record {

class OtherReaders {
 public:
  // `stats`: per_cpu/cpuN/stats of a buffer that nobody has read yet. Best effort: where it cannot
  // be read nothing is counted.
  explicit OtherReaders(const std::string& stats);

  void before();
  void after();
  [[nodiscard]] std::uint64_t events() const { return events_; }
  void close() { stats_.reset(); }

 private:
  // "read events" of the kernel: those that anybody has taken out since the buffer was emptied.
  [[nodiscard]] std::optional<std::uint64_t> read_events() const;

  UniqueFd stats_;
  std::optional<std::uint64_t> after_ = 0;  // the kernel's count after our own reads
  std::uint64_t events_ = 0;
};

}  // namespace trapline::record
