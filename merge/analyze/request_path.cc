#include "merge/analyze/request_path.h"

#include <algorithm>
#include <iterator>

namespace trapline {
namespace {

constexpr unsigned kEnough = 2;  // an address must be in the windows of this many notifies
// Limit for a notify's possible addresses: more are useless, and there are many queues.
constexpr std::size_t kMostAddresses = 256;

}  // namespace

void NotifyExits::on_write(const Event& event, ThreadId process, const KvmDetail& detail) {
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr || !thread->in_exit) return;
  thread->written = detail.data;
  Writes& of_process = writes_[process];
  if (of_process.writes.size() >= kMostWrites) {
    of_process.complete_from = of_process.writes.front().at;
    of_process.writes.pop_front();
  }
  of_process.writes.push_back({thread->exit, event.at, event.thread, detail.value, detail.data});
}

// Keeps those of the queue's possible addresses that were written to in `window`, since its
// previous notify. Returns false if none was, or if the window of the first notify has too many
// addresses.
bool NotifyExits::narrow(Queue& queue, const std::vector<const Write*>& window) {
  std::vector<std::uint64_t> written, both;  // each address once and in order
  for (const Write* write : window) written.push_back(write->address);
  std::ranges::sort(written);
  written.erase(std::unique(written.begin(), written.end()), written.end());
  const auto begin_anew = [&] {
    queue.addresses.clear();
    if (written.size() <= kMostAddresses) queue.addresses = written;
    queue.seen = queue.addresses.empty() ? 0 : 1;
    queue.missed = 0;
  };
  if (queue.seen == 0) {
    begin_anew();
    return queue.seen != 0;
  }
  std::ranges::set_intersection(queue.addresses, written, std::back_inserter(both));
  if (both.empty()) {
    // A notify without the address may be QEMU's own kick, which has no write. If several in a row
    // lack it, the guest has moved the device, and the search begins anew.
    if (queue.seen < kEnough || ++queue.missed >= kEnough) begin_anew();
    return false;
  }
  queue.addresses = std::move(both);
  queue.missed = 0;
  ++queue.seen;
  return true;
}

std::optional<NotifyExit> NotifyExits::find(Queue& queue, const std::vector<const Write*>& window) {
  const bool doubtful = queue.doubtful;
  queue.doubtful = false;
  if (window.empty()) return std::nullopt;
  if (!narrow(queue, window) || queue.seen < kEnough || queue.addresses.size() != 1) {
    ++ambiguous_;
    return std::nullopt;
  }
  const auto is_own = [&](const Write* write) { return write->address == queue.addresses[0]; };
  queue.doubtful = std::count_if(window.begin(), window.end(), is_own) > 1;
  if (doubtful) {
    ++ambiguous_;
    return std::nullopt;
  }
  const Write& own = **std::find_if(window.begin(), window.end(), is_own);
  return NotifyExit{own.exit, own.thread};
}

std::optional<NotifyExit> NotifyExits::on_notify(const Event& event, ThreadId process,
                                                 std::uint64_t vq, std::uint64_t n) {
  const std::pair key{process, vq};
  if (queues_.size() >= kMostQueues && !queues_.contains(key)) return std::nullopt;
  Queue& queue = queues_[key];
  const auto before = std::exchange(queue.last, event.at);
  const auto carries = [&](std::uint64_t value) {
    return value == KvmDetail::kNoData || (value & kNumber) == n;
  };
  const Thread* thread = threads_.find(event.thread);
  if (thread != nullptr && thread->in_exit) {
    if (thread->written && carries(*thread->written)) return NotifyExit{thread->exit, event.thread};
    return std::nullopt;
  }
  const Writes& of_process = writes_[process];
  if (!before || *before < of_process.complete_from) return std::nullopt;
  std::vector<const Write*> window;
  for (auto write = of_process.writes.rbegin();
       write != of_process.writes.rend() && write->at > *before; ++write) {
    if (carries(write->value)) window.push_back(&*write);
  }
  std::reverse(window.begin(), window.end());
  return find(queue, window);
}

void NotifyExits::on_hole() {
  threads_.clear();
  writes_.clear();
  for (auto& [key, queue] : queues_) {
    queue.last.reset();
    queue.doubtful = false;
  }
}

namespace {

bool is_notify(RequestStep step) {
  return step == RequestStep::kNotify || step == RequestStep::kDeferrableNotify;
}

}  // namespace

RequestStep RequestPath::step_of(NameId name) {
  if (name >= steps_.size()) {
    steps_.resize(name + 1, RequestStep::kUnknown);
    transfers_.resize(name + 1);
  }
  RequestStep& step = steps_[name];
  if (step == RequestStep::kUnknown) {
    step = request_step((*names_)[name]);
    transfers_[name] = request_transfer((*names_)[name]);
  }
  return step;
}

// Handles an event before RequestSpans does: notes which notify the thread now serves, in case the
// event begins a request, and starts to follow the interrupt of a deferred notify of the guest.
void RequestPath::before_spans(Thread& thread, RequestStep step, const Event& event,
                               ThreadId process) {
  if (step == RequestStep::kQueueNotify) {
    const auto vq = spans_.value_of(kRequestFields.queue),
               n = spans_.value_of(kRequestFields.queue_number),
               device = spans_.value_of(kRequestFields.device);
    thread.serves = device.value_or(0);
    thread.notified.reset();
    if (vq && n) thread.notified = exits_.on_notify(event, process, *vq, *n);
  }
  if (is_notify(step) || step == RequestStep::kPartOfNotify) return;
  thread.ended.clear();  // the end of a request and its notify are adjacent
  std::vector<RequestSpan> waiting = interrupts_->take(event.thread);
  if (step != RequestStep::kDeferredNotify) return;
  const auto vq = spans_.value_of(kRequestFields.queue);
  if (!vq) return;
  if (auto deferred = thread.deferred.extract(*vq)) waiting = std::move(deferred.mapped());
  interrupts_->on_notify(event, process, *vq, std::move(waiting));
}

// Keeps the ended request for the notify that follows, or passes the kept ones on with a notify.
void RequestPath::after_spans(Thread& thread, RequestStep step, const Event& event,
                              ThreadId process, const RequestSpan* ended) {
  if (step == RequestStep::kDevice && ended != nullptr) {
    thread.ended_device = spans_.value_of(kRequestFields.device).value_or(0);
    if (thread.ended_device != 0) thread.ended.push_back(*ended);
    return;
  }
  if (!is_notify(step)) return;
  const auto vq = spans_.value_of(kRequestFields.queue),
             device = spans_.value_of(kRequestFields.device);
  std::vector<RequestSpan> requests;
  if (device && *device == thread.ended_device) requests = std::move(thread.ended);
  thread.ended.clear();
  if (ended != nullptr) requests.push_back(*ended);
  interrupts_->take(event.thread);
  if (!vq) return;
  if (step == RequestStep::kDeferrableNotify) {
    for (RequestSpan& request : requests) request.irqfd = true;
    // The notify may be deferred until the thread has finished a batch.
    if (thread.deferred.size() >= kMostDeferred) thread.deferred.clear();
    auto& deferred = thread.deferred[*vq];
    if (deferred.size() >= kMostDeferred) deferred.clear();
    deferred.insert(deferred.end(), requests.begin(), requests.end());
  }
  interrupts_->on_notify(event, process, *vq, std::move(requests));
}

void RequestPath::begin_transfer(NameId name, ThreadId process) {
  const RequestTransfer* transfer = transfers_[name];
  if (transfer == nullptr) return;
  const auto request = spans_.value_of(transfer->request),
             sector = spans_.value_of(transfer->sector),
             sectors = spans_.value_of(transfer->sectors);
  if (request && sector && sectors)
    blocks_.begin(process, *request, {transfer->write, *sector, *sectors});
}

const RequestSpan* RequestPath::on_marker(const Event& event, const Marker& marker, NameId name,
                                          ThreadId process) {
  spans_.look_at(marker);
  const RequestStep step = step_of(name);
  // Most markers are accesses to devices, which are only a part of a notify.
  if (step == RequestStep::kPartOfNotify && !spans_.looks_at(name)) return nullptr;
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr || event.at < hole_end_) return spans_.on(event, name, process);
  before_spans(*thread, step, event, process);
  std::optional<NotifyExit> notified;
  if (step == RequestStep::kQueueNotify ||
      (step == RequestStep::kDevice && thread->serves != 0 &&
       spans_.value_of(kRequestFields.device) == thread->serves)) {
    notified = thread->notified;
  }
  const RequestSpan* ended = spans_.on(event, name, process, notified);
  if (ended != nullptr) {
    done_ = *ended;
    done_.block = blocks_.end(process_or_thread(done_.process, done_.thread), done_.value);
    ended = &done_;
  }
  begin_transfer(name, process_or_thread(process, event.thread));
  after_spans(*thread, step, event, process, ended);
  return ended;
}

}  // namespace trapline
