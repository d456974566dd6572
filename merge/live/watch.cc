#include "merge/live/watch.h"

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/tracetool/declarations.h"
#include "merge/live/instance_feed.h"
#include "merge/live/session_feed.h"
#include "merge/pass/first_look.h"
#include "merge/pass/window.h"
#include "merge/record/vm_names.h"
#include "plugin/format/symbol_table.h"

namespace trapline::live {
namespace {

constexpr std::uint64_t kEventsAtOnce = 1u << 13;  // before signals and keys are looked at again

// What is known beside the pages of a live source.
Result<void> add_companions(const InputOptions& options, const std::string& session, Input& input) {
  std::vector<SymbolFileSpec> specs;
  for (const std::string& text : options.symbols) {
    auto spec = parse_symbol_file_spec(text);
    if (!spec) return tl::unexpected(std::move(spec).error());
    specs.push_back(std::move(*spec));
  }
  if (!specs.empty()) {
    auto symbols = SymbolTable::load(specs);
    if (!symbols) return tl::unexpected(std::move(symbols).error());
    input.symbols = std::move(*symbols);
  }
  std::string events = options.trace_events;
  const std::string inside = session.empty() ? "" : session + "/trace-events-all";
  if (events.empty() && is_file(inside)) events = inside;
  if (events.empty() && is_file(tracetool::kInstalledTraceEvents))
    events = tracetool::kInstalledTraceEvents;
  if (events.empty()) return {};
  auto declared = tracetool::Declarations::read(events);
  if (!declared) return tl::unexpected(std::move(declared).error());
  input.declared = std::move(*declared);
  return {};
}

Result<std::unique_ptr<PageFeed>> open_feed(const TopOptions& options) {
  if (!options.input.paths.empty()) {
    auto feed = SessionFeed::open(options.input.paths[0]);
    if (!feed) return tl::unexpected(std::move(feed).error());
    return std::move(*feed);
  }
  auto feed = options.instance.empty() ? InstanceFeed::create(options.record)
                                       : InstanceFeed::attach(options.instance);
  if (!feed) return tl::unexpected(std::move(feed).error());
  return std::move(*feed);
}

// A VM of this host is there before its first event.
Result<void> check_vm(const VcpuFilter& vcpus) {
  if (vcpus.vm.empty()) return {};
  std::vector<VcpuThread> threads;
  std::vector<Vm> vms;
  for (const SessionVm& vm : record::running_vms()) {
    threads.push_back({ThreadId{vm.pid}, kNoVcpu});
    vms.push_back({.process = ThreadId{vm.pid}, .given = vm.name});
  }
  return VcpuFilter{{}, vcpus.vm}.check(threads, vms, "no VM runs on this host");
}

}  // namespace

Result<std::unique_ptr<Watch>> Watch::open(const TopOptions& options, Engine::OnFrame on_frame) {
  const std::vector<std::string>& paths = options.input.paths;
  if (!paths.empty() && !options.instance.empty()) {
    return fail(ErrorKind::kUsage, "--instance {}: give a session or an instance, not both",
                options.instance);
  }
  const EventClass classes = EventClass::kExits | EventClass::kInterrupts | EventClass::kHalts;
  std::unique_ptr<Watch> watch(new Watch);
  EngineOptions engine = options.engine;
  Input input;
  if (!paths.empty() && (paths.size() != 1 || !SessionFeed::is_open(paths[0]))) {
    const Selection& which = options.engine.which;
    auto opened = open_and_look(options.input,
                                {.vcpus = which.vcpus, .exits = which.exits, .names = true}, {});
    if (!opened) return tl::unexpected(std::move(opened).error());
    input = std::move(opened->input);
  } else {
    if (options.engine.which.from.time || options.engine.which.to.time) {
      return fail(ErrorKind::kUsage,
                  "--from and --to choose a part of a recording, and this one has not ended");
    }
    if (paths.empty()) {
      if (auto there = check_vm(engine.which.vcpus); !there)
        return tl::unexpected(std::move(there).error());
      engine.vm_runs = !engine.which.vcpus.vm.empty();
    }
    auto feed = open_feed(options);
    if (!feed) return tl::unexpected(std::move(feed).error());
    auto source = LiveSource::open(std::move(*feed), options.ring_bytes);
    if (!source) return tl::unexpected(std::move(source).error());
    watch->live_ = source->get();
    input.capabilities = watch->live_->capabilities();
    const std::string session = paths.empty() ? "" : paths[0];
    if (auto added = add_companions(options.input, session, input); !added) {
      return tl::unexpected(std::move(added).error());
    }
    input.sources.push_back(std::move(*source));
  }
  for (auto& source : input.sources) source->select(classes);
  watch->engine_ =
      std::make_unique<Engine>(std::move(input), std::move(engine), std::move(on_frame));
  const Selection& which = options.engine.which;
  if (auto window = check_window(watch->engine_->timeline(), which.from, which.to); !window)
    return tl::unexpected(std::move(window).error());
  if (watch->live_ != nullptr) watch->learn();
  return watch;
}

void Watch::learn() {
  std::vector<ThreadId> threads;
  for (const VcpuThread& vcpu : engine_->naming().threads) threads.push_back(vcpu.thread);
  live_->feed().look_at_threads(threads);
  for (const auto& [thread, process] : live_->feed().threads()) engine_->learn(thread, process);
  for (const auto& [process, name] : live_->feed().vm_names()) engine_->learn_name(process, name);
}

Result<bool> Watch::step(Timestamp until) {
  if (ended_) return false;
  bool more = false;
  if (live_ != nullptr) {
    const auto fetched = live_->fetch();
    if (!fetched) return tl::unexpected(fetched.error());
    more = *fetched;
  }
  const Engine::State state = engine_->advance(until, kEventsAtOnce);
  if (state == Engine::State::kEnded) {
    const bool whole = engine_->timeline().status().has_value();
    if (whole && engine_->pipeline().is_window() && !engine_->pipeline().begin())
      return tl::unexpected(empty_window(engine_->timeline()));
    engine_->finish();
    ended_ = true;
    if (auto status = engine_->timeline().status(); !status) return tl::unexpected(status.error());
    return false;
  }
  if (live_ == nullptr) {
    const bool closed = state == Engine::State::kReached && engine_->pass_time(until);
    return closed || state == Engine::State::kMore;
  }
  if (state == Engine::State::kPending) {
    more |= engine_->pass_time(live_->complete());
    learn();
  }
  return more || state == Engine::State::kMore;
}

std::vector<int> Watch::polled() const {
  return live_ == nullptr || ended_ ? std::vector<int>() : live_->feed().polled();
}

}  // namespace trapline::live
