// Brings a session to the disk while it is recorded, in a thread of its own: a disk that stalls
// must not keep the recorder from reading the kernel's buffers.
//
//   ask(job) ──> waiting (the newer job takes the older one's place) ──> data, names, small files
//
// Guarantees: ask() never waits; a job's sizes are durable() only when all data that was written
// before it was asked is on the disk; after the first Error no more is told durable.
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
  std::vector<int> files;                    // whose data goes to the disk
  std::vector<std::uint64_t> sizes;          // of each CPU, as written by now
  std::map<std::string, std::string> texts;  // small files, by their names, that replace others
};

class DiskSync {
 public:
  // `folders`: that hold the session, and that it holds; on the disk with the first job.
  DiskSync(Folder session, std::vector<Folder> folders);
  DiskSync(const DiskSync&) = delete;
  DiskSync& operator=(const DiskSync&) = delete;
  ~DiskSync() { stop(); }

  void ask(SyncJob job);
  // What was asked before is done; the thread has ended.
  void stop();

  // Why data did not come to the disk; also where the session is removed meanwhile.
  [[nodiscard]] std::optional<Error> error() const;
  // The sizes of the last job whose data is on the disk; empty before the first.
  [[nodiscard]] std::vector<std::uint64_t> durable() const;
  [[nodiscard]] pid_t thread_id() const { return thread_id_; }

 private:
  void run();
  void carry_out(const SyncJob& job);
  [[nodiscard]] Result<void> sync_data(const SyncJob& job);

  Folder session_;
  std::vector<Folder> folders_;
  std::size_t files_ = 0;  // whose names are on the disk
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<SyncJob> waiting_;
  std::optional<Error> error_;
  std::vector<std::uint64_t> durable_;
  bool stopping_ = false;
  pid_t thread_id_ = 0;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace trapline::record
