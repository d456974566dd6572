// Syncs a session to the disk while it is recorded, in a separate thread, so that a disk that
// stalls does not keep the recorder from reading the kernel's buffers.
//
//   ask(job) ──> waiting (a newer job replaces it) ──> synced: data, names of new files, job.texts
//
// Guarantees: ask() never waits. A job's sizes become durable() only when all data written before
// its ask() is on the disk. After the first Error, durable() does not change.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backend_ftrace/base/folder.h"

namespace trapline::record {

struct SyncJob {
  std::vector<int> files;                    // files whose data is synced
  std::vector<std::uint64_t> sizes;          // bytes written so far for each CPU
  std::map<std::string, std::string> texts;  // small files to replace, by name
};

class DiskSync {
 public:
  // `folders`: the session's folder, those in it and the one above, which hold the names of new
  // files; they are synced if a job has new files.
  DiskSync(Folder session, std::vector<Folder> folders);
  DiskSync(const DiskSync&) = delete;
  DiskSync& operator=(const DiskSync&) = delete;

  void ask(SyncJob job);
  // Finishes the jobs that were asked for, and ends the thread.
  void stop();

  // Returns the first failure to sync data; also an Error if the session was removed meanwhile.
  [[nodiscard]] std::optional<Error> error() const;
  // Returns SyncJob::sizes of the last job whose data is on the disk; empty before the first.
  [[nodiscard]] std::vector<std::uint64_t> durable() const;
  [[nodiscard]] pid_t thread_id() const { return thread_id_; }

 private:
  void run(const std::stop_token& stopped);
  void carry_out(const SyncJob& job);
  [[nodiscard]] Result<void> sync_data(const SyncJob& job);

  Folder session_;
  std::vector<Folder> folders_;
  std::size_t files_ = 0;  // number of files whose names are on the disk
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<SyncJob> waiting_;
  std::optional<Error> error_;
  std::vector<std::uint64_t> durable_;
  pid_t thread_id_ = 0;
  std::jthread thread_;  // last, because it uses all members above
};

}  // namespace trapline::record
