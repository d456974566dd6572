// perf's samples of the threads of virtual machines, in the kernel, into the session's perf.data:
// each thread has an event and a buffer of its own, which drain() reads.
//
// Guarantees: memory is bounded (kMostMemory in buffers), and descriptors are left to others; the
// file grows at its end alone, by whole records, in the form that perf writes into a pipe, so that
// it can be read at any time; a thread that cannot be sampled, samples that the kernel lost, and
// its pauses are counted.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "merge/record/sample_event.h"
#include "merge/record/threads.h"

namespace trapline::record {

inline constexpr const char* kSamplesFile = "perf.data";

struct SampleCounts {
  std::uint64_t samples = 0, lost = 0;
  std::uint64_t throttled = 0;  // how often the kernel paused an event
  void add(std::string_view records);
};

// PERF_RECORD_COMM: a thread's name, and since when it is sampled.
[[nodiscard]] std::string name_record(pid_t thread, const Thread& what, std::uint64_t time);

class KernelSampler {
 public:
  static constexpr std::size_t kMostMemory = 256u << 20;
  // Half a second of samples with stacks of average depth, and as much again.
  [[nodiscard]] static constexpr std::size_t buffer_size(unsigned hz) {
    return std::bit_ceil(std::max<std::size_t>(64u << 10, std::size_t{hz} * 256));
  }

  // `clock`: the trace's. Errors are those of SampleEvent::choose(). Nothing is written.
  [[nodiscard]] static Result<KernelSampler> make(unsigned hz, std::string_view clock);
  // What to tell the user at the start; empty: the counter of cycles takes the samples.
  [[nodiscard]] std::string notice() const;

  // Makes the file; samples are taken from follow() on.
  [[nodiscard]] Result<void> open(const Folder& session, std::size_t memory = kMostMemory);
  // Those that are not followed yet. Ended ones are let go.
  void follow(const std::map<pid_t, Thread>& threads);
  // What the buffers hold, to the file.
  [[nodiscard]] Result<void> drain();
  // Takes the last samples, and leaves no descriptor but the file's.
  [[nodiscard]] Result<void> stop();
  [[nodiscard]] Result<void> close();

  [[nodiscard]] std::uint64_t samples() const { return counts_.samples; }
  // What to tell the user; empty: all was sampled.
  [[nodiscard]] std::string warning() const;

 private:
  explicit KernelSampler(SampleEvent event) : event_(std::move(event)) {}
  void add(pid_t thread, const Thread& what);
  void refuse(pid_t thread, std::string_view why);
  [[nodiscard]] bool let_ended_go();  // whether some were
  [[nodiscard]] std::string head() const;
  void take(SampleBuffer& buffer);
  void write_pending();

  SampleEvent event_;
  UniqueFd file_;
  std::string path_, pending_;  // what is to be written
  std::optional<Error> failed_;
  std::map<pid_t, SampleBuffer> buffers_;
  std::size_t room_ = 0;          // for more buffers
  std::uint64_t most_files_ = 0;  // no event has this descriptor or one above
  std::set<pid_t> refused_;       // until there is room again
  std::set<pid_t> ever_refused_;  // each is told once
  std::string first_refusal_;
  SampleCounts counts_;
};

}  // namespace trapline::record
