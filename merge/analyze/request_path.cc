#include "merge/analyze/request_path.h"

#include <algorithm>

namespace trapline {
namespace {

// Returns the thread if no event names the process.
ThreadId process_or_thread(ThreadId process, ThreadId thread) {
  return process == ThreadId{} ? thread : process;
}

bool is_notify(RequestStep step) {
  return step == RequestStep::kNotify || step == RequestStep::kDeferrableNotify;
}

}  // namespace

RequestPath::RequestPath(Names& names, RequestSpans spans, const VmmKnowledge& vmm)
    : names_(&names), spans_(std::move(spans)), vmm_(&vmm), fields_(vmm.request_fields()) {}

RequestStep RequestPath::step_of(NameId name) {
  if (name >= steps_.size()) {
    steps_.resize(name + 1, RequestStep::kUnknown);
    transfers_.resize(name + 1);
  }
  RequestStep& step = steps_[name];
  if (step == RequestStep::kUnknown) {
    step = vmm_->request_step((*names_)[name]);
    transfers_[name] = vmm_->transfer((*names_)[name]);
  }
  return step;
}

std::optional<std::uint64_t> RequestPath::field(std::string_view name) {
  std::uint64_t value = 0;
  if (!spans_.value_of(name, value)) return std::nullopt;
  return value;
}

void RequestPath::on_hole(const Lost& lost) {
  exits_.on_hole();
  deliveries_.on_hole();
  blocks_.on_hole();
  spans_.on_hole();
  threads_.clear();
  hole_end_ = std::max(hole_end_, lost.to);
}

std::span<const Delivered> RequestPath::on(const Event& event, ThreadChanges changes,
                                           ThreadId process) {
  if (const auto* lost = std::get_if<Lost>(&event.payload)) {
    on_hole(*lost);
    return {};
  }
  if (event.at < hole_end_) return {};
  for (const ThreadChange& change : changes) {
    Thread* thread = change.sleeps() ? threads_.find(change.thread) : nullptr;
    if (thread != nullptr) thread->clear();  // it waits for new work
  }
  if (std::holds_alternative<KvmEntry>(event.payload)) {
    if (Thread* thread = threads_.find(event.thread)) thread->clear();
  }
  if (const auto* block = std::get_if<BlockIo>(&event.payload)) {
    blocks_.on(event, *block, process_or_thread(process, event.thread));
    return {};
  }
  if (NotifyExits::looks_at(event.payload)) exits_.on(event, process);
  return deliveries_.on(event, changes, process);
}

// Notes what the event shows about the thread, for a request that it may begin.
void RequestPath::before_spans(Thread& thread, RequestStep step, const Event& event,
                               ThreadId process) {
  if (step == RequestStep::kQueueNotify) {
    const auto vq = field(fields_.queue), n = field(fields_.queue_number),
               device = field(fields_.device);
    thread.serves = device.value_or(0);
    thread.notified.reset();
    if (vq && n) thread.notified = exits_.on_notify(event, process, *vq, *n);
  }
  if (is_notify(step) || step == RequestStep::kPartOfNotify) return;
  thread.ended.clear();  // the end of a request and its notify are adjacent
  std::vector<RequestSpan> waiting = deliveries_.take(event.thread);
  if (step != RequestStep::kDeferredNotify) return;
  const auto vq = field(fields_.queue);
  if (!vq) return;
  if (auto deferred = thread.deferred.extract(*vq)) waiting = std::move(deferred.mapped());
  deliveries_.on_notify(event, process, *vq, std::move(waiting));
}

// Follows the ended request further.
void RequestPath::after_spans(Thread& thread, RequestStep step, const Event& event,
                              ThreadId process, const RequestSpan* ended) {
  if (step == RequestStep::kDevice && ended != nullptr) {
    thread.ended_device = field(fields_.device).value_or(0);
    if (thread.ended_device != 0) thread.ended.push_back(*ended);
    return;
  }
  if (!is_notify(step)) return;
  const auto vq = field(fields_.queue), device = field(fields_.device);
  std::vector<RequestSpan> requests;
  if (device && *device == thread.ended_device) requests = std::move(thread.ended);
  thread.ended.clear();
  if (ended != nullptr) requests.push_back(*ended);
  (void)deliveries_.take(event.thread);
  if (!vq) return;
  if (step == RequestStep::kDeferrableNotify) {
    for (RequestSpan& request : requests) request.irqfd = true;
    // The notify may be deferred until the thread has finished a batch.
    if (thread.deferred.size() >= kMostDeferred) thread.deferred.clear();
    auto& deferred = thread.deferred[*vq];
    if (deferred.size() >= kMostDeferred) deferred.clear();
    deferred.insert(deferred.end(), requests.begin(), requests.end());
  }
  deliveries_.on_notify(event, process, *vq, std::move(requests));
}

void RequestPath::begin_transfer(NameId name, ThreadId process) {
  const RequestTransfer* transfer = transfers_[name];
  if (transfer == nullptr) return;
  const auto request = field(transfer->request), sector = field(transfer->sector),
             sectors = field(transfer->sectors);
  if (request && sector && sectors)
    blocks_.begin(process, *request, {transfer->write, *sector, *sectors});
}

const RequestSpan* RequestPath::on_marker(const Event& event, const Marker& marker, NameId name,
                                          ThreadId process) {
  spans_.look_at(marker);
  const RequestStep step = step_of(name);
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr || event.at < hole_end_) return spans_.on(event, name, process);
  before_spans(*thread, step, event, process);
  std::optional<Timestamp> notified;
  if (step == RequestStep::kQueueNotify || (step == RequestStep::kDevice && thread->serves != 0 &&
                                            field(fields_.device) == thread->serves)) {
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
