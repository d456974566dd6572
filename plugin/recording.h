// A run's tasks, their data directory (unless output=ftrace), the size limit, and the counts that
// are reported at the end. All code here is cold.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "plugin/call_markers.h"
#include "plugin/call_tracker.h"
#include "plugin/format/directory_writer.h"
#include "plugin/guest.h"
#include "plugin/options.h"

namespace trapline {

// The operands of a magic no-op that ran, and its time on the records' clock.
struct StampedSync {
  std::uint64_t stamp;
  std::uint64_t operands[6];
};

class Recording final : public RecordSink, public TaskChooser {
 public:
  // Without a directory, only the tasks are kept.
  // `of_program`: the tasks are the threads of this process.
  Recording(const PluginOptions& options, const Architecture& arch,
            std::optional<DirectoryWriter> directory, RecordClock clock, bool of_program = false);

  // Tells the markers of each new task too; nullptr: no markers are written.
  void use_markers(CallMarkers* markers) { markers_ = markers; }

  // Implements RecordSink.
  std::size_t append(std::uint32_t tid, std::span<const Record> records) override;
  void release(std::uint32_t tid) override;

  // Implements TaskChooser: returns the task per vCPU, per vCPU and level, or per guest stack.
  Task* task_for(unsigned vcpu, const StackKey& stack, std::uint64_t stack_pointer) override;
  void entered(unsigned vcpu, Task& task) override;
  // Reports the records in LOST records of a separate task of the vCPU.
  void left_out(unsigned vcpu, std::uint64_t records) override;

  // Writes sync.txt, which relates the records' clock to all others.
  void write_sync();
  // Adds the calling thread, which runs a vCPU, to sync.txt, so that a recording of the host can
  // assign the vCPU's calls.
  void write_vcpu(unsigned vcpu);
  // Adds the guest's magic no-ops to sync.txt.
  void write_guest_syncs(std::span<const StampedSync> syncs);
  // qemu-user: called before a fork, and in the new process.
  void before_fork();
  void forked();
  // Keeps the symbols for the directory; call it when the program has mapped all its files.
  void write_symbols(const SymbolFiles& symbols);
  // Closes the files, after the tasks' buffers were written. Replaces an earlier recording, unless
  // nothing of this one could be written or the guest never ran.
  void finish(bool guest_ran);
  // Returns what distinguishes the directory and the markers of this run from those of others.
  [[nodiscard]] std::string id() const;

  template <typename Visit>
  void for_each_task(Visit&& visit) {
    std::scoped_lock lock(mutex_);
    for (auto& task : tasks_) visit(*task);
  }
  [[nodiscard]] bool is_child() const { return is_child_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

  // With contexts=stack, this many tasks have a buffer and an open file.
  static constexpr std::size_t kActive = 96;
  // Limit of guest sync records in sync.txt, some 10 MB; a guest may execute as many as it likes.
  static constexpr std::uint64_t kMaxGuestSyncs = 65'536;

 private:
  // The following need mutex_:
  [[nodiscard]] int file_of(std::uint32_t tid);  // -1: cannot be opened
  [[nodiscard]] std::size_t write_to_file(std::uint32_t tid, std::span<const Record> records);
  void commit();

  void append_sync(std::string_view lines);

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
  std::vector<Task*> active_;   // the most recently entered is last
  std::vector<Task*> current_;  // by vCPU
  std::uint32_t next_stack_ = 100'000;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<int> last_error_ = 0;
  bool told_ = false;
  bool not_replaced_ = false;   // a message said that the earlier recording stays
  bool told_of_syncs_ = false;  // that sync.txt is not written
  std::uint64_t guest_syncs_ = 0;
  std::unordered_set<std::uint32_t> others_;  // tasks that count left-out records
  std::atomic<std::uint64_t> left_out_ = 0;
  std::uint32_t process_ = 0;  // qemu-user: the program's process id; else 0
  bool is_child_ = false;      // this process was forked by the program
};

}  // namespace trapline
