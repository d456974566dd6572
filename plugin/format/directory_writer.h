// Makes a uftrace data directory and keeps it readable from the first moment. task.txt grows with
// each task. info lists all of them, so it is written anew when their number has grown by an eighth
// or ten seconds have passed: a guest can make tasks as fast as it likes. A process that is killed
// leaves a directory that uftrace opens, at worst without its last tasks; DataDirectory knows those
// from task.txt. Not for several threads at once.
//
// Where an earlier recording is, the new one is made beside it (DIRECTORY.new.PID) and takes its
// place with commit(), which the caller calls when data has been written. Everything goes through
// descriptors of folders (folder.h): QEMU may be root, and the directory in somebody else's.
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
  // kBeside: its place stays empty until commit(), too.
  enum class Place : bool { kThere, kBeside };

  // Creates the directory and what it lies in. One that holds an earlier recording (an info file)
  // is left as it is until commit(); one that holds anything else is refused.
  [[nodiscard]] static Result<DirectoryWriter> create(const std::string& path, UftraceInfo info,
                                                      Place place = Place::kThere);

  // The .sym, .dbg and map files. Without symbols too: uftrace needs the map.
  [[nodiscard]] Result<void> write_symbols(const SymbolFiles& symbols);

  // The task's records go into <tid>.dat. Its name is cut to 15 characters by uftrace. Each task is
  // a process of its own, for uftrace names processes.
  [[nodiscard]] Result<void> add_task(std::uint32_t tid, const std::string& name,
                                      std::uint64_t time);
  // The same for a thread of the process `pid`, which is called as the session's program.
  [[nodiscard]] Result<void> add_thread(std::uint32_t tid, std::uint32_t pid, std::uint64_t time);
  // In a process that was just forked: it writes into the directory too, tasks of its own. At the
  // end each of the processes lists the tasks of all.
  [[nodiscard]] Result<void> forked(std::uint32_t pid, std::uint32_t parent, std::uint64_t time);
  // Writes info, if it lacks tasks for longer than ten seconds.
  [[nodiscard]] Result<void> keep_up();
  // At the end: info with the elapsed time.
  [[nodiscard]] Result<void> finish(std::uint64_t elapsed_ns);

  // The task's data file, created empty or, for a task that paused, opened to append.
  [[nodiscard]] Result<UniqueFd> open_data(std::uint32_t tid) const;
  [[nodiscard]] Result<UniqueFd> open_file(const std::string& name) const;

  // Takes its place, and removes the earlier recording there; files that are of no recording stay.
  // After that, and where it is in its place, it does nothing.
  [[nodiscard]] Result<void> commit();
  // Removes what was made beside, an earlier recording stays. Not after commit().
  void discard();
  // Whether it is not in its place yet.
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
  Folder above_;        // what the directory lies in
  std::string name_;    // there
  std::string beside_;  // its name until commit(); empty: name_
  std::optional<Folder> folder_;
  UftraceInfo info_;
  UniqueFd task_file_;
  std::string unwritten_;   // lines of task.txt
  std::size_t listed_ = 0;  // tasks that info lists
  Clock::time_point listed_at_;
  bool has_session_ = false;  // tasks are threads; processes that they fork write here, too
};

// All of `text`, over short writes and interruptions; an errno value, or 0.
[[nodiscard]] int write_all(int fd, const void* text, std::size_t size);

}  // namespace trapline
