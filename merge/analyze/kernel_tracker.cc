#include "merge/analyze/kernel_tracker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "merge/model/kernel_events.h"

namespace trapline {

std::string kernel_work_text(KernelWork work, std::string_view name) {
  switch (work) {
    case KernelWork::kAfter:
      return fmt::format("after {}", name);
    case KernelWork::kHandler:
      return std::string(name);
    case KernelWork::kFunction:
      return fmt::format("{}()", name);
    case KernelWork::kUntraced:
      break;
  }
  return "untraced";
}

// Finds the type by the event's name. If the event has no name, as in some recordings in text form,
// the type is kNothing.
KernelTracker::Type KernelTracker::look_up(const Event& event) {
  const std::string name = event_name_(event);
  for (const events::Work& work : events::kWorks) {
    if (!name.starts_with(work.prefix)) continue;
    for (const auto& [suffix, kind] :
         {std::pair(work.begin, Type::Kind::kBegin), std::pair(work.end, Type::Kind::kEnd)}) {
      if (!name.ends_with(suffix)) continue;
      const std::string rest =
          name.substr(work.prefix.size(), name.size() - work.prefix.size() - suffix.size());
      if (!work.is_named && !rest.empty()) continue;
      return {kind, names_.id(std::string(work.title) + rest)};
    }
  }
  const std::string_view event_name = std::string_view(name).substr(name.find(':') + 1);
  if (event_name.empty()) return {Type::Kind::kNothing, kNoName};
  return {Type::Kind::kInstant, names_.id(event_name)};
}

KernelTracker::Type KernelTracker::type_of(const Event& event) {
  const auto* host = std::get_if<HostEvent>(&event.payload);
  if (host != nullptr && host->step >= HostStep::kIrqBegin && host->step <= HostStep::kSoftirqEnd) {
    const auto number = static_cast<std::uint32_t>(host->number);
    const bool begins = host->step == HostStep::kIrqBegin || host->step == HostStep::kSoftirqBegin;
    const bool hard = host->step <= HostStep::kIrqEnd;
    return {begins ? Type::Kind::kBegin : Type::Kind::kEnd,
            names_.id(hard ? fmt::format("interrupt {}", number) : softirq_text(number))};
  }
  if (event.source >= types_.size()) types_.resize(event.source + std::size_t{1});
  std::vector<Type>& types = types_[event.source];
  if (event.type >= types.size()) types.resize(event.type + std::size_t{1});
  if (types[event.type].kind == Type::Kind::kNew) types[event.type] = look_up(event);
  return types[event.type];
}

void KernelTracker::begin(Thread& thread, Timestamp at) {
  thread.exit = at;
  thread.pieces.clear();
  std::erase_if(thread.open, [](const Open& one) { return one.depth == Open::kHandler; });
  thread.last = kNoName;
  thread.last_at = at;
  add(thread, at);
}

// Adds a piece: what the thread does from now on.
void KernelTracker::add(Thread& thread, Timestamp at) {
  if (!thread.in_exit || thread.pieces.size() > kMostPieces) return;
  if (thread.pieces.size() == kMostPieces) {
    thread.pieces.push_back({at, at, KernelWork::kUntraced, kNoName, 0});
  } else if (!thread.open.empty()) {
    const Open& inner = thread.open.back();
    const bool handler = inner.depth == Open::kHandler;
    thread.pieces.push_back(
        {at, at, handler ? KernelWork::kHandler : KernelWork::kFunction, inner.name, inner.stack});
  } else {
    const KernelWork work = thread.last == kNoName ? KernelWork::kUntraced : KernelWork::kAfter;
    thread.pieces.push_back({at, thread.last_at, work, thread.last, 0});
  }
}

void KernelTracker::open(Thread& thread, NameId name, std::int32_t depth) {
  const KernelWork work = depth == Open::kHandler ? KernelWork::kHandler : KernelWork::kFunction;
  const KernelStackId parent = thread.open.empty() ? 0 : thread.open.back().stack;
  const KernelStackId stack = number_of({parent, name, work});
  thread.open.push_back({name, depth, stack});
}

KernelStackId KernelTracker::number_of(const KernelFrame& frame) {
  if (const auto known = numbers_.find(frame); known != numbers_.end()) return known->second;
  if (frames_.size() >= kMostFrames) return 0;
  frames_.push_back(frame);
  return numbers_[frame] = static_cast<KernelStackId>(frames_.size() - 1);
}

NameId KernelTracker::function_of(const Event& event, std::uint64_t address) {
  const std::pair key{event.source, address};
  if (const auto known = functions_.find(key); known != functions_.end()) return known->second;
  if (functions_.size() >= kMostFunctions) return Names::kOther;
  std::string name = function_ ? function_(event) : std::string();
  if (name.empty()) name = fmt::format("{:#x}", address);
  return functions_[key] = names_.id(name);
}

// The call's depth shows which open functions have returned, even if their returns were not
// recorded.
void KernelTracker::on_function(const Event& event, const HostEvent& call) {
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr || call.number < 0) return;
  const NameId name = function_of(event, call.address);
  const auto deeper = [&](const Open& one) { return one.depth >= call.number; };
  const auto first = std::ranges::find_if(thread->open, deeper);
  if (call.step == HostStep::kFunctionBegin) {
    thread->open.erase(first, thread->open.end());
    if (thread->open.size() < kMostOpen) open(*thread, name, call.number);
  } else {
    if (first == thread->open.end() || first->depth != call.number || first->name != name) return;
    thread->open.erase(first, thread->open.end());
  }
  add(*thread, event.at);
}

void KernelTracker::on_type(Thread& thread, const Event& event, const Type& type) {
  switch (type.kind) {
    case Type::Kind::kBegin:
      if (thread.open.size() >= kMostOpen) return;
      open(thread, type.name, Open::kHandler);
      break;
    case Type::Kind::kEnd: {
      const auto found = std::find_if(
          thread.open.rbegin(), thread.open.rend(),
          [&](const Open& one) { return one.depth == Open::kHandler && one.name == type.name; });
      if (found == thread.open.rend()) return;
      thread.open.erase(found.base() - 1, thread.open.end());
      break;
    }
    case Type::Kind::kInstant:
      if (!thread.open.empty()) return;  // the time belongs to the handler or the function
      thread.last = type.name;
      thread.last_at = event.at;
      break;
    case Type::Kind::kNew:
    case Type::Kind::kNothing:
      return;
  }
  add(thread, event.at);
}

void KernelTracker::on(const Event& event, ThreadChanges changes, const ExitTracker& exits) {
  if (are_loss(changes)) {
    // Functions may have returned unseen.
    threads_.lose([](Thread& thread) {
      std::erase_if(thread.open, [](const Open& one) { return one.depth != Open::kHandler; });
    });
    return;
  }
  const auto* host = std::get_if<HostEvent>(&event.payload);
  if (host != nullptr &&
      (host->step == HostStep::kFunctionBegin || host->step == HostStep::kFunctionEnd))
    return on_function(event, *host);
  const auto vcpu = exits.state(event.thread);
  if (!vcpu) return;
  using Where = VcpuState::Where;
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr) return;
  const bool was_in_exit =
      std::exchange(thread->in_exit, vcpu->where == Where::kKernel || vcpu->where == Where::kUser);
  if (!thread->in_exit) return;
  if (!was_in_exit || thread->exit != vcpu->begin) begin(*thread, vcpu->begin);
  const bool leaves = !changes.empty() && changes.front().leaves();
  if (leaves || is_any_of<KvmExit, Marker>(event.payload)) return;
  if (std::holds_alternative<IoctlEnter>(event.payload)) {
    if (!thread->open.empty()) return;
    thread->last = kNoName;
    thread->last_at = event.at;
    return add(*thread, event.at);
  }
  on_type(*thread, event, type_of(event));
}

void KernelTracker::add_share(const Piece& piece, std::uint64_t ns) {
  if (ns == 0) return;
  const auto [place, is_new] =
      share_of_.try_emplace({piece.work, piece.name, piece.stack}, shares_.size());
  if (is_new) shares_.push_back({piece.work, piece.name, piece.stack, 0, 0, 0});
  KernelShare& share = shares_[place->second];
  ++share.pieces;
  share.ns += ns;
  share.max_ns = std::max(share.max_ns, ns);
}

NameId KernelTracker::function() const {
  std::map<NameId, std::uint64_t> own;
  for (const KernelShare& share : shares_)
    if (share.work == KernelWork::kFunction) own[share.name] += share.ns;
  const auto most =
      std::ranges::max_element(own, {}, [](const auto& function) { return function.second; });
  return most == own.end() ? kNoName : most->first;
}

void KernelTracker::on_exit(const ExitSpan& exit) {
  shares_.clear();
  share_of_.clear();
  std::uint64_t rest = exit.parts[static_cast<std::size_t>(Part::kKernel)];
  const Thread* thread = threads_.find(exit.thread);
  static const std::vector<Piece> kNone;
  static constexpr Piece kUntraced{{}, {}, KernelWork::kUntraced, kNoName, 0};
  const std::vector<Piece>& pieces = thread == nullptr ? kNone : thread->pieces;
  std::size_t at = 0;
  Timestamp from_user;  // the end of the last time in user space
  for (const PartInterval& interval : exit.intervals) {
    if (interval.part == Part::kUser) from_user = interval.end;
    if (interval.part != Part::kKernel) continue;
    Timestamp done = interval.begin;
    const auto take = [&](Timestamp until, const Piece& piece) {
      until = std::min(until, interval.end);
      if (until <= done) return;
      const std::uint64_t ns = std::min(elapsed(done, until), rest);
      add_share(piece, ns);
      rest -= ns;
      done = until;
    };
    while (at + 1 < pieces.size() && pieces[at + 1].begin <= interval.begin) ++at;
    for (std::size_t i = at; i < pieces.size() && done < interval.end; ++i) {
      const Piece& piece = pieces[i];
      take(piece.begin, kUntraced);
      const Timestamp until = i + 1 < pieces.size() ? pieces[i + 1].begin : interval.end;
      // An event before the time in user space shows nothing about the kernel's time after it.
      const bool stale = piece.work == KernelWork::kAfter && piece.since < from_user;
      take(until, stale ? kUntraced : piece);
    }
    take(interval.end, kUntraced);
  }
  add_share(kUntraced, rest);
}

}  // namespace trapline
