#include "merge/live/engine.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "backend_ftrace/base/saturated_sum.h"
#include "merge/pass/pass.h"

namespace trapline::live {
namespace {

// How many rows of vCPUs frames may have for any recording, and how many more for each event.
constexpr std::uint64_t kFreeRows = 50'000, kRowsPerEvent = 2;

// The end of a frame that stays open, as no time is later.
constexpr Timestamp kNever(std::numeric_limits<std::uint64_t>::max());

Timestamp later(Timestamp at, std::uint64_t ns) { return Timestamp(saturated_sum(at.ns(), ns)); }

// advance() reads the clock after every kEventsPerLook events, and returns after kLongest so that
// signals and keys are checked.
constexpr std::uint64_t kEventsPerLook = 64;
constexpr std::chrono::milliseconds kLongest(50);

}  // namespace

Engine::Engine(Input input, EngineOptions options, OnFrame on_frame)
    : input_(std::move(input)),
      options_(std::move(options)),
      on_frame_(std::move(on_frame)),
      timeline_(std::move(input_.sources)),
      known_(input_.processes) {
  options_.requests &= input_.capabilities.markers;
  start_pipeline();
}

void Engine::start_pipeline() {
  auto maker = std::make_unique<FrameMaker>(options_);
  if (maker_) maker->take_over(*maker_);
  pipeline_.reset();
  maker_ = std::move(maker);
  PipelineOptions how = pipeline_options(timeline_, input_);
  how.from = from_;
  how.to = to_;
  if (!options_.which.exits.empty()) {
    const std::optional<ExitMatcher> before = std::move(matcher_);
    matcher_.emplace(options_.which.exits, source_of(timeline_));
    if (before) matcher_->merge(*before);
  }
  pipeline_ = make_pipeline(std::move(how), matcher_ ? &*matcher_ : nullptr, {maker_.get()});
  // The vCPUs keep their names until the next frame.
  Naming naming(timeline_, *pipeline_, processes_, {});
  if (naming_) {
    naming.vcpus = naming_->vcpus;
    naming.threads = naming_->threads;
    naming.vms = naming_->vms;
  }
  naming_.emplace(std::move(naming));
}

// Takes the first event's time. Unselected events are counted but not returned, so an earlier one
// may be the first of all.
void Engine::begin_at(const Event& event) {
  const SourceCounters counters = timeline_.source(event.source).counters();
  first_ = counters.events != 0 ? std::min(counters.first, event.at) : event.at;
  const auto absolute = [this](const NamedTime& named) {
    return named.time ? std::optional(TimeSpec{named.time->resolve(*first_).ns(), false})
                      : std::nullopt;
  };
  from_ = absolute(options_.which.from);
  to_ = absolute(options_.which.to);
  if (from_ || to_) start_pipeline();
  if (from_) first_ = std::max(*first_, Timestamp(from_->ns));
  maker_->start(*first_);
  frame_end_ = later(*first_, options_.interval_ns);
}

Engine::State Engine::advance(Timestamp until, std::uint64_t most) {
  const auto longest = std::chrono::steady_clock::now() + kLongest;
  for (std::uint64_t taken = 0; taken < most; ++taken) {
    if (taken % kEventsPerLook == kEventsPerLook - 1) {
      if (rows_ == 0) look_at_model();  // before the first frame, which would have no exits
      if (std::chrono::steady_clock::now() > longest) return State::kMore;
    }
    if (!has_next_) {
      const Read read = timeline_.next(next_);
      if (read == Read::kEnd) return State::kEnded;
      if (read == Read::kPending) return State::kPending;
      has_next_ = true;
    }
    if (!first_) begin_at(next_);
    if (to_ && next_.at.ns() > to_->ns) return State::kEnded;
    if (next_.at > until) return State::kReached;
    if (close_next(next_.at, false)) return State::kMore;
    last_ = std::max(last_, next_.at);
    ++taken_;
    (void)pipeline_->push(next_);
    has_next_ = false;
  }
  return State::kMore;
}

bool Engine::pass_time(Timestamp complete) {
  if (!first_ && !has_next_ && complete != Timestamp()) {
    first_ = complete;
    maker_->start(complete);
    frame_end_ = later(complete, options_.interval_ns);
  }
  if (!first_) return false;
  // All events before `complete` have been taken. If the last call found no frame to close, the
  // next frame is closed whatever the limit on rows.
  if (close_next(complete, std::exchange(caught_up_, false))) return true;
  caught_up_ = true;
  return false;
}

// Closes the next frame if it ends by `until`; returns false if it ends later. If frames have too
// many rows already and `free` is false, makes the frame longer instead of closing it, so that it
// ends after `until`.
bool Engine::close_next(Timestamp until, bool free) {
  if (until < frame_end_ || frame_end_ == kNever) return false;
  if (free || rows_ < kFreeRows + kRowsPerEvent * taken_) {
    close(frame_end_);
    return true;
  }
  const std::uint64_t more = elapsed(frame_end_, until) / options_.interval_ns + 1;
  std::uint64_t longer = 0;
  const bool fits = !__builtin_mul_overflow(more, options_.interval_ns, &longer);
  frame_end_ = fits ? later(frame_end_, longer) : kNever;
  return true;
}

void Engine::finish() {
  if (!first_) return;
  for (std::size_t i = 0; i < timeline_.size(); ++i)
    last_ = std::max(last_, timeline_.source(i).counters().last);
  if (to_) last_ = std::max(*first_, std::min(last_, Timestamp(to_->ns)));
  pipeline_->finish(last_);
  // A frame does not include its end, so the last one ends after the last event.
  close(later(last_, 1));
}

void Engine::close(Timestamp end) {
  if (before_close) before_close();
  processes_ = pipeline_->processes();
  processes_.merge(known_);
  naming_.emplace(timeline_, *pipeline_, processes_, pipeline_->exits().vcpus());
  Frame frame = maker_->close(end, *naming_);
  frame_end_ = later(end, options_.interval_ns);
  rows_ += frame.vcpus.size() + 1;
  on_frame_(std::move(frame));
  look_at_model();
}

Result<void> Engine::check_names() const {
  const VcpuFilter& vcpus = options_.which.vcpus;
  const auto is_asked_for = [of_vm = VcpuFilter{{}, vcpus.vm}](const Vm& vm) {
    return of_vm.holds(vm, kNoVcpu);
  };
  const bool waits = options_.vm_runs && std::ranges::none_of(naming_->vms, is_asked_for);
  if (!vcpus.empty() && !waits) {
    if (auto found = vcpus.check(naming_->threads, naming_->vms); !found) return found;
  }
  return matcher_ ? matcher_->check() : Result<void>();
}

// Takes over what a live source has learned about its events. A recording's model stays, as its
// events were sampled before.
void Engine::look_at_model() {
  if (timeline_.size() != 1) return;
  const Capabilities now = timeline_.source(0).capabilities();
  Capabilities& known = input_.capabilities;
  if (now.kvm_exit == known.kvm_exit && now.run_ioctl == known.run_ioctl) return;
  known = now;
  start_pipeline();
  ++model_changes_;
}

}  // namespace trapline::live
