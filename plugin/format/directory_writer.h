// Makes a uftrace data directory and keeps it readable from the first moment. Each task is appended
// to task.txt. info lists all tasks, so it is rewritten only when their number has grown by an
// eighth or ten seconds have passed: a guest can make tasks as fast as it likes. If the process is
// killed, uftrace can open the directory, at worst without the last tasks; DataDirectory finds
// those in task.txt. Not thread-safe.
//
// If the directory holds an earlier recording, the new one is made beside it (DIRECTORY.new.PID)
// and takes its place with commit(), which the caller calls after data has been written. All paths
// are resolved through descriptors of folders (folder.h), since QEMU may be root and the directory
// in another user's folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "plugin/format/info.h"
#include "plugin/format/symbol_writer.h"

namespace trapline {

class DirectoryWriter {
 public:
  // kBeside: make the recording beside `path` even if nothing is there; `path` stays empty until
  // commit().
  enum class Place : bool { kThere, kBeside };

  // Makes the directory and the folders above it. An earlier recording (a directory with uftrace's
  // info file) stays as it is until commit(); a directory that holds anything else is an error.
  [[nodiscard]] static Result<DirectoryWriter> create(const std::string& path, UftraceInfo info,
                                                      Place place = Place::kThere);

  // Writes the .sym, .dbg and map files. Call it without symbols too: uftrace needs the map.
  [[nodiscard]] Result<void> write_symbols(const SymbolFiles& symbols);

  // Adds a task, whose records go into <tid>.dat. uftrace cuts the name to 15 characters. Each task
  // is written as a process of its own, because uftrace shows names of processes only.
  [[nodiscard]] Result<void> add_task(std::uint32_t tid, const std::string& name,
                                      std::uint64_t time);
  // Adds a thread of the process `pid`; its name is that of the session's program.
  [[nodiscard]] Result<void> add_thread(std::uint32_t tid, std::uint32_t pid, std::uint64_t time);
  // Continues in a process that was just forked, which adds its own tasks to the same directory. At
  // the end each of the processes lists the tasks of all.
  [[nodiscard]] Result<void> forked(std::uint32_t pid, std::uint32_t parent, std::uint64_t time);
  // Writes info if it has lacked tasks for more than ten seconds.
  [[nodiscard]] Result<void> keep_up();
  // Writes info for the last time, with the elapsed time.
  [[nodiscard]] Result<void> finish(std::uint64_t elapsed_ns);

  // Opens the task's data file: a new empty one or, for a task that paused, the existing one to
  // append.
  [[nodiscard]] Result<UniqueFd> open_data(std::uint32_t tid) const;
  [[nodiscard]] Result<UniqueFd> open_file(const std::string& name) const;

  // Moves the new recording to its place and removes the earlier recording there; files that are
  // not part of a recording stay. Does nothing if the recording is in its place already.
  [[nodiscard]] Result<void> commit();
  // Removes a recording that was made beside its place; an earlier recording stays. Don't call it
  // after commit().
  void discard();
  // Returns whether the recording is still beside its place.
  [[nodiscard]] bool beside() const { return !beside_.empty(); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  using Clock = std::chrono::steady_clock;
  DirectoryWriter(std::string path, Folder above, std::string name, UftraceInfo info)
      : path_(std::move(path)),
        above_(std::move(above)),
        name_(std::move(name)),
        info_(std::move(info)) {}
  [[nodiscard]] Result<Folder> make_beside();
  [[nodiscard]] Result<void> replace(const std::string& name, const std::string& text) const;
  [[nodiscard]] Result<void> append_tasks();
  [[nodiscard]] Result<void> list_task(std::uint32_t tid);
  void list_others_tasks();
  [[nodiscard]] Result<void> write_info();

  std::string path_;
  Folder above_;        // the folder that contains the directory
  std::string name_;    // name of the directory in above_
  std::string beside_;  // temporary name until commit(); empty: name_ is used
  std::optional<Folder> folder_;
  UftraceInfo info_;
  UniqueFd task_file_;
  std::string unwritten_;   // lines of task.txt still to be written
  std::size_t listed_ = 0;  // tasks that info already lists
  Clock::time_point listed_at_;
  // True if the tasks are threads of a program; processes that it forks write here too.
  bool has_session_ = false;
};

}  // namespace trapline
