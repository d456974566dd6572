#include "merge/record/disk_sync.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "backend_ftrace/base/uninterrupted.h"
#include "merge/record/session_writer.h"

namespace trapline::record {

DiskSync::DiskSync(Folder session, std::vector<Folder> folders)
    : session_(std::move(session)), folders_(std::move(folders)) {
  thread_ = std::jthread([this](const std::stop_token& stopped) { run(stopped); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return thread_id_ != 0; });
}

void DiskSync::ask(SyncJob job) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_) job.texts.merge(waiting_->texts);
    waiting_ = std::move(job);
  }
  changed_.notify_all();
}

void DiskSync::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

std::optional<Error> DiskSync::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

std::vector<std::uint64_t> DiskSync::durable() const {
  const std::lock_guard lock(mutex_);
  return durable_;
}

void DiskSync::run(const std::stop_token& stopped) {
  std::unique_lock lock(mutex_);
  thread_id_ = ::gettid();
  changed_.notify_all();
  while (changed_.wait(lock, stopped, [this] { return waiting_.has_value(); })) {
    const SyncJob job = std::move(*waiting_);
    waiting_.reset();
    lock.unlock();
    carry_out(job);
    lock.lock();
  }
}

Result<void> DiskSync::sync_data(const SyncJob& job) {
  if (auto present = check_presence(session_); !present) return present;
  for (const int file : job.files) {
    if (uninterrupted([file] { return ::fdatasync(file); }) == 0) continue;
    return fail("{}: data could not be brought to the disk: {}", session_.path(),
                std::strerror(errno));
  }
  if (files_ == job.files.size()) return {};  // no new file since the last sync
  for (const Folder& folder : folders_)
    if (auto synced = folder.sync(); !synced) return synced;
  files_ = job.files.size();
  return {};
}

void DiskSync::carry_out(const SyncJob& job) {
  auto synced = sync_data(job);
  // Errors are ignored: on a nearly full disk the older small files stay, which is better than
  // none, and later jobs write them again.
  for (const auto& [name, text] : job.texts)
    (void)session_.replace(name, text, 0600, Durable::kYes);
  const std::lock_guard lock(mutex_);
  if (!error_ && !synced) error_ = std::move(synced).error();
  if (!error_) durable_ = job.sizes;
}

}  // namespace trapline::record
