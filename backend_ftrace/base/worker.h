// Runs libraries that parse untrusted bytes in a process of their own.
//
// The program is trapline-worker (merge/worker). It is executed, not only forked: the caller may
// have threads (QEMU), and the worker must not inherit the caller's memory or descriptors. Before
// reading the first byte the worker confines itself with a seccomp filter, which allows only memory
// and its socket, and with limits on memory and processor time. The worker ends when its caller
// ends.
//
// Guarantees: a call returns at the latest when the worker has used its processor time, or ten
// times as much has passed on the clock. If the worker crashes, hangs, is killed for a forbidden
// call or answers nonsense, the Error is kDamaged and names the file. The caller must check the
// answers as it would check the file.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "backend_ftrace/base/worker_message.h"

namespace trapline {

// Limits of the worker: processor time for one answer and for its whole life, and memory.
struct WorkerLimits {
  std::uint64_t memory = 0;  // address space in bytes
  std::chrono::milliseconds answer{};
  std::chrono::seconds life{};

  // Returns the limits for a file of `size` bytes: 3 s and 192 MiB, and more in proportion for
  // large files.
  [[nodiscard]] static WorkerLimits for_file(std::uint64_t size);
};

class Worker {
 public:
  struct Message {
    MessageKind kind{};
    std::vector<std::byte> payload;
  };

  // Starts a worker. `subject` is the file that the work is for, as the user named it. kRuntime if
  // no worker can be started.
  [[nodiscard]] static Result<Worker> start(std::string_view task, std::string subject,
                                            const WorkerLimits& limits);
  // Makes every later start() fail with this reason, for callers that must not have a child.
  static void forbid(std::string reason);
  [[nodiscard]] static const std::string& forbidden();
  // The program that start() executes: TRAPLINE_WORKER, else found relative to this code's own
  // file.
  [[nodiscard]] static std::string program();

  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&& other) noexcept;
  ~Worker();  // kills the worker

  [[nodiscard]] Result<void> send(MessageKind kind, std::span<const std::byte> payload,
                                  int descriptor = -1);
  // Waits for the next answer. A kRefused answer becomes the Error that it contains.
  [[nodiscard]] Result<Message> receive();
  // Sends a request and waits for an answer of kind `answer`.
  [[nodiscard]] Result<Message> ask(MessageKind request, std::span<const std::byte> payload,
                                    MessageKind answer, int descriptor = -1) {
    if (auto sent = send(request, payload, descriptor); !sent)
      return tl::unexpected(std::move(sent).error());
    auto message = receive();
    if (message && message->kind != answer) return impossible("its kind");
    return message;
  }
  // Ends the worker and returns the Error for an answer that cannot be right; `answer` says what in
  // it.
  [[nodiscard]] tl::unexpected<Error> impossible(std::string_view answer);

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Returns whether the last failure was a timeout.
  [[nodiscard]] bool timed_out() const { return timed_out_; }

 private:
  Worker(pid_t pid, UniqueFd socket, std::string subject, const WorkerLimits& limits)
      : pid_(pid), socket_(std::move(socket)), subject_(std::move(subject)), limits_(limits) {}
  [[nodiscard]] Result<void> fill(std::size_t size);
  struct Patience {
    std::optional<std::chrono::nanoseconds> start;  // its processor time when the first slice ended
    std::chrono::milliseconds waited{};
  };
  [[nodiscard]] std::chrono::nanoseconds busy() const;
  [[nodiscard]] Result<void> wait_for(short events, Patience& patience);
  tl::unexpected<Error> lost();
  void end();

  pid_t pid_ = -1;
  UniqueFd socket_;
  std::string subject_;
  WorkerLimits limits_;
  std::vector<std::byte> inbox_;  // bytes received and not yet returned
  bool timed_out_ = false;
};

}  // namespace trapline
