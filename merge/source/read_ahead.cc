#include "merge/source/read_ahead.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "merge/source/forwarding_source.h"

namespace trapline {
namespace {

// Large enough that a wake-up costs little, and small enough for a core's own cache. The thread that
// is ahead by all of them goes on where half of them are taken.
constexpr std::size_t kEventsPerBatch = 512, kBatches = 16;
constexpr std::size_t kMostThreads = 8;  // a MiB of batches each

struct Batch {
  std::vector<Event> events = std::vector<Event>(kEventsPerBatch);
  std::size_t size = 0;
  bool last = false;
  std::exception_ptr failed;                 // what ended it, if anything did
  std::vector<KeptBuffers::Buffer> buffers;  // no later batch points into them
  // Of the source, once the batch was full.
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
  // Known once all was read.
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> event_counts() const override {
    if (!ended_) return {};
    return source_->event_counts();
  }

 private:
  void start();
  void stop();
  bool take_batch();
  void wait_for_batch();
  void read();
  void fill(Batch& batch);

  std::unique_ptr<KeptBuffers> kept_;  // the thread's, as the source's next() is
  Batch before_;  // in hand before the first one; the only one without a thread
  std::array<Batch, kBatches> batches_;
  Batch* in_hand_ = &before_;
  std::size_t at_ = 0;
  bool ended_ = false, alone_ = false;
  Result<void> reading_;

  std::mutex mutex_;
  std::condition_variable filled_, freed_;
  std::uint64_t full_ = 0, taken_ = 0;  // batches: those from taken_ to full_ wait or are in hand
  bool stop_ = false;
  std::thread thread_;
};

// Where no thread can be had, whoever takes the events fills the batches.
void ReadAhead::start() {
  // Signals are for the threads that wait for them.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { read(); });
  } catch (const std::system_error&) {
    alone_ = true;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
  if (in_hand_ != &before_ && full_ - ++taken_ == kBatches / 2) freed_.notify_one();
  filled_.wait(lock, [this] { return full_ > taken_; });
  in_hand_ = &batches_[taken_ % kBatches];
}

void ReadAhead::read() {
  for (bool last = false; !last;) {
    std::unique_lock lock(mutex_);
    if (full_ - taken_ == kBatches)
      freed_.wait(lock, [this] { return stop_ || full_ - taken_ <= kBatches / 2; });
    if (stop_) return;
    Batch& batch = batches_[full_ % kBatches];
    lock.unlock();
    fill(batch);
    last = batch.last;
    lock.lock();
    ++full_;
    filled_.notify_one();
  }
}

void ReadAhead::fill(Batch& batch) {
  kept_->free(std::exchange(batch.buffers, {}));
  batch.size = 0;
  try {
    while (batch.size < kEventsPerBatch && !batch.last) {
      if (source_->next(batch.events[batch.size]) == Read::kEvent) {
        ++batch.size;
      } else {
        batch.last = true;
      }
    }
  } catch (...) {
    batch.failed = std::current_exception();
    batch.last = true;
  }
  batch.buffers = kept_->take_left();
  batch.counters = source_->counters();
  batch.progress = source_->progress();
}

}  // namespace

std::size_t most_read_ahead() {
  cpu_set_t cpus;
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) return kMostThreads;  // more than 1,024
  const auto count = static_cast<std::size_t>(CPU_COUNT(&cpus));
  return count == 1 ? 0 : std::min(count, kMostThreads);
}

std::unique_ptr<Source> read_ahead(std::unique_ptr<Source> source) {
  auto kept = std::make_unique<KeptBuffers>();
  if (!source->keep_buffers(*kept)) return source;
  return std::make_unique<ReadAhead>(std::move(source), std::move(kept));
}

}  // namespace trapline
