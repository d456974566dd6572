// The perf event that samples a thread in the kernel: what takes the samples on this machine, and
// the buffer of one thread.
#pragma once

#include <linux/perf_event.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline::record {

inline constexpr unsigned kMostSamplesHz = 10'000;

// The kinds of cores that count cycles, each with a counter of its own; 0: there is no counter.
// `root`: "" is this machine.
[[nodiscard]] unsigned core_counters(const std::string& root);

// 0, or the errno with which the kernel refuses an event of this thread.
using TryEvent = std::function<int(const perf_event_attr&)>;
[[nodiscard]] int try_event(const perf_event_attr& attr);

struct SampleEvent {
  unsigned hz = 0;
  std::int32_t clock = 0;
  // Why a timer takes the samples; empty: the counter of cycles does.
  std::string timer_since, advice;

  // The counter where all threads can have it, or a timer. `clock`: the trace's. Errors: a clock
  // that perf does not have (kUsage), too many samples (kUsage), no permission, no perf.
  [[nodiscard]] static Result<SampleEvent> choose(unsigned hz, std::string_view clock,
                                                  unsigned counters, const TryEvent& attempt);
  [[nodiscard]] bool by_timer() const { return !timer_since.empty(); }
  [[nodiscard]] perf_event_attr attr() const;
  // Takes samples from SampleBuffer::enable() on. Errno tells why it failed.
  [[nodiscard]] UniqueFd open(pid_t thread) const;
};

// Why the kernel refuses an event.
[[nodiscard]] tl::unexpected<Error> refusal(int cause, unsigned hz);

class SampleBuffer {  // of one thread
 public:
  [[nodiscard]] static Result<SampleBuffer> map(UniqueFd event, std::size_t data);
  SampleBuffer(SampleBuffer&& other) noexcept;
  SampleBuffer& operator=(SampleBuffer&&) = delete;
  ~SampleBuffer();

  void enable() const;
  void disable() const;
  void take(std::string& into);  // what is in it
  [[nodiscard]] int event() const { return event_.get(); }

 private:
  SampleBuffer(UniqueFd event, std::byte* pages, std::size_t data)
      : event_(std::move(event)), pages_(pages), data_(data) {}
  UniqueFd event_;
  std::byte* pages_;
  std::size_t data_;
};

}  // namespace trapline::record
