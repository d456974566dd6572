#include "merge/analyze/guest_stacks.h"

#include <fmt/format.h>

#include <algorithm>

namespace trapline {

StackTree::StackTree(Names& names) : names_(&names), nodes_(1) { index_.add(hash(0, 0)); }

StackId StackTree::child(StackId caller, NameId function) {
  const std::uint32_t at = hash(caller, function);
  const std::uint32_t known = index_.find(at, [&](std::uint32_t i) {
    return i != kNoStack && nodes_[i].caller == caller && nodes_[i].function == function;
  });
  if (known != FlatIndex::kNone) return known;
  if (nodes_.size() >= kMost) return caller;
  nodes_.push_back({caller, function});
  index_.add(at);
  return static_cast<StackId>(nodes_.size() - 1);
}

// Looks in the cache by caller and address, and compares the name too, since the name of an address
// may change.
StackTree::Called StackTree::call(StackId caller, std::uint64_t address, std::string_view name) {
  Recent& recent = recent_[hash(caller, address) >> 24];
  if (recent.to != kNoStack && recent.caller == caller && recent.address == address &&
      recent.has_name != name.empty()) {
    const NameId function = innermost(recent.to);
    if (name.empty() || (*names_)[function] == name) return {recent.to, function};
  }
  const NameId function =
      name.empty() ? names_->id(fmt::format("{:#x}", address)) : names_->id(name);
  const StackId stack = child(caller, function);
  if (innermost(stack) == function) recent = {caller, stack, address, !name.empty()};
  return {stack, function};
}

StackId StackTree::with_innermost(StackId stack, NameId function) {
  for (StackId node = stack; node != kNoStack; node = nodes_[node].caller)
    if (nodes_[node].function == function) return node;
  return child(stack, function);
}

std::string StackTree::text(StackId stack) const {
  if (stack == kNoStack) return "-";
  // Each frame of a recursion is a stack of its own, so without this limit all texts together would
  // grow with the square of its depth.
  constexpr std::size_t kMostText = 8192;
  std::vector<NameId> functions;
  StackId node = stack;
  for (std::size_t size = 0; node != kNoStack && size < kMostText; node = nodes_[node].caller) {
    functions.push_back(nodes_[node].function);
    size += (*names_)[functions.back()].size() + 1;
  }
  std::string text = node == kNoStack ? "" : "[...]";
  for (auto function = functions.rbegin(); function != functions.rend(); ++function) {
    if (!text.empty()) text += ';';
    text += std::string_view((*names_)[*function]).substr(0, kMostText);
  }
  return text;
}

// Adds the time since the last mark to the innermost function, which the guest runs.
void GuestStacks::account(Thread& thread, Timestamp at) {
  Frames& frames = frames_of(thread);
  std::uint64_t ns = 0;
  if (on_thread_) {
    const auto guest = thread.time.take_guest(at);
    if (!guest) return account_thread(thread, at);
    ns = *guest;
    if (!frames.empty()) thread.totals.guest_ns += ns;
  } else {
    if (thread.in_guest) ns = elapsed(thread.mark, at);
    thread.mark = std::max(thread.mark, at);
  }
  if (frames.empty()) return;
  frames.back().own.guest_ns += ns;
  times(innermost(frames.back().stack)).guest_ns += ns;
  times_of(frames.back().stack).guest_ns += ns;
}

// Does what account() does, without exits: the thread's own events, not exits, show how
// its time was spent.
void GuestStacks::account_thread(Thread& thread, Timestamp at) {
  const OwnTime own = thread.time.take(at);
  Frames& frames = frames_of(thread);
  if (frames.empty()) return;
  frames.back().own.add(own);
  GuestFunctionTimes& function = times(innermost(frames.back().stack));
  function.add(own);
  function.vmm_events += own.vmm_events;
  function.devices_at_most_ns += own.devices_at_most_ns;
  thread.totals.GuestTime::add(own);
}

// Ends the calls at `depth` and deeper. Only the call at `depth` itself can have returned.
void GuestStacks::cut(Frames& frames, std::uint32_t depth, const Event& event, std::uint64_t task,
                      bool is_return) {
  for (; !frames.empty() && frames.back().depth >= depth; frames.pop_back()) {
    Frame& frame = frames.back();
    if (!keep_calls_ || !frame.seen) continue;
    const bool complete = is_return && frame.depth == depth;
    if (on_thread_ && frame.losses != losses_) frame.own.cut = true;
    // The end given to finish() is the host's, and may be before the guest's last records.
    ended_.push_back({event.thread, event.machine, task, frame.stack, frame.depth, frame.begin,
                      std::max(frame.begin, event.at), complete, frame.own});
    counters_.without_return += complete ? 0 : 1;
    counters_.cut_by_loss += frame.own.cut ? 1 : 0;
  }
}

// Makes `task` the one that the thread runs; false if there are too many tasks.
bool GuestStacks::give_to(Thread& thread, std::uint64_t task) {
  if (tasks_.size() >= kMostThreads && !tasks_.contains(task)) return false;
  thread.task = task;
  thread.task_frames = &tasks_[task];
  return true;
}

void GuestStacks::on_call(const Event& event, const GuestCall& call) {
  ++records_;
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr) return;
  account(*thread, event.at);
  thread->machine = event.machine;
  VcpuTotals& totals = thread->totals;
  totals.vcpu = totals.exits == 0 || totals.vcpu == call.vcpu ? call.vcpu : kNoVcpu;
  totals.source = event.source;
  std::uint64_t task = 0;
  if (call.task != 0) {
    task = std::uint64_t{event.source} << 32 | static_cast<std::uint32_t>(call.task);
    if (call.off_cpu && call.entry) {  // the task leaves, or has moved to another CPU already
      if (thread->task == task) thread->task = 0;
      return;
    }
    if (thread->task != task && !give_to(*thread, task)) return;
    if (call.off_cpu) return;
  }
  Frames& frames = task == 0 ? thread->frames : *thread->task_frames;
  const std::uint32_t depth = std::min<std::uint32_t>(call.depth, kMostDepth);
  cut(frames, depth, event, task, !call.entry);
  if (!call.entry) return;
  const StackId caller = frames.empty() ? kNoStack : frames.back().stack;
  // If calls between the innermost frame and this one were not recorded, one frame stands for all
  // of them, and their time counts as that of the caller.
  const std::uint32_t next = frames.empty() ? 0 : frames.back().depth + 1;
  if (next < depth && (frames.empty() || frames.back().seen))
    frames.push_back({caller, next, false, {}, losses_, {}});
  const auto [stack, function] = stacks_.call(caller, call.function, call.name);
  frames.push_back({stack, depth, true, event.at, losses_, {}});
  ++times(function).calls;
  ++totals.exits;
  ++counters_.calls;
  if (keep_calls_)
    begun_ = {event.thread, event.machine, task, stack, depth, event.at, event.at, false, {}};
}

void GuestStacks::finish(Timestamp at) {
  ended_.clear();
  begun_.reset();
  Event event;
  event.at = at;
  for (auto& entry : threads_.entries())
    if (on_thread_) account_thread(entry.state, at);
  for (auto& [thread, state] : threads_.entries()) {
    event.thread = thread;
    event.machine = state.machine;
    cut(state.frames, 0, event, 0, false);
  }
  std::unordered_map<std::uint64_t, MachineId> machines;  // by source
  std::unordered_map<std::uint64_t, ThreadId> last;       // by task
  for (const auto& [thread, state] : threads_.entries()) {
    machines[state.totals.source] = state.machine;
    last[state.task] = thread;
  }
  for (auto& [task, frames] : tasks_) {
    const auto thread = last.find(task);
    event.thread = thread == last.end() ? ThreadId{} : thread->second;
    if (const auto machine = machines.find(task >> 32); machine != machines.end())
      event.machine = machine->second;
    cut(frames, 0, event, task, false);
  }
}

void GuestStacks::on(const Event& event, ThreadChanges changes) {
  ended_.clear();
  begun_.reset();
  if (const auto* call = std::get_if<GuestCall>(&event.payload)) return on_call(event, *call);
  if (std::holds_alternative<KvmExit>(event.payload)) {
    Thread* thread = threads_.find(event.thread);
    if (thread == nullptr) return;
    account(*thread, event.at);
    thread->in_guest = false;
  } else if (std::holds_alternative<KvmEntry>(event.payload)) {
    Thread* thread = threads_.get(event.thread, kMostThreads);
    if (thread == nullptr) return;
    thread->in_guest = true;
    thread->mark = event.at;
  } else if (std::holds_alternative<Lost>(event.payload)) {
    // Calls and returns, or an exit, may be lost, so nothing is known until the next entry or the
    // thread's next event.
    ++losses_;
    threads_.lose([&](Thread& lost) {
      lost.in_guest = false;
      if (on_thread_) lost.time.on_loss(event.at);
    });
  }
  if (on_thread_) return;
  for (const ThreadChange& change : changes) {
    if (!change.leaves()) continue;
    Thread* thread = threads_.find(change.thread);  // kvm_exit may come when the thread is back
    if (thread == nullptr) return;
    account(*thread, change.at);
    thread->in_guest = false;
  }
}

void GuestStacks::on_host(const Event& event, ThreadChanges changes, const VmmEvent* vmm_event) {
  for (const ThreadChange& change : changes)
    if (Thread* thread = threads_.find(change.thread)) thread->time.on(change);
  Thread* thread = vmm_event == nullptr ? nullptr : threads_.find(event.thread);
  if (thread != nullptr) thread->time.on_vmm_event(event.at, *vmm_event);
}

std::vector<VcpuTotalsOf> GuestStacks::vcpus() const {
  std::vector<VcpuTotalsOf> vcpus;
  for (const auto& [thread, state] : threads_.entries()) {
    // Skips threads without calls, which `exits` counts here: QEMU's main thread only writes the
    // returns of the calls that are open at its end.
    if (state.totals.exits != 0) vcpus.push_back({thread, state.totals});
  }
  return vcpus;
}

void GuestStacks::on_span(const ExitSpan& span, StackId stack) {
  if (stack == kNoStack) return;
  GuestFunctionTimes& function = times(innermost(stack));
  ++function.exits;
  function.add({0, span.parts});
  times_of(stack).add({0, span.parts});
  Thread* thread = keep_calls_ ? threads_.find(span.thread) : nullptr;
  if (thread == nullptr) return;
  Frames& frames = frames_of(*thread);
  if (frames.empty()) return;
  for (std::size_t i = 0; i < kParts; ++i) frames.back().own.parts[i] += span.parts[i];
}

StackId GuestStacks::stack_of(ThreadId thread) const {
  const Thread* state = threads_.find(thread);
  if (state == nullptr) return kNoStack;
  const Frames& frames = frames_of(*state);
  return frames.empty() ? kNoStack : frames.back().stack;
}

}  // namespace trapline
