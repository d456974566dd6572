// Makes a uftrace data directory and keeps it readable from the first moment: info and task.txt are
// written at once and again whenever a task joins, so that a process that is killed leaves a
// directory that uftrace opens. Not for several threads at once.
//
// Where an earlier recording is, the new one is made beside it (DIRECTORY.new.PID) and takes its
// place with commit(), which the caller calls when data has been written.
#pragma once

#include <cstdint>
#include <string>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "plugin/format/info.h"
#include "plugin/format/symbol_writer.h"

namespace trapline {

class DirectoryWriter {
 public:
  // Creates the directory and what it lies in. One that holds an earlier recording (an info file)
  // is left as it is until commit(); one that holds anything else is refused.
  [[nodiscard]] static Result<DirectoryWriter> create(const std::string& path, UftraceInfo info);

  // The .sym, .dbg and map files. Without symbols too: uftrace needs the map.
  [[nodiscard]] Result<void> write_symbols(const SymbolFiles& symbols);

  // The task's records go into <tid>.dat. Its name is cut to 15 characters by uftrace. Each task is
  // a process of its own, for uftrace names processes.
  [[nodiscard]] Result<void> add_task(std::uint32_t tid, const std::string& name,
                                      std::uint64_t time);
  // At the end: info with the elapsed time.
  [[nodiscard]] Result<void> finish(std::uint64_t elapsed_ns);

  // The task's data file, created empty or, for a task that paused, opened to append.
  [[nodiscard]] Result<UniqueFd> open_data(std::uint32_t tid) const;
  [[nodiscard]] Result<UniqueFd> open_file(const std::string& name) const;

  // Takes the earlier recording's place and removes it; files that are of no recording stay. After
  // that, and where there was none, it does nothing.
  [[nodiscard]] Result<void> commit();
  // Removes what was made beside the earlier recording, which stays. Not after commit().
  void discard();
  // Whether an earlier recording is still in the place of this one.
  [[nodiscard]] bool beside() const { return !beside_.empty(); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  DirectoryWriter(std::string path, UftraceInfo info)
      : path_(std::move(path)), info_(std::move(info)) {}
  [[nodiscard]] Result<void> open_folder();
  [[nodiscard]] Result<void> replace(const std::string& name, const std::string& text) const;

  std::string path_;
  std::string beside_;  // where it is until commit(); empty: at path_
  UniqueFd folder_;
  UftraceInfo info_;
  std::string tasks_;
};

// All of `text`, over short writes and interruptions; an errno value, or 0.
[[nodiscard]] int write_all(int fd, const void* text, std::size_t size);

}  // namespace trapline
