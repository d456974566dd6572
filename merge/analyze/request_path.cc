#include "merge/analyze/request_path.h"

#include <algorithm>

#include "merge/analyze/qemu_events.h"

namespace trapline {

RequestPath::RequestPath(Names& names, RequestSpans& spans) : names_(&names), spans_(&spans) {}

RequestPath::Kind RequestPath::kind_of(NameId name) {
  if (name >= kinds_.size()) kinds_.resize(name + 1, Kind::kUnknown);
  Kind& kind = kinds_[name];
  if (kind != Kind::kUnknown) return kind;
  const std::string_view text = (*names_)[name];
  const auto begins = [&](std::string_view with) { return text.starts_with(with); };
  if (text == "virtio_queue_notify") return kind = Kind::kQueueNotify;
  if (text == "virtio_notify" || text == "virtio_notify_irqfd") return kind = Kind::kNotify;
  if (text == "virtio_notify_irqfd_deferred_fn") return kind = Kind::kDeferredFn;
  // virtqueue_fill and _flush hand the request back; an MSI is a write to a memory region.
  if (begins("virtqueue_") || begins("memory_region_") || begins("kvm_")) {
    return kind = Kind::kPartOfNotify;
  }
  return kind = begins("virtio_") ? Kind::kVirtio : Kind::kOther;
}

std::optional<std::uint64_t> RequestPath::field(std::string_view text, std::string_view name) {
  std::uint64_t value = 0;
  if (!spans_->value_of(text, name, value)) return std::nullopt;
  return value;
}

void RequestPath::on_hole(const Lost& lost) {
  exits_.on_hole();
  deliveries_.on_hole();
  spans_->on_hole();
  for (auto& entry : threads_.entries()) entry.state = {};
  hole_end_ = std::max(hole_end_, lost.to);
}

std::span<const Delivered> RequestPath::on(const Event& event, ThreadId process) {
  if (const auto* lost = std::get_if<Lost>(&event.payload)) {
    on_hole(*lost);
    return {};
  }
  if (event.at < hole_end_) return {};
  const auto* sched = std::get_if<SchedSwitch>(&event.payload);
  if (sched != nullptr && !sched->runnable) {
    if (Thread* thread = threads_.find(sched->prev)) *thread = {};  // it waits for new work
  } else if (std::holds_alternative<KvmEntry>(event.payload)) {
    if (Thread* thread = threads_.find(event.thread)) *thread = {};
  }
  exits_.on(event, process);
  return deliveries_.on(event, process);
}

// What the event tells of the thread, for a request that it may begin.
void RequestPath::before_spans(Thread& thread, Kind kind, const Event& event, std::string_view text,
                               ThreadId process) {
  if (kind == Kind::kQueueNotify) {
    const auto vq = field(text, "vq"), n = field(text, "n"), device = field(text, "vdev");
    thread.serves = device.value_or(0);
    thread.notified.reset();
    if (vq && n) thread.notified = exits_.on_notify(event, process, *vq, *n);
  }
  if (kind == Kind::kNotify || kind == Kind::kPartOfNotify) return;
  thread.ended.clear();  // a request's end and the notify of it are next to each other
  std::vector<RequestSpan> waiting = deliveries_.take(event.thread);
  if (kind != Kind::kDeferredFn) return;
  const auto vq = field(text, "vq");
  if (!vq) return;
  if (const auto deferred = thread.deferred.find(*vq); deferred != thread.deferred.end()) {
    waiting = std::move(deferred->second);
    thread.deferred.erase(deferred);
  }
  deliveries_.on_notify(event, process, *vq, std::move(waiting));
}

// The ended request's way on.
void RequestPath::after_spans(Thread& thread, Kind kind, const Event& event, std::string_view text,
                              ThreadId process, const RequestSpan* ended) {
  if (kind == Kind::kVirtio && ended != nullptr) {
    thread.ended_device = field(text, "vdev").value_or(0);
    if (thread.ended_device != 0) thread.ended.push_back(*ended);
    return;
  }
  if (kind != Kind::kNotify) return;
  const auto vq = field(text, "vq"), device = field(text, "vdev");
  std::vector<RequestSpan> requests;
  if (device && *device == thread.ended_device) requests = std::move(thread.ended);
  thread.ended.clear();
  if (ended != nullptr) requests.push_back(*ended);
  (void)deliveries_.take(event.thread);
  if (!vq) return;
  if (text.substr(0, text.find(' ')) == "virtio_notify_irqfd") {
    // It may be put off until its thread is done with a batch.
    if (thread.deferred.size() >= kMostDeferred) thread.deferred.clear();
    auto& deferred = thread.deferred[*vq];
    if (deferred.size() >= kMostDeferred) deferred.clear();
    deferred.insert(deferred.end(), requests.begin(), requests.end());
  }
  deliveries_.on_notify(event, process, *vq, std::move(requests));
}

const RequestSpan* RequestPath::on_marker(const Event& event, const Marker& marker, NameId name,
                                          ThreadId process) {
  const std::string_view text = event_part(marker.text);
  const Kind kind = kind_of(name);
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr || event.at < hole_end_) return spans_->on(event, marker, name, process);
  before_spans(*thread, kind, event, text, process);
  std::optional<Timestamp> notified;
  if (kind == Kind::kQueueNotify ||
      (kind == Kind::kVirtio && thread->serves != 0 && field(text, "vdev") == thread->serves)) {
    notified = thread->notified;
  }
  const RequestSpan* ended = spans_->on(event, marker, name, process, notified);
  after_spans(*thread, kind, event, text, process, ended);
  return ended;
}

}  // namespace trapline
