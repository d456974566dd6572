#include "merge/render/page/worst_exits.h"

#include <algorithm>
#include <cstring>

namespace trapline::page {
namespace {

constexpr std::uint64_t kLeastContext = 50'000;  // ns
constexpr std::size_t kEventsAfter = 6;

std::uint64_t context_of(const ExitSpan& exit) { return std::max(kLeastContext, exit.total() / 4); }

bool longer(const std::shared_ptr<WorstExits::Capture>& a,
            const std::shared_ptr<WorstExits::Capture>& b) {
  return a->exit.total() > b->exit.total();
}

// Whether another thread's event tells of `thread`, or of what QEMU and KVM do meanwhile.
bool concerns(const WorstExits::Kept& kept, ThreadId thread) {
  return is_any_of<Marker, KvmIrq>(kept.event.payload) || kept.about == thread;
}

// The thread that the last event switched to or woke; nullopt for other events.
std::optional<ThreadId> switched_to(const Pipeline& pipeline) {
  const ThreadChanges changes = pipeline.changes();
  if (changes.empty() || changes.back().kind == ThreadChange::Kind::kMoves) return std::nullopt;
  return changes.back().thread;
}

std::string_view moved(std::string_view text, std::span<const std::byte> from,
                       std::span<const std::byte> to) {
  const auto* begin = reinterpret_cast<const char*>(from.data());
  const std::less_equal<const char*> before;
  if (!before(begin, text.data()) || !before(text.data() + text.size(), begin + from.size())) {
    return {};  // of the source's own memory: it may be gone
  }
  return {reinterpret_cast<const char*>(to.data()) + (text.data() - begin), text.size()};
}

// Copies the event's bytes and has its views point to the copy.
void copy(WorstExits::Kept& kept, const Event& event, std::uint64_t number) {
  const std::size_t size = event.raw.size();
  if (kept.raw.size() < size) kept.raw.resize(size);  // it does not shrink: rings use it again
  if (size != 0) std::memcpy(kept.raw.data(), event.raw.data(), size);
  kept.event = event;
  kept.event.raw = {kept.raw.data(), size};
  kept.number = number;
  if (std::string_view* text = text_of(kept.event.payload))
    *text = moved(*text, event.raw, kept.event.raw);
}

// The longest of the shares, in order of time.
std::vector<WaitShare> longest_of(std::span<const WaitShare> shares) {
  std::vector<WaitShare> kept(shares.begin(), shares.end());
  std::ranges::stable_sort(kept, std::greater(), &WaitShare::length);
  if (kept.size() > WorstExits::kMostWaits) kept.resize(WorstExits::kMostWaits);
  std::ranges::stable_sort(kept, {}, &WaitShare::begin);
  return kept;
}

}  // namespace

const std::vector<Dimension>& WorstExits::row() {
  static const std::vector<Dimension> kRow = {Dimension::kReason, Dimension::kDevice};
  return kRow;
}

WorstExits::WorstExits(const Exits& exits) : exits_(exits), keys_(row()) {}

WorstExits::Kept& WorstExits::keep(Ring& ring, std::size_t most, const Event& event) {
  if (ring.events.size() < most) ring.events.emplace_back();
  Kept& kept = ring.events[ring.next];
  copy(kept, event, ++ring.pushed);
  if (++ring.next == most) ring.next = 0;
  return kept;
}

void WorstExits::add_span(Thread& thread, const Near& span) {
  if (thread.spans.size() < kSpanRing) thread.spans.emplace_back();
  thread.spans[thread.next_span] = span;
  if (++thread.next_span == kSpanRing) thread.next_span = 0;
  for (const Pointer& capture : thread.open) {
    if (capture->spans.size() < kMostSpans && span.begin <= capture->to) {
      capture->spans.push_back(span);
    }
  }
}

void WorstExits::go_on(Thread& thread, const Event& event) {
  std::erase_if(thread.open, [&](const Pointer& capture) {
    if (event.at > capture->to || capture->after >= kEventsAfter) {
      capture->to = std::min(capture->to, event.at);
      return true;
    }
    copy(capture->events.emplace_back(), event, 0);
    ++capture->after;
    return false;
  });
}

void WorstExits::event(const Event& event, const Pipeline& pipeline) {
  if (std::holds_alternative<Lost>(event.payload)) return;
  if (is_guest(event.machine)) {  // shown beside the vCPU that ran it; its payload is the guest's
    if (Thread* thread = threads_.find(event.thread)) {
      keep(thread->ring, kThreadRing, event);
      if (!thread->open.empty()) go_on(*thread, event);
    }
    return;
  }
  if (const GuestRun* run = pipeline.exits().guest_run()) {
    if (Thread* thread = threads_.get(run->thread, kMostThreads)) {
      add_span(*thread, {Kind::kGuest, run->begin, run->end});
    }
  }
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr && (std::holds_alternative<KvmExit>(event.payload) ||
                            std::holds_alternative<KvmUserspaceExit>(event.payload))) {
    thread = threads_.get(event.thread, kMostThreads);
  }
  if (thread != nullptr) {
    keep(thread->ring, kThreadRing, event);
    const bool begins = pipeline.exits().model().from_userspace_exit
                            ? std::holds_alternative<KvmUserspaceExit>(event.payload)
                            : std::holds_alternative<KvmExit>(event.payload);
    if (begins) thread->exit_began = thread->ring.pushed;
    if (!thread->open.empty()) go_on(*thread, event);
    return;
  }
  const std::optional<ThreadId> about = switched_to(pipeline);
  if (about || is_any_of<Marker, KvmIrq>(event.payload))
    keep(others_, kOtherRing, event).about = about.value_or(ThreadId{-1});
}

WorstExits::Pointer WorstExits::capture(Thread& thread, const ExitSpan& exit,
                                        const Pipeline& pipeline) {
  auto made = std::make_shared<Capture>();
  made->exit = exit;
  made->exit.intervals = {};
  made->exit.handlers = {};
  made->stack = pipeline.stack_of(exit);
  made->waits = longest_of(pipeline.waits()->shares());
  const std::uint64_t context = context_of(exit);
  made->from = Timestamp(exit.start.ns() > context ? exit.start.ns() - context : 0);
  made->to = Timestamp(exit.end.ns() + context);
  for (const Near& span : thread.spans) {
    if (span.end > made->from) made->spans.push_back(span);
  }
  std::ranges::stable_sort(made->spans, {}, &Near::begin);
  std::uint64_t inside = 0;
  for (const Kept& kept : thread.ring.events) {
    if (kept.event.at < made->from) continue;
    inside += kept.number >= thread.exit_began ? 1 : 0;
    copy(made->events.emplace_back(), kept.event, 0);
  }
  const std::uint64_t all = thread.ring.pushed + 1 - thread.exit_began;
  made->left_out = all > inside ? all - inside : 0;
  for (const Kept& kept : others_.events) {
    if (kept.event.at < made->from || !concerns(kept, exit.thread)) continue;
    if (made->events.size() >= kMostEvents) {
      ++made->left_out;
    } else {
      copy(made->events.emplace_back(), kept.event, 0);
    }
  }
  std::ranges::stable_sort(made->events, {}, [](const Kept& kept) { return kept.event.at; });
  return made;
}

// Its parts in their order, then QEMU's events; `visit` takes each.
template <typename Visit>
void each_span(const ExitSpan& exit, Visit&& visit) {
  using Kind = WorstExits::Kind;
  for (const PartInterval& interval : exit.intervals) {
    visit(WorstExits::Near{static_cast<Kind>(static_cast<std::uint8_t>(interval.part) + 1),
                           interval.begin, interval.end});
  }
  for (const HandlerEvent& handler : exit.handlers) {
    visit(WorstExits::Near{Kind::kHandler, handler.at, handler.at,
                           handler.region != kNoName ? handler.region : handler.event});
  }
}

void WorstExits::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  Thread* thread = threads_.get(exit.thread, kMostThreads);
  if (thread == nullptr) return;
  const Pointer made = exit.halt ? nullptr : keep_if_long(*thread, exit, pipeline);
  std::size_t shown = 0;
  each_span(exit, [&](const Near& span) {
    if (++shown <= kSpanRing / 2) add_span(*thread, span);
  });
  if (made == nullptr) return;
  each_span(exit, [&](const Near& span) {
    if (made->spans.size() < kMostSpans) {
      made->spans.push_back(span);
    } else {
      ++made->left_out;
    }
  });
  if (thread->open.size() < kMostOpen) {
    thread->open.push_back(made);
  } else {
    made->to = exit.end;
  }
}

// The longest of the exit's row, nothing yet of a new one; nullptr where there is no room for it.
WorstExits::Pointer* WorstExits::row_of(const ExitSpan& exit, const Pipeline& pipeline) {
  const std::uint32_t combo = exits_.last;
  if (combo < known_rows_.size() && known_rows_[combo].known) return known_rows_[combo].longest;
  const GroupKey key = keys_.of(exit, kNoStack, pipeline.stacks());
  auto row = rows_.find(key);
  if (row == rows_.end() && rows_.size() < kMostRows) row = rows_.emplace(key, nullptr).first;
  Pointer* longest = row == rows_.end() ? nullptr : &row->second;
  if (combo == Combos::kOther) return longest;  // of many rows
  if (combo >= known_rows_.size()) known_rows_.resize(combo + 1);
  known_rows_[combo] = {true, longest};
  return longest;
}

// The capture where the exit is one of the longest, or its row's longest; else nothing.
WorstExits::Pointer WorstExits::keep_if_long(Thread& thread, const ExitSpan& exit,
                                             const Pipeline& pipeline) {
  const std::uint64_t total = exit.total();
  const bool among_longest = longest_.size() < kMost || total > longest_.front()->exit.total();
  Pointer* row = row_of(exit, pipeline);
  const bool longest_of_row = row != nullptr && (*row == nullptr || total > (*row)->exit.total());
  if (!among_longest && !longest_of_row) return nullptr;
  Pointer made = capture(thread, exit, pipeline);
  if (longest_of_row) *row = made;
  if (!among_longest) return made;
  if (longest_.size() >= kMost) {
    std::pop_heap(longest_.begin(), longest_.end(), longer);
    longest_.pop_back();
  }
  longest_.push_back(made);
  std::push_heap(longest_.begin(), longest_.end(), longer);
  return made;
}

std::vector<std::shared_ptr<const WorstExits::Capture>> WorstExits::sorted() const {
  std::vector<std::shared_ptr<const Capture>> all(longest_.begin(), longest_.end());
  for (const auto& [key, capture] : rows_) {
    if (std::find(all.begin(), all.end(), capture) == all.end()) all.push_back(capture);
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(b->exit.total(), a->exit.start) < std::pair(a->exit.total(), b->exit.start);
  });
  return all;
}

}  // namespace trapline::page
