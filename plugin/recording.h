// A run's tasks and, unless output=ftrace, its data directory with their files, the size limit, and
// the counts that are reported at the end. Everything here is cold.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "plugin/call_markers.h"
#include "plugin/call_tracker.h"
#include "plugin/format/directory_writer.h"
#include "plugin/guest.h"
#include "plugin/options.h"

namespace trapline {

// A magic no-op that ran: its operands, and when on the records' clock.
struct StampedSync {
  std::uint64_t stamp;
  std::uint64_t operands[6];
};

class Recording final : public RecordSink, public TaskChooser {
 public:
  // Without a directory there are tasks only.
  // `of_program`: tasks are the threads of this process.
  Recording(const PluginOptions& options, const Architecture& arch,
            std::optional<DirectoryWriter> directory, RecordClock clock, bool of_program = false);

  // They learn of each new task as well. Nullptr: no markers are written.
  void use_markers(CallMarkers* markers) { markers_ = markers; }

  // RecordSink
  std::size_t append(std::uint32_t tid, std::span<const Record> records) override;
  void release(std::uint32_t tid) override;

  // TaskChooser: a task per vCPU, per vCPU and level, or per guest stack.
  Task* task_for(unsigned vcpu, const StackKey& stack, std::uint64_t stack_pointer) override;
  void entered(unsigned vcpu, Task& task) override;
  // Told by LOST records of a task of the vCPU's own, which has no others.
  void left_out(unsigned vcpu, std::uint64_t records) override;

  // sync.txt: the records' clock beside all others.
  void write_sync();
  // Adds the thread that runs a vCPU, the calling one, to sync.txt: whose the vCPU's calls are in a
  // recording of the host.
  void write_vcpu(unsigned vcpu);
  // Adds what the guest said by the magic no-op to sync.txt.
  void write_guest_syncs(std::span<const StampedSync> syncs);
  // qemu-user: before a fork, and in the process that it made.
  void before_fork();
  void forked();
  // What is named, for the directory; once the program has mapped all of it.
  void write_symbols(const SymbolFiles& symbols);
  // Closes the files; the tasks' buffers are written by then. An earlier recording is replaced
  // unless nothing of this one could be written, or the guest never ran.
  void finish(bool guest_ran);
  // What tells the directory and the markers of one run from those of others.
  [[nodiscard]] std::string id() const;

  template <typename Visit>
  void for_each_task(Visit&& visit) {
    std::scoped_lock lock(mutex_);
    for (auto& task : tasks_) visit(*task);
  }
  [[nodiscard]] bool is_child() const { return is_child_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }
  [[nodiscard]] int last_error() const { return last_error_; }

  // With contexts=stack: this many tasks have a buffer and an open file.
  static constexpr std::size_t kActive = 96;
  // Guest sync records that sync.txt takes: some 10 MB. A guest may execute as many as it likes.
  static constexpr std::uint64_t kMaxGuestSyncs = 65'536;

 private:
  // With mutex_ held:
  [[nodiscard]] int file_of(std::uint32_t tid);  // -1: cannot be opened
  [[nodiscard]] std::size_t write_to_file(std::uint32_t tid, std::span<const Record> records);
  void commit();

  PluginOptions options_;
  const Architecture& arch_;
  std::optional<DirectoryWriter> directory_;
  CallMarkers* markers_ = nullptr;
  RecordClock clock_;
  std::uint64_t start_ = 0;
  std::recursive_mutex mutex_;
  std::vector<std::unique_ptr<Task>> tasks_;
  std::unordered_map<std::uint32_t, Task*> by_tid_;
  std::unordered_map<std::uint32_t, UniqueFd> files_;
  std::vector<Task*> active_;   // the most recently entered last
  std::vector<Task*> current_;  // by vCPU
  std::uint32_t next_stack_ = 100'000;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<int> last_error_ = 0;
  bool told_ = false;
  bool not_replaced_ = false;  // a message said that the earlier recording stays
  bool told_of_syncs_ = false;
  std::uint64_t guest_syncs_ = 0;
  std::unordered_set<std::uint32_t> others_;  // tasks of what is left out
  std::atomic<std::uint64_t> left_out_ = 0;
  std::uint32_t process_ = 0;  // qemu-user: the program's; else 0
  bool is_child_ = false;      // it was forked
};

}  // namespace trapline
