// perf's samples of the threads of virtual machines, in the kernel, into the session's perf.data:
// each thread has an event and a buffer of its own, which drain() reads.
//
// Guarantees: memory is bounded (kMostThreads buffers); the file grows at its end alone, by whole
// records, in the form that perf writes into a pipe, so that it can be read at any time; a thread
// that cannot be sampled, and samples that the kernel lost, are counted.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "merge/record/threads.h"

namespace trapline::record {

inline constexpr unsigned kMostSamplesHz = 10'000;
inline constexpr const char* kSamplesFile = "perf.data";

class KernelSampler {
 public:
  static constexpr std::size_t kMostThreads = 4096;

  // `clock`: the trace's. Errors: a clock that perf does not have (kUsage), no permission, no perf.
  // Nothing is written.
  [[nodiscard]] static Result<KernelSampler> make(unsigned hz, std::string_view clock);
  // Whether a timer takes the samples, since no counter of cycles is there.
  [[nodiscard]] bool by_timer() const { return by_timer_; }

  // Makes the file; samples are taken from follow() on.
  [[nodiscard]] Result<void> open(const Folder& session);
  // Those that are not followed yet. Ended ones are let go.
  void follow(const std::map<pid_t, Thread>& threads);
  // What the buffers hold, to the file; once more after stop(), for the last samples.
  [[nodiscard]] Result<void> drain();
  void stop();
  [[nodiscard]] Result<void> close();

  [[nodiscard]] std::uint64_t samples() const { return samples_; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  // What to tell the user; empty: all was sampled.
  [[nodiscard]] std::string warning() const;

 private:
  class Buffer {  // of one thread
   public:
    [[nodiscard]] static Result<Buffer> map(UniqueFd event, std::size_t data);
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&&) = delete;
    ~Buffer();
    void take(std::string& into);  // what is in it
    void disable() const;

   private:
    Buffer(UniqueFd event, std::byte* pages, std::size_t data)
        : event_(std::move(event)), pages_(pages), data_(data) {}
    UniqueFd event_;
    std::byte* pages_;
    std::size_t data_;
  };

  KernelSampler(unsigned hz, std::int32_t clock) : hz_(hz), clock_(clock) {}
  void add(pid_t thread, const Thread& what);
  [[nodiscard]] std::string head() const;
  void take(Buffer& buffer);
  void count(std::string_view records);
  [[nodiscard]] Result<void> write(std::string_view bytes);

  unsigned hz_;
  std::int32_t clock_;
  bool by_timer_ = false;
  UniqueFd file_;
  std::string path_, pending_;  // what is to be written
  std::map<pid_t, Buffer> buffers_;
  std::map<pid_t, std::string> refused_;  // why
  std::uint64_t samples_ = 0, lost_ = 0;
};

}  // namespace trapline::record
