// A process of its own in which libraries parse bytes that anybody may have written.
//
// The program is trapline-worker (merge/worker). It is executed, not forked off: the caller may
// have threads (QEMU), and nothing of its memory or descriptors is in the worker. Before it reads
// the first byte the worker confines itself: a seccomp filter that leaves it its memory and its
// socket, limits on memory and processor time. It ends with its caller.
//
// Guarantees: a call returns when the worker has used its time, or ten times as much has passed.
// The Error of a worker that crashed, hangs, was refused or answers nonsense is kDamaged and names
// the file. The caller checks the answers as it would check the file.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "backend_ftrace/base/worker_message.h"

namespace trapline {

// Processor time of the worker, for one answer and for its life.
struct WorkerLimits {
  std::uint64_t memory = 0;  // of the address space
  std::chrono::milliseconds answer{};
  std::chrono::seconds life{};

  // For a file of `size` bytes: 3 s and 192 MiB, and in proportion for large ones.
  [[nodiscard]] static WorkerLimits for_file(std::uint64_t size);
};

class Worker {
 public:
  struct Message {
    MessageKind kind{};
    std::vector<std::byte> payload;
  };

  // `subject` is the file that the work is for, as the user named it. kRuntime where no worker can
  // be started.
  [[nodiscard]] static Result<Worker> start(std::string_view task, std::string subject,
                                            const WorkerLimits& limits);
  // From here on start() fails for this reason: where a child must not be tried.
  static void forbid(std::string reason);
  [[nodiscard]] static const std::string& forbidden();
  // The program that start() executes: TRAPLINE_WORKER, else found from where this code is.
  [[nodiscard]] static std::string program();

  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&& other) noexcept;
  ~Worker();  // kills it

  [[nodiscard]] Result<void> send(MessageKind kind, std::span<const std::byte> payload,
                                  int descriptor = -1);
  // The next answer; kRefused is the Error that it states.
  [[nodiscard]] Result<Message> receive();
  // An answer of this kind to this request.
  [[nodiscard]] Result<Message> ask(MessageKind request, std::span<const std::byte> payload,
                                    MessageKind answer, int descriptor = -1) {
    if (auto sent = send(request, payload, descriptor); !sent)
      return tl::unexpected(std::move(sent).error());
    auto message = receive();
    if (message && message->kind != answer) return impossible("its kind");
    return message;
  }
  // The Error of an answer that cannot be; the worker is ended.
  [[nodiscard]] tl::unexpected<Error> impossible(std::string_view answer);

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Whether the last failure was that the time was over.
  [[nodiscard]] bool timed_out() const { return timed_out_; }

 private:
  Worker(pid_t pid, UniqueFd socket, std::string subject, const WorkerLimits& limits)
      : pid_(pid), socket_(std::move(socket)), subject_(std::move(subject)), limits_(limits) {}
  [[nodiscard]] Result<void> fill(std::size_t size);
  struct Patience {
    std::chrono::nanoseconds start;  // the worker's processor time when the wait began
    std::chrono::milliseconds waited;
  };
  [[nodiscard]] std::chrono::nanoseconds busy() const;
  [[nodiscard]] Result<void> wait_for(short events, Patience& patience);
  tl::unexpected<Error> lost();
  void end();

  pid_t pid_ = -1;
  UniqueFd socket_;
  std::string subject_;
  WorkerLimits limits_;
  std::vector<std::byte> inbox_;  // received, not given out yet
  bool timed_out_ = false;
};

}  // namespace trapline
