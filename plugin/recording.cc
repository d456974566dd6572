#include "plugin/recording.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/guest_sync.h"
#include "backend_ftrace/sync.h"

namespace trapline {

Recording::Recording(const PluginOptions& options, const Architecture& arch,
                     std::optional<DirectoryWriter> directory, RecordClock clock, bool of_program)
    : options_(options),
      arch_(arch),
      directory_(std::move(directory)),
      clock_(clock),
      process_(of_program ? static_cast<std::uint32_t>(::getpid()) : 0) {
  start_ = clock_.now();
}

int Recording::file_of(std::uint32_t tid) {
  const auto known = files_.find(tid);
  if (known != files_.end()) return known->second.get();
  auto file = directory_->open_data(tid);
  if (!file) return -1;
  return files_.emplace(tid, std::move(*file)).first->second.get();
}

std::string Recording::id() const { return fmt::format("{}-{}", ::getpid(), start_); }

std::size_t Recording::append(std::uint32_t tid, std::span<const Record> records) {
  std::scoped_lock lock(mutex_);
  if (!directory_) return records.size_bytes();
  const std::size_t done = write_to_file(tid, records);
  if (done == records.size_bytes() && done != 0) commit();
  if (!directory_->keep_up()) last_error_ = EIO;
  return done;
}

// Moves the recording to its place, now that the first records are on the disk.
void Recording::commit() {
  if (!directory_->beside() || not_replaced_) return;
  auto done = directory_->commit();
  if (done) return;
  not_replaced_ = directory_->beside();
  std::fprintf(stderr, "trapline plugin: %s\n", done.error().message.c_str());
}

std::size_t Recording::write_to_file(std::uint32_t tid, std::span<const Record> records) {
  if (options_.limit != 0 && bytes_ + records.size_bytes() > options_.limit) {
    errno = EFBIG;
    last_error_ = EFBIG;
    return 0;
  }
  const int fd = file_of(tid);
  std::size_t done = 0;
  const auto* data = reinterpret_cast<const char*>(records.data());
  while (fd >= 0 && done < records.size_bytes()) {
    const ssize_t written = ::write(fd, data + done, records.size_bytes() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  bytes_ += done;
  if (done == records.size_bytes()) return done;
  last_error_ = errno != 0 ? errno : ENOSPC;
  if (!told_) {
    told_ = true;
    std::fprintf(stderr,
                 "trapline plugin: cannot write %s/%u.dat: %s; the guest goes on, lost records are "
                 "counted\n",
                 directory_->path().c_str(), tid, std::strerror(last_error_));
  }
  // Removes an incomplete record, which would misalign all later ones.
  struct stat status {};
  if (done % sizeof(Record) != 0 && ::fstat(fd, &status) == 0) {
    const off_t whole = status.st_size - status.st_size % static_cast<off_t>(sizeof(Record));
    if (::ftruncate(fd, whole) == 0) done -= done % sizeof(Record);
  }
  return done;
}

void Recording::release(std::uint32_t tid) {
  std::scoped_lock lock(mutex_);
  files_.erase(tid);
}

Task* Recording::task_for(unsigned vcpu, const StackKey& stack, std::uint64_t stack_pointer) {
  std::scoped_lock lock(mutex_);
  std::uint32_t tid = (vcpu + 1) * 100;
  std::string name = fmt::format("cpu{}", vcpu);
  if (options_.contexts == Contexts::kPrivilege) {
    tid += static_cast<std::uint32_t>(stack.level);
    name += " " + arch_.level_name(static_cast<unsigned>(stack.level), options_.level_names);
  } else if (options_.contexts == Contexts::kStack) {
    tid = next_stack_++;
    // uftrace shows only 15 characters.
    name = stack.block != 0 ? fmt::format("k-{:x}", stack_pointer >> 14 << 14 & 0xffffffffffff)
                            : fmt::format("u-{:x}", stack.space >> 12);
  } else if (process_ != 0) {
    tid = static_cast<std::uint32_t>(::gettid());
    name = fmt::format("{}", tid);
  }
  if (const auto known = by_tid_.find(tid); known != by_tid_.end()) return known->second;
  const std::size_t capacity = options_.buffer != 0 ? options_.buffer / sizeof(Record)
                               : options_.contexts == Contexts::kStack ? RecordBuffer::kSmall
                                                                       : RecordBuffer::kLarge;
  tasks_.push_back(std::make_unique<Task>(tid, *this, capacity));
  by_tid_[tid] = tasks_.back().get();
  if (directory_ && !(process_ != 0 ? directory_->add_thread(tid, process_, clock_.now())
                                    : directory_->add_task(tid, name, clock_.now())))
    last_error_ = EIO;
  if (markers_ != nullptr) markers_->add_task(tid, name);
  return tasks_.back().get();
}

// Limits the number of buffers and open files when every guest stack has a task.
void Recording::entered(unsigned vcpu, Task& task) {
  if (options_.contexts != Contexts::kStack) return;
  std::scoped_lock lock(mutex_);
  if (vcpu >= current_.size()) current_.resize(vcpu + 1);
  current_[vcpu] = &task;
  const auto known = std::find(active_.begin(), active_.end(), &task);
  if (known != active_.end()) {
    std::rotate(known, known + 1, active_.end());
    return;
  }
  active_.push_back(&task);
  if (active_.size() <= kActive) return;
  for (auto idle = active_.begin(); idle != active_.end(); ++idle) {
    if (std::find(current_.begin(), current_.end(), *idle) != current_.end()) continue;
    (*idle)->buffer.release();
    active_.erase(idle);
    return;
  }
}

void Recording::left_out(unsigned vcpu, std::uint64_t records) {
  std::scoped_lock lock(mutex_);
  const std::uint32_t tid = (vcpu + 1) * 100;
  if (left_out_ == 0)
    std::fprintf(stderr,
                 "trapline plugin: the guest has more than %zu stacks; calls on others are counted "
                 "as lost\n",
                 StackPool::kMostShared);
  left_out_ += records;
  if (!directory_) return;
  if (others_.insert(tid).second &&
      !directory_->add_task(tid, fmt::format("cpu{}", vcpu), clock_.now()))
    last_error_ = EIO;
  const Record lost(RecordType::kLost, clock_.now(), 0, records);
  (void)write_to_file(tid, {&lost, 1});
}

// Appends lines to sync.txt.
void Recording::append_sync(std::string_view lines) {
  std::scoped_lock lock(mutex_);
  const auto file = directory_->open_file("sync.txt");
  const int error = file ? write_bytes(file->get(), lines) : 0;
  if ((file && error == 0) || std::exchange(told_of_syncs_, true)) return;
  std::fprintf(stderr,
               "trapline plugin: cannot write %s/sync.txt: %s; the calls may not be placed on the "
               "host's clock\n",
               directory_->path().c_str(),
               file ? std::strerror(error) : file.error().message.c_str());
}

void Recording::write_sync() {
  if (!directory_) return;
  constexpr std::string_view kNames[] = {"mono", "boot", "real", "tsc"};
  std::string text =
      fmt::format("# clock: {}\n# run: {}\n", kNames[static_cast<unsigned>(options_.clock)], id());
  SyncSeries series;
  char record[kMaxSyncText];
  while (const std::size_t size = series.next(record)) {
    const std::uint64_t stamp = clock_.now();
    series.written();
    text += fmt::format("{} {}\n", stamp, std::string_view(record, size));
  }
  append_sync(text);
}

void Recording::write_vcpu(unsigned vcpu) {
  if (!directory_ || process_ != 0) return;  // a program's tasks are its threads
  append_sync(fmt::format("# thread: cpu{} {}\n", vcpu, ::gettid()));
}

void Recording::write_guest_syncs(std::span<const StampedSync> syncs) {
  if (!directory_) {
    if (!syncs.empty() && !std::exchange(told_of_syncs_, true))
      std::fputs(
          "trapline plugin: what the guest says of its clocks is for a directory's sync.txt; "
          "output=both keeps it\n",
          stderr);
    return;
  }
  std::string text;
  std::scoped_lock lock(mutex_);
  for (const StampedSync& sync : syncs) {
    const auto record = guest_sync_of(sync.operands, arch_.counter);
    if (!record) continue;
    if (++guest_syncs_ > kMaxGuestSyncs) break;
    text += fmt::format("{} {}\n", sync.stamp, format_guest_sync(*record));
  }
  if (guest_syncs_ == kMaxGuestSyncs + 1)
    std::fprintf(stderr,
                 "trapline plugin: the guest executed %llu sync records; more are ignored\n",
                 static_cast<unsigned long long>(kMaxGuestSyncs));
  if (!text.empty()) append_sync(text);
}

void Recording::before_fork() {
  std::scoped_lock lock(mutex_);
  if (directory_) commit();  // the child must find the directory in its final place
}

// Forgets the records that the tasks have not written yet: the parent will write them.
void Recording::forked() {
  const std::uint32_t parent = std::exchange(process_, static_cast<std::uint32_t>(::getpid()));
  is_child_ = true;
  tasks_.clear();
  by_tid_.clear();
  files_.clear();
  active_.clear();
  current_.clear();
  others_.clear();
  left_out_ = 0;
  bytes_ = 0;
  start_ = clock_.now();
  if (directory_ && !directory_->forked(process_, parent, start_)) last_error_ = EIO;
}

void Recording::write_symbols(const SymbolFiles& symbols) {
  std::scoped_lock lock(mutex_);
  if (directory_ && !directory_->write_symbols(symbols)) last_error_ = EIO;
}

void Recording::finish(bool guest_ran) {
  std::scoped_lock lock(mutex_);
  clock_.adjust();
  if (!is_child_) write_sync();
  if (directory_ && !directory_->finish(clock_.now() - start_)) last_error_ = EIO;
  files_.clear();
  if (!directory_ || !directory_->beside() || not_replaced_) return;
  if (guest_ran && last_error_ == 0) return commit();
  std::fprintf(stderr, "trapline plugin: nothing was recorded; %s is the earlier recording\n",
               directory_->path().c_str());
  directory_->discard();
}

}  // namespace trapline
