#include "merge/analyze/pipeline.h"

#include <limits>
#include <utility>
#include <variant>

#include "merge/analyze/kernel_tracker.h"
#include "merge/analyze/page_faults.h"
#include "merge/analyze/stall_tracker.h"

namespace trapline {
namespace {

SpanClass selection_of(const std::vector<SpanSink*>& sinks) {
  SpanClass all = SpanClass::kNone;
  for (const SpanSink* sink : sinks) all = all | sink->selects();
  return all;
}

Detail detail_of(SpanClass selected) {
  const bool all = has(selected, SpanClass::kIntervals | SpanClass::kStateRuns | SpanClass::kWaits |
                                     SpanClass::kGuestIntervals | SpanClass::kStalls |
                                     SpanClass::kKernelParts | SpanClass::kFaults);
  return all ? Detail::kIntervals : Detail::kSums;
}

// The classes that need to know what threads did before.
constexpr SpanClass kOfThreads = static_cast<SpanClass>(~static_cast<std::uint32_t>(
    SpanClass::kExits | SpanClass::kLosses | SpanClass::kIntervals | SpanClass::kHostRuns));

// The classes that need all waits, with their culprits.
constexpr SpanClass kOfWaits = SpanClass::kWaits | SpanClass::kGuestIntervals | SpanClass::kStalls;

}  // namespace

Pipeline::Pipeline(PipelineOptions options, std::vector<SpanSink*> all)
    : options_(std::move(options)),
      selected_(selection_of(all)),
      reader_(names_, options_.declared),
      processes_(options_.processes),
      tracker_(options_.model, reader_, detail_of(selected_), &processes_),
      threads_(&processes_, has(selected_, kOfThreads),
               [this](std::uint32_t cpu) { return tracker_.is_on(cpu); }),
      stacks_(names_, has(selected_, SpanClass::kFunctions | SpanClass::kCalls), on_thread()),
      placement_(options_.placement_errors),
      to_(std::numeric_limits<std::uint64_t>::max()) {
  for (SpanSink* sink : all)
    for (std::size_t bit = 0; bit < sinks_of_.size(); ++bit)
      if (has(sink->selects(), SpanClass{1u << bit})) sinks_of_[bit].push_back(sink);
  const auto& roles = options_.roles;
  has_guest_ =
      std::any_of(roles.begin(), roles.end(), [](Role role) { return role != Role::kHostKernel; });
  if (has(selected_, SpanClass::kInterrupts | SpanClass::kRequests)) interrupts_.emplace();
  if (has(selected_, SpanClass::kRequests)) {
    auto specs = options_.requests.empty() ? known_requests() : options_.requests;
    requests_.emplace(names_, RequestSpans(std::move(specs), names_, options_.declared),
                      *interrupts_);
    for (const RequestSpec& spec : requests_->spans().specs())
      request_names_.push_back(names_.id(spec.name()));
  }
  if (has(selected_, SpanClass::kHalts)) halts_.emplace();
  using Finds = WaitTracker::Finds;
  if (has(selected_, kOfWaits | SpanClass::kFaults | SpanClass::kDeeds))
    waits_.emplace(has(selected_, kOfWaits)             ? Finds::kAll
                   : has(selected_, SpanClass::kFaults) ? Finds::kSleeps
                                                        : Finds::kWakers);
  if (has(selected_, SpanClass::kStalls | SpanClass::kFaults))
    faults_ = std::make_unique<PageFaults>(options_.records_file_pages, options_.swaps,
                                           has(selected_, SpanClass::kStalls));
  if (has(selected_, SpanClass::kStalls))
    stalls_ = std::make_unique<StallTracker>(options_.stalls_ns, !options_.wants, *faults_);
  if (has(selected_, SpanClass::kHostRuns)) runs_.emplace();
  if (has(selected_, SpanClass::kKernelParts))
    kernel_ =
        std::make_unique<KernelTracker>(names_, options_.event_name, options_.kernel_function);
  if (options_.guest_intervals && has(selected_, SpanClass::kGuestIntervals))
    guest_intervals_.emplace(*options_.guest_intervals, options_.event_name, options_.event_text);
  plan();
}

// Lists the steps. Most events need few of them, and asking each tracker for each event costs more
// than what the trackers do.
void Pipeline::plan() {
  enum : unsigned { kOfChanges = 1, kOfExits = 2 };
  const auto add = [this](bool is_used, std::uint32_t payloads, unsigned also, Step step) {
    if (!is_used) return;
    const std::uint32_t bit = 1u << steps_.size();
    steps_.push_back(step);
    for (std::size_t i = 0; i < steps_of_.size(); ++i)
      if ((payloads >> i & 1) != 0) steps_of_[i] |= bit;
    if ((also & kOfChanges) != 0) steps_of_changes_ |= bit;
    if ((also & kOfExits) != 0) steps_of_exits_ |= bit;
  };
  constexpr std::uint32_t kAny = ~std::uint32_t{0};
  using To = Pipeline&;
  using Of = const Event&;
  add(on_thread(), kPayloads<Marker>, kOfChanges,
      [](To to, Of event) { to.stacks_.on_host(event, to.changes_, to.vmm_event()); });
  add(waits_.has_value(),
      has(selected_, kOfWaits) ? WaitTracker::kTakes : kPayloads<HostEvent, BlockIo, IoctlEnter>,
      kOfChanges, [](To to, Of event) { to.on_waits(event); });
  add(has(selected_, SpanClass::kDeeds), kPayloads<IoctlEnter, KvmIrq>, 0, [](To to, Of event) {
    const auto* irq = std::get_if<KvmIrq>(&event.payload);
    if (irq != nullptr && irq->step != IrqStep::kMsi) return;
    for (SpanSink* sink : to.sinks(SpanClass::kDeeds)) sink->event(event, to);
  });
  add(kernel_ != nullptr, kAny, 0,
      [](To to, Of event) { to.kernel_->on(event, to.changes_, to.tracker_); });
  add(stalls_ != nullptr, kPayloads<KvmExit, KvmEntry, KvmUserspaceExit>, kOfChanges,
      [](To to, Of event) {
        to.stalls_->on(event, to);
        if (to.stalls_->has_ended()) to.tell_stalls();
      });
  add(faults_ != nullptr,
      kPayloads<KvmExit, KvmEntry, KvmUserspaceExit, KvmDetail, HostEvent, BlockIo, IoctlEnter,
                Lost>,
      stalls_ != nullptr ? unsigned{kOfChanges} : 0u,
      [](To to, Of event) { to.faults_->on(event, to); });
  const bool all = has(selected_, SpanClass::kEvents) || guest_intervals_;
  add(all || has(selected_, SpanClass::kChanges), all ? kAny : 0, kOfChanges,
      [](To to, Of event) { to.tell(event); });
  add(has(selected_, SpanClass::kGuestRuns), kPayloads<KvmExit>, kOfChanges, [](To to, Of) {
    const GuestRun* run = to.tracker_.guest_run();
    if (run == nullptr || !to.counts(run->thread)) return;
    for (SpanSink* sink : to.sinks(SpanClass::kGuestRuns)) sink->guest_run(*run, to);
  });
  add(true, 0, kOfExits, [](To to, Of) { to.take(*to.ended_); });
  // Most events that one of these three needs are needed by the others, too.
  add(requests_.has_value(), VhostTracker::kTakes | RequestPath::kTakes | IrqTracker::kTakes,
      kOfChanges, [](To to, Of event) {
        const bool changes = !to.changes_.empty();
        to.on_vhost(event);
        if (changes || is_in(RequestPath::kTakes, event.payload)) to.on_requests(event);
        if (changes || is_in(IrqTracker::kTakes, event.payload)) to.on_interrupts(event);
      });
  add(interrupts_ && !requests_, IrqTracker::kTakes, kOfChanges,
      [](To to, Of event) { to.on_interrupts(event); });
  add(halts_.has_value(), kPayloads<KvmExit, KvmHaltPoll, KvmVcpuWakeup>, kOfChanges | kOfExits,
      [](To to, Of event) { to.halts_->on(event, to.changes_, to.ended_); });
  add(placement_.checks(), kPayloads<KvmExit, Marker>, kOfChanges,
      [](To to, Of event) { to.placement_.on(event, to.tracker_); });
  if (steps_.size() == 1) steps_.clear();  // on_host() knows how to pass on exits alone
}

Pipeline::~Pipeline() = default;

// Returns whether the event is not after the window. The first event resolves the window's limits,
// unless it is a loss (`is_event` is false).
bool Pipeline::is_in_window(const Event& event, bool is_event) {
  if (!first_ && is_event) [[unlikely]] {
    first_ = event.at;
    if (options_.from) from_ = options_.from->resolve(event.at);
    if (options_.to) to_ = options_.to->resolve(event.at);
  }
  return event.at <= to_;
}

// Passes on a loss that may hide events of the window, even if the loss began before the window.
void Pipeline::tell_loss(const Event& event) {
  Lost lost = std::get<Lost>(event.payload);
  if (lost.to <= from_) return;
  // A count of 0 says that the number is not known: some lost events may be outside the window.
  if (lost.from < from_ || lost.to > to_) lost.count = 0;
  lost.from = std::max(lost.from, from_);
  if (!lost.on_purpose) losses_.add_gap(lost.count);
  for (SpanSink* sink : sinks(SpanClass::kLosses)) sink->lost(event, lost, *this);
}

// Begins the window. The events before it have determined the states of the vCPUs at its beginning.
void Pipeline::begin_window() {
  if (carried_ || !first_ || *first_ >= from_) return;
  carried_ = true;
  tracker_.begin_at(from_);
  if (waits_) waits_->begin_at(from_);
  if (runs_) runs_->begin_at(from_);
  if (interrupts_) interrupts_->begin_counts();
}

// Ends the window at its limit; the recording goes on.
void Pipeline::end_window() {
  if (cut_) return;
  begin_window();
  if (runs_) runs_->set_goes_on();
  if (usual_ == 0 && vcpus().empty()) return;
  if (!begin_) begin_ = carried_ ? from_ : *first_;
  end_ = to_;
  cut_ = true;
  tracker_.end_at(to_);
  tell_states();
  if (waits_) waits_->end_at(to_);
}

// Takes an event after the window, which is in no figure. The end of a thread's state shows what
// the state was at the window's end: a vCPU whose thread ends was offline, and what wakes a thread
// is the culprit of its sleep. A state that lasts longer than kLongest, or until a loss, stays
// open.
bool Pipeline::settle(const Event& event) {
  constexpr std::uint64_t kLongest = 1'000'000'000;
  if (!cut_ || elapsed(to_, event.at) > kLongest || std::holds_alternative<Lost>(event.payload))
    return false;
  if (!tracker_.awaits() && (!waits_ || !waits_->awaits())) return false;
  if (std::holds_alternative<Other>(event.payload) || is_of_guest(event)) return true;
  changes_ = threads_.on(event);
  if (is_birth(event)) on_new(event, std::get<NewThread>(event.payload));
  tracker_.settle(event, changes_);
  tell_news();
  if (!waits_ || (changes_.empty() && !is_in(WaitTracker::kTakes, event.payload))) return true;
  on_waits(event);
  if (const EndedWait* wait = stalls_ ? waits_->ended() : nullptr)
    stalls_->on_wait(wait->thread, wait->shares);
  return true;
}

// Returns whether the first thread that had the id had an event.
bool Pipeline::is_seen(ThreadId id) const {
  return threads_.has_switched(id) || tracker_.has(id) || lives_.now(id) != id;
}

// Returns task_newtask with the thread that it made told apart from earlier ones.
const Event& Pipeline::born(const Event& event) {
  const ThreadId before = lives_.now(std::get<NewThread>(event.payload).child);
  const bool is_used = threads_.begin(before) || tracker_.has(before) ||
                       processes_.has_threads(before, [this](auto id) { return is_seen(id); });
  return lives_.born(event, is_used);
}

// Quotas are those of vCPUs: if the earlier thread with the id was none, they are the new one's.
void Pipeline::begin_life(ThreadId thread) {
  const ThreadId earlier = earlier_of(thread);
  if (earlier == ThreadId{} || tracker_.has(earlier)) return;
  processes_.quotas.move(earlier, thread);
  if (waits_) waits_->move_quotas(earlier, thread);
}

void Pipeline::on_new(const Event& event, const NewThread& made) {
  begin_life(made.child);
  // The last number of a life is used again: the thread itself may be the earlier one.
  for (const ThreadId earlier : {earlier_of(made.child), made.child}) {
    if (earlier == ThreadId{}) continue;
    if (runs_ && !cut_) runs_->end(earlier, event.at);
    if (waits_) waits_->end(earlier);
  }
  if (cut_) return;  // a part of a recording has the processes of its time, in each command
  if (!made.same_process && life_of(made.child) != 0)
    processes_.use_again(made.child, [this](auto id) { return is_seen(id); });
  // A thread that makes another thread of its process counts as the first thread of the process,
  // unless it is known to run a vCPU: VMMs run vCPUs in threads of their own.
  if (!made.same_process || processes_.knows(event.thread) || !tracker_.state(event.thread))
    processes_.on(event, made);
  owners_ = {};
}

// Returns whether the event is a guest's, or a loss in a source that is not the host's kernel: such
// a loss hides nothing of the host, except where the VMM's own events show the exits.
bool Pipeline::is_of_guest(const Event& event) const {
  if (is_guest(event.machine) || std::holds_alternative<GuestCall>(event.payload)) return true;
  if (!std::holds_alternative<Lost>(event.payload) || event.source >= options_.roles.size())
    return false;
  const Role role = options_.roles[event.source];
  return options_.model.from_vmm ? role == Role::kGuest : role != Role::kHostKernel;
}

// tell_news() and take_steps() are not inlined, as push() would save registers for each event.
[[gnu::noinline]] void Pipeline::tell_news() {
  tell_unended();
  tell_states();
}

// `changes` is changes_; where it is known to be empty, the compiler leaves out what it is for.
[[gnu::always_inline]] inline void Pipeline::on_host(const Event& event, ThreadChanges changes) {
  ended_ = tracker_.on(event, changes);
  if (tracker_.has_news()) [[unlikely]]
    tell_news();
  // Without a guest's or a program's source, every event here is the host's kernel's.
  if (runs_ && (!has_guest_ || is_of_hosts_kernel(event))) runs_->on(event, changes);
  if (!steps_.empty()) return take_steps(event);
  if (ended_ != nullptr) take(*ended_);
}

[[gnu::noinline]] void Pipeline::take_steps(const Event& event) {
  if (waits_) waits_->pass();
  if (stalls_) stalls_->pass(event.at);
  std::uint32_t steps = steps_of_[event.payload.index()];
  if (!changes_.empty()) steps |= steps_of_changes_;
  if (ended_ != nullptr) {
    stack_.reset();
    steps |= steps_of_exits_;
  }
  for (; steps != 0; steps &= steps - 1)
    steps_[static_cast<std::size_t>(std::countr_zero(steps))](*this, event);
}

// Passes on at once what needs no more than exits and the runs of CPUs, as nearly all events of a
// report by reason do.
bool Pipeline::push(const Event& event) {
  if ((plain_ >> event.payload.index() & 1) == 0 || event.at < end_ || event.at > to_) [[unlikely]]
    return push_any(event);
  end_ = event.at;
  changes_ = {};
  ended_ = tracker_.on(event, ThreadChanges());
  if (tracker_.has_news()) [[unlikely]]
    tell_news();
  if (runs_) runs_->on(event, ThreadChanges());
  if (ended_ != nullptr) tell_exit();
  return true;
}

[[gnu::noinline]] void Pipeline::tell_exit() {
  stack_.reset();
  for (SpanSink* sink : sinks(SpanClass::kExits)) sink->exit(*ended_, *this);
}

[[gnu::noinline]] bool Pipeline::push_any(const Event& read) {
  const Event& event = lives_.concerns(read) ? lives_.of(read) : read;
  const bool usual = (usual_ >> event.payload.index() & 1) != 0 && !is_guest(event.machine);
  // An event that is before the one before it may be before the window.
  if (!usual || event.at < end_ || event.at > to_) [[unlikely]] {
    const bool goes_on = push_carefully(event);
    plain_ = is_plain() ? usual_ & ~Threads::kTakes : 0;
    return goes_on;
  }
  end_ = event.at;
  if (is_in(Threads::kTakes, event.payload)) return push_changes(event);
  changes_ = {};
  if (has_guest_) stacks_.on(event, {});
  on_host(event, {});
  return true;
}

// Takes a usual event that may change a thread. Not inlined, as push_any() would save registers for
// it at each event.
[[gnu::noinline]] bool Pipeline::push_changes(const Event& event) {
  changes_ = threads_.on(event);
  if (has_guest_) stacks_.on(event, changes_);
  on_host(event, changes_);
  return true;
}

bool Pipeline::push_carefully(const Event& read) {
  const Event& event = is_birth(read) ? born(read) : read;
  ended_ = nullptr;
  changes_ = {};
  if (waits_) waits_->pass();
  // A loss does not count as an event: no interval begins or ends with it.
  const bool is_event = !std::holds_alternative<Lost>(event.payload);
  if (is_event && !lost_first_.empty()) [[unlikely]] {
    (void)is_in_window(event, is_event);
    for (const Event& lost : std::exchange(lost_first_, {})) (void)push_carefully(lost);
    changes_ = {};
  }
  if (!first_ && !is_event && options_.from) {
    lost_first_.push_back(event);
    return true;
  }
  if (!is_in_window(event, is_event)) {
    end_window();
    return settle(event);
  }
  const bool in_window = event.at >= from_;
  if (in_window) [[likely]]
    begin_window();
  if (std::holds_alternative<Other>(event.payload)) {
    if (!in_window) return true;
    note_interval(event.at);
    tracker_.pass();
    if (kernel_ && !is_guest(event.machine)) kernel_->on(event, {}, tracker_);
    tell(event);
    return true;
  }
  // Guest calls may also come in trace_marker, which no source's role announces.
  if (std::holds_alternative<GuestCall>(event.payload)) has_guest_ = true;
  const bool of_guest = is_guest(event.machine) || (has_guest_ && is_of_guest(event));
  // A loss of events of a guest, or of a guest's program, does not hide what the host's threads do.
  if (!of_guest || is_guest(event.machine)) changes_ = threads_.on(event);
  if (has_guest_ && in_window) stacks_.on(event, changes_);
  if (of_guest) {
    if (in_window) on_guest(event);
    return true;
  }
  if (is_birth(event)) on_new(event, std::get<NewThread>(event.payload));
  if (in_window) {
    if (is_event) note_interval(event.at);
    on_host(event, changes_);
  }
  if (!is_event) tell_loss(event);
  if (in_window) return true;
  // An event before the window is in no figure, but the trackers need it: it may decide who waits
  // for whom in the window.
  const ExitSpan* exit = tracker_.on(event, changes_);
  if (waits_ && (!changes_.empty() || is_in(WaitTracker::kTakes, event.payload)))
    waits_->on(event, *this);
  if (interrupts_ && (!changes_.empty() || is_in(IrqTracker::kTakes, event.payload)))
    on_interrupts(event);
  if (stalls_) stalls_->on(event, *this);
  if (faults_) {
    faults_->on(event, *this);
    if (exit != nullptr) {
      waits_->on_exit(*exit);
      faults_->on_exit(*exit, *this);
    }
  }
  if (runs_ && is_of_hosts_kernel(event)) runs_->on(event, changes_);
  return true;
}

void Pipeline::tell_calls() {
  for (const FunctionCall& call : stacks_.ended()) {
    for (SpanSink* sink : sinks(SpanClass::kFunctions)) sink->end(call, *this);
    if (!counts(call.thread)) continue;
    for (SpanSink* sink : sinks(SpanClass::kCalls)) sink->call(call, *this);
  }
}

void Pipeline::on_guest(const Event& event) {
  tracker_.pass();
  if (on_thread() && !std::holds_alternative<Lost>(event.payload)) note_interval(event.at);
  if (!stacks_.ended().empty()) tell_calls();
  if (stacks_.begun())
    for (SpanSink* sink : sinks(SpanClass::kFunctions)) sink->begin(*stacks_.begun(), *this);
  if (has(selected_, SpanClass::kEvents | SpanClass::kChanges) || guest_intervals_) tell(event);
}

void Pipeline::tell_states() {
  const std::span<const StateRun> runs = tracker_.state_runs();
  if (runs.empty()) return;
  for (SpanSink* sink : sinks(SpanClass::kStateRuns)) sink->states(runs, *this);
  if (stalls_) stalls_->on(runs, *this);
}

void Pipeline::tell_unended() {
  for (const UnendedExit& exit : tracker_.unended()) {
    if (!counts(exit.span.thread)) continue;
    if (waits_) waits_->on_exit(exit.span);
    if (options_.wants && !options_.wants(exit.span, *this)) continue;
    for (SpanSink* sink : sinks(SpanClass::kExits)) sink->unended(exit, *this);
  }
}

void Pipeline::tell(const Event& event) {
  for (SpanSink* sink : sinks(SpanClass::kEvents)) sink->event(event, *this);
  if (!changes_.empty())
    for (SpanSink* sink : sinks(SpanClass::kChanges)) sink->event(event, *this);
  if (!guest_intervals_) return;
  if (const GuestRun* run = tracker_.guest_run()) guest_intervals_->on(*run);
  guest_intervals_->on(event);
  tell_guest_intervals();
}

void Pipeline::tell_guest_intervals() {
  while (const auto interval = guest_intervals_->take_ended())
    for (SpanSink* sink : sinks(SpanClass::kGuestIntervals)) sink->guest_interval(*interval, *this);
}

void Pipeline::tell_stalls() {
  for (const Stall& stall : stalls_->take_ended())
    for (SpanSink* sink : sinks(SpanClass::kStalls)) sink->stall(stall, *this);
}

void Pipeline::take(const ExitSpan& exit) {
  stack_.reset();
  if (!counts(exit.thread)) return;
  if (waits_) waits_->on_exit(exit);
  if (faults_) faults_->on_exit(exit, *this);
  if (kernel_) kernel_->on_exit(exit);
  const bool wanted = !options_.wants || options_.wants(exit, *this);
  if (wanted)
    for (SpanSink* sink : sinks(SpanClass::kExits)) sink->exit(exit, *this);
  if (guest_intervals_) {
    guest_intervals_->on(exit, waits_->shares(), waits_->halts());
    tell_guest_intervals();
  }
  if (stalls_) {
    stalls_->on(exit, wanted);
    if (stalls_->has_ended()) tell_stalls();
  }
  if (has_guest_) stacks_.on_span(exit, stack_of(exit));
}

bool Pipeline::hides_rip(ThreadId thread, const ExitReason& reason, std::uint64_t rip) const {
  if (rip != 0 || !may_hide_rip(reason)) return false;
  const std::vector<ThreadId>& shown = tracker_.rip_shown();
  for (; rip_looked_at_ < shown.size(); ++rip_looked_at_)
    rip_shown_.insert(processes_.of(shown[rip_looked_at_], {}));
  return !rip_shown_.contains(processes_.of(thread, {}));
}

StackId Pipeline::stack_of(const ExitSpan& exit) const {
  if (&exit == ended_ && stack_) return *stack_;
  StackId stack = stacks_.stack_of(exit.thread);
  const SymbolTable* symbols = options_.symbols;
  // A rip of 0 may stand for a hidden one, so it is not looked up as an address.
  const bool no_rip = exit.rip == 0 && may_hide_rip(exit.reason);
  const std::uint32_t symbol =
      symbols == nullptr || no_rip ? SymbolTable::kNone : symbols->index_of(exit.rip);
  if (no_rip && hides_rip(exit.thread, exit.reason, exit.rip)) [[unlikely]]
    stack = stacks_.with_innermost(stack, names_.id(kHiddenFunction));
  if (symbol != SymbolTable::kNone) {
    if (symbol >= symbol_names_.size()) symbol_names_.resize(symbols->size(), kNoName);
    NameId& name = symbol_names_[symbol];
    if (name == kNoName) name = names_.id((*symbols)[symbol].name);
    stack = stacks_.with_innermost(stack, name);
  }
  if (&exit == ended_) stack_ = stack;
  return stack;
}

[[gnu::always_inline]] inline void Pipeline::on_requests(const Event& event) {
  const ThreadId process = owners_of(event.thread).process;
  if (const auto* marker = std::get_if<Marker>(&event.payload)) {
    const VmmEvent* vmm = vmm_event();
    if (vmm == nullptr) return;
    const RequestSpan* ended = requests_->on_marker(event, *marker, vmm->name, process);
    if (ended == nullptr) return;
    for (SpanSink* sink : sinks(SpanClass::kRequests)) sink->request(*ended, *this);
    return;
  }
  requests_->on(event, changes_, process);
}

[[gnu::always_inline]] inline void Pipeline::on_vhost(const Event& event) {
  vhost_.on(event, changes_, processes_, *interrupts_);
  const VhostTurn* turn = vhost_.ended();
  if (turn == nullptr) return;
  for (SpanSink* sink : sinks(SpanClass::kRequests)) sink->turn(*turn, *this);
}

void Pipeline::on_waits(const Event& event) {
  waits_->on(event, *this);
  if (waits_->woke() && !cut_) {
    if (runs_) runs_->on_woken(event, waits_->woke()->thread);
    for (SpanSink* sink : sinks(SpanClass::kDeeds)) sink->event(event, *this);
  }
  const EndedWait* ended = waits_->ended();
  if (ended == nullptr) return;
  for (SpanSink* sink : sinks(SpanClass::kWaits)) sink->wait(*ended, *this);
}

void Pipeline::on_interrupts(const Event& event) {
  if (worked_for_.on(changes_)) owners_ = {};
  const ThreadId process =
      is_in(IrqTracker::kTakes, event.payload) ? owners_of(event.thread).worked_for : ThreadId{};
  const IrqSpan* span = interrupts_->on(event, changes_, process);
  if (event.at < from_) return;
  for (const Delivered& delivered : interrupts_->delivered()) {
    if (vhost_.on_delivered(delivered)) continue;
    for (SpanSink* sink : sinks(SpanClass::kRequests)) sink->delivered(delivered, *this);
  }
  if (span != nullptr) tell(*span, process);
}

void Pipeline::tell(IrqSpan interrupt, ThreadId process) {
  if (interrupt.raised < from_) return;
  interrupt.process = process;
  for (SpanSink* sink : sinks(SpanClass::kInterrupts)) sink->interrupt(interrupt, *this);
}

void Pipeline::finish(std::optional<Timestamp> end) {
  const Timestamp last = std::max(end.value_or(end_), end_);
  tracker_.close(last, cut_, threads_.switches().lacks_cpu(last));
  tell_states();
  tell_unended();
  while ((ended_ = tracker_.finish()) != nullptr) take(*ended_);
  if (interrupts_) {
    while (const IrqSpan* span = interrupts_->finish()) tell(*span, {});
  }
  if (waits_) {
    while (const EndedWait* wait = waits_->finish(last, *this)) {
      if (stalls_) stalls_->on_wait(wait->thread, wait->shares);
      for (SpanSink* sink : sinks(SpanClass::kWaits)) sink->wait(*wait, *this);
    }
  }
  stacks_.finish(end_);
  tell_calls();
  if (stalls_) {
    stalls_->finish(last, *this);
    tell_stalls();
  }
  if (guest_intervals_) {
    guest_intervals_->finish();
    tell_guest_intervals();
  }
}

}  // namespace trapline
