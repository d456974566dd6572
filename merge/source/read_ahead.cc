#include "merge/source/read_ahead.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "backend_ftrace/base/blocked_signals.h"

namespace trapline {
namespace {

// Large enough to make a wake-up cheap, small enough for a core's own cache. A thread that has
// filled all batches continues when half of them have been taken.
constexpr std::size_t kEventsPerBatch = 512, kBatches = 16;
constexpr std::size_t kMostThreads = 8;  // each has a MiB of batches
// Limits, in bytes, for the buffers that batches hold: a batch ends at the first, and the thread
// waits at the second. If few events are wanted, each of them may hold a buffer.
constexpr std::size_t kMostBytesOfBatch = 1u << 20, kMostBytes = 8u << 20;

struct Batch {
  std::vector<Event> events = std::vector<Event>(kEventsPerBatch);
  std::size_t size = 0;
  bool last = false;
  std::exception_ptr failed;                 // the exception that ended the thread, if any
  std::vector<KeptBuffers::Buffer> buffers;  // no later batch points into them
  std::size_t bytes = 0;                     // size of these buffers
  // The source's counters when the batch was full.
  SourceCounters counters;
  double progress = 0;
};

class ReadAhead final : public ForwardingSource {
 public:
  ReadAhead(std::unique_ptr<Source> source, std::unique_ptr<KeptBuffers> kept)
      : ForwardingSource(std::move(source)), kept_(std::move(kept)) {}
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead() override { stop(); }

  [[nodiscard]] Read next(Event& event) override {
    if (at_ == in_hand_->size) [[unlikely]] {
      if (!take_batch()) return Read::kEnd;
    }
    event = in_hand_->events[at_++];
    return Read::kEvent;
  }
  [[nodiscard]] const Result<void>& status() const override {
    return ended_ ? source_->status() : reading_;
  }
  [[nodiscard]] SourceCounters counters() const override { return in_hand_->counters; }
  [[nodiscard]] double progress() const override { return in_hand_->progress; }
  // Complete only after everything was read.
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> event_counts() const override {
    if (!ended_) return {};
    return source_->event_counts();
  }

 private:
  void start();
  void stop();
  bool take_batch();
  void wait_for_batch();
  [[nodiscard]] bool has_room() const {
    return full_ - taken_ <= kBatches / 2 && held_ <= kMostBytes / 2;
  }
  void read();
  void fill(Batch& batch);

  std::unique_ptr<KeptBuffers> kept_;  // the thread's copy, like the source's next()
  Batch before_;  // the batch in use before the first one; the only one if there is no thread
  std::array<Batch, kBatches> batches_;
  Batch* in_hand_ = &before_;
  std::size_t at_ = 0;
  bool ended_ = false, alone_ = false;
  Result<void> reading_;

  std::mutex mutex_;
  std::condition_variable filled_, freed_;
  // Batch numbers: batches from taken_ to full_ wait or are in use; the buffers of those before
  // cleared_ are free.
  std::uint64_t full_ = 0, taken_ = 0, cleared_ = 0;
  std::size_t held_ = 0;  // bytes of the buffers of the batches from taken_ to full_
  bool waits_ = false, stop_ = false;
  std::thread thread_;
};

// Starts the thread. If none can be started, next() fills the batches itself.
void ReadAhead::start() {
  const BlockedSignals blocked;
  try {
    thread_ = std::thread([this] { read(); });
  } catch (const std::system_error&) {
    alone_ = true;
  }
}

void ReadAhead::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  freed_.notify_one();
  thread_.join();
}

bool ReadAhead::take_batch() {
  if (in_hand_->failed) std::rethrow_exception(in_hand_->failed);
  if (ended_) return false;
  if (in_hand_ == &before_ && !alone_) start();
  if (alone_) {
    kept_->free(std::exchange(before_.buffers, {}));
    fill(before_);
  } else {
    wait_for_batch();
  }
  at_ = 0;
  ended_ = in_hand_->last;
  if (ended_ && !alone_) thread_.join();
  return in_hand_->size != 0 || take_batch();
}

void ReadAhead::wait_for_batch() {
  std::unique_lock lock(mutex_);
  if (in_hand_ != &before_) {
    held_ -= in_hand_->bytes;
    ++taken_;
    if (waits_ && has_room()) freed_.notify_one();
  }
  filled_.wait(lock, [this] { return full_ > taken_; });
  in_hand_ = &batches_[taken_ % kBatches];
}

void ReadAhead::read() {
  for (bool last = false; !last;) {
    std::unique_lock lock(mutex_);
    if (full_ - taken_ == kBatches || held_ > kMostBytes) {
      waits_ = true;
      freed_.wait(lock, [this] { return stop_ || has_room(); });
      waits_ = false;
    }
    if (stop_) return;
    for (; cleared_ < taken_; ++cleared_)
      kept_->free(std::exchange(batches_[cleared_ % kBatches].buffers, {}));
    Batch& batch = batches_[full_ % kBatches];
    lock.unlock();
    fill(batch);
    last = batch.last;
    lock.lock();
    held_ += batch.bytes;
    ++full_;
    filled_.notify_one();
  }
}

void ReadAhead::fill(Batch& batch) {
  batch.size = 0;
  try {
    while (batch.size < kEventsPerBatch && !batch.last && kept_->left_bytes() < kMostBytesOfBatch) {
      if (source_->next(batch.events[batch.size]) == Read::kEvent) {
        ++batch.size;
        kept_->count_event();
      } else {
        batch.last = true;
      }
    }
  } catch (...) {
    batch.failed = std::current_exception();
    batch.last = true;
  }
  batch.bytes = kept_->left_bytes();
  batch.buffers = kept_->take_left();
  batch.counters = source_->counters();
  batch.progress = source_->progress();
}

}  // namespace

KeptBuffers::Buffer KeptBuffers::exchange(Buffer buffer, std::uint64_t filled) {
  if (buffer.empty() || filled == events_) return buffer;
  left_bytes_ += buffer.size();
  left_.push_back(std::move(buffer));
  if (free_.empty()) return {};
  Buffer other = std::move(free_.back());
  free_.pop_back();
  return other;
}

void KeptBuffers::free(std::vector<Buffer> buffers) {
  for (Buffer& buffer : buffers) free_.push_back(std::move(buffer));
}

std::size_t most_read_ahead() {
  cpu_set_t cpus;
  // The process has more than 1,024 CPUs.
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) return kMostThreads;
  const auto count = static_cast<std::size_t>(CPU_COUNT(&cpus));
  return count == 1 ? 0 : std::min(count, kMostThreads);
}

std::unique_ptr<Source> read_ahead(std::unique_ptr<Source> source) {
  auto kept = std::make_unique<KeptBuffers>();
  if (!source->keep_buffers(*kept)) return source;
  return std::make_unique<ReadAhead>(std::move(source), std::move(kept));
}

}  // namespace trapline
