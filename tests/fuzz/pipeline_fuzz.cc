// Valid sequences of events, as a host with two CPUs, two vCPUs and two other threads makes them,
// through the pipeline. The target knows what happened, so it knows more than a recording:
//
//   nothing lost   every exit is handed out with its true start and end, once; the guest ran as
//                  long as it is said to have run
//   with losses    every exit that is handed out is a true one: none bridges a loss
//
// and always the guarantees of checked_pipeline.h. Losses are of a CPU, as the kernel has them.
#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "merge/source/timeline.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/input_files.h"
#include "tests/support/memory_source.h"

namespace {

using namespace trapline;

constexpr unsigned kCpus = 2, kVcpus = 2, kThreads = 4;  // vCPUs, then others
constexpr std::array<std::int32_t, kThreads> kIds = {100, 101, 7, 8};
constexpr std::uint32_t kSvm = 2;

using TrueExit = std::tuple<ThreadId, Timestamp, Timestamp>;

class Host {
 public:
  Host(fuzz::Choices& input, bool may_lose) : input_(input), may_lose_(may_lose) {
    for (std::size_t i = 0; i < kVcpus; ++i) start(i, static_cast<unsigned>(i));
  }

  void run() {
    while (input_.any()) {
      now_ += 1 + input_.up_to(200);
      const unsigned cpu = input_.up_to(kCpus - 1);
      step(cpu, input_.byte());
    }
    // A loss is told by the next event of its CPU.
    for (unsigned cpu = 0; cpu < kCpus; ++cpu) {
      ++now_;
      records_[cpu].losing = false;
      if (records_[cpu].count != 0) host_step(cpu, records_[cpu].running, 0);
    }
  }

  [[nodiscard]] const std::vector<Event>& events() const { return events_; }
  [[nodiscard]] const std::set<TrueExit>& exits() const { return exits_; }
  // True ones; and those that begin at their kvm_exit, since nothing tells of a switch before it.
  [[nodiscard]] bool is_true(const TrueExit& exit) const {
    return exits_.contains(exit) || short_exits_.contains(exit);
  }
  [[nodiscard]] std::uint64_t guest_ns(std::size_t vcpu) const { return threads_[vcpu].guest_ns; }
  [[nodiscard]] bool lost() const { return lost_; }

 private:
  enum class Mode : std::uint8_t { kKernel, kGuest, kUser };
  struct Thread {
    Mode mode = Mode::kKernel;
    int cpu = -1;  // none: it does not run
    bool asleep = true;
    unsigned last_cpu = 0;
    bool in_exit = false, switched_out_of_guest = false;
    Timestamp entered, left, named;  // named: by its kvm_exit
    bool back_unseen = false;        // the last switch to it was lost
    bool named_unseen = false;       // and its kvm_exit came after that
    std::uint64_t guest_ns = 0;
  };
  struct CpuRecord {
    int running = -1;  // index of a thread; none: idle
    bool losing = false;
    std::uint64_t count = 0;        // of lost events
    std::size_t after = 0;          // where the loss belongs: after this many events
    std::optional<Timestamp> last;  // of the events that are not lost
  };

  void emit(unsigned cpu, ThreadId thread, Payload payload) {
    CpuRecord& record = records_[cpu];
    const Timestamp at(now_);
    if (record.losing) {
      ++record.count;
      return;
    }
    if (record.count != 0) {
      Event lost;
      lost.at = *record.last;
      lost.cpu = cpu;
      lost.thread = ThreadId{-1};
      lost.payload = Lost{*record.last, at, input_.up_to(1) == 0 ? record.count : 0};
      // In the place that the merge by time gives it: after the last event of its CPU.
      for (CpuRecord& other : records_)
        if (other.after > record.after) ++other.after;
      events_.insert(events_.begin() + static_cast<std::ptrdiff_t>(record.after), lost);
      record.count = 0;
      lost_ = true;
    }
    Event event;
    event.at = at;
    event.cpu = cpu;
    event.thread = thread;
    event.payload = std::move(payload);
    events_.push_back(std::move(event));
    record.last = at;
    record.after = events_.size();
  }
  [[nodiscard]] ThreadId id(int thread) const {
    return thread < 0 ? ThreadId{0} : ThreadId{kIds[static_cast<std::size_t>(thread)]};
  }

  void start(std::size_t i, unsigned cpu) {
    Thread& thread = threads_[i];
    thread.asleep = false;
    thread.last_cpu = cpu;
    thread.cpu = static_cast<int>(cpu);
    records_[cpu].running = static_cast<int>(i);
  }

  void switch_to(unsigned cpu, int next, bool runnable) {
    CpuRecord& record = records_[cpu];
    const int prev = record.running;
    if (prev == next) return;
    emit(cpu, id(prev), SchedSwitch{id(prev), id(next), runnable, "next"});
    if (prev >= 0) {
      Thread& thread = threads_[static_cast<std::size_t>(prev)];
      if (thread.mode == Mode::kGuest) leave(thread);
      thread.cpu = -1;
      thread.asleep = !runnable;
    }
    if (next >= 0) {
      Thread& thread = threads_[static_cast<std::size_t>(next)];
      thread.cpu = static_cast<int>(cpu);
      thread.last_cpu = cpu;
      thread.asleep = false;
      thread.back_unseen = record.losing;
    }
    record.running = next;
  }

  // The guest is left: by a kvm_exit, or by a switch whose kvm_exit is written afterwards.
  void leave(Thread& thread) {
    thread.left = Timestamp(now_);
    thread.guest_ns += elapsed(thread.entered, thread.left);
    thread.mode = Mode::kKernel;
    thread.in_exit = true;
    thread.switched_out_of_guest = true;
  }

  void exit(unsigned cpu, int running, std::uint8_t which) {
    constexpr std::uint32_t kReasons[] = {0x7b, 0x78, 0x400, 0x60, 0x72};
    Thread& thread = threads_[static_cast<std::size_t>(running)];
    emit(cpu, id(running), KvmExit{kReasons[which % 5], kSvm, 0, running, 0x1000});
    if (!thread.switched_out_of_guest) leave(thread);
    thread.switched_out_of_guest = false;
    thread.named = Timestamp(now_);
    thread.named_unseen = thread.back_unseen;
  }

  void enter(unsigned cpu, int running) {
    Thread& thread = threads_[static_cast<std::size_t>(running)];
    emit(cpu, id(running), KvmEntry{running});
    if (thread.in_exit) {
      exits_.emplace(id(running), thread.left, Timestamp(now_));
      if (thread.named_unseen) short_exits_.emplace(id(running), thread.named, Timestamp(now_));
    }
    thread.in_exit = false;
    thread.mode = Mode::kGuest;
    thread.entered = Timestamp(now_);
  }

  void vcpu_step(unsigned cpu, int running, std::uint8_t choice) {
    Thread& thread = threads_[static_cast<std::size_t>(running)];
    const ThreadId self = id(running);
    if (thread.mode == Mode::kGuest || thread.switched_out_of_guest)
      return exit(cpu, running, choice);
    if (thread.mode == Mode::kUser) {
      if (choice % 3 == 0) {
        return emit(
            cpu, self,
            Marker{"memory_region_ops_read cpu 0 mr 0x55 addr 0x71 value 0x1 size 1 name 'rtc'"});
      }
      thread.mode = Mode::kKernel;
      emit(cpu, self, IoctlEnter{kKvmRun});
      return;
    }
    switch (choice % 8) {
      case 0:
        if (!thread.in_exit) break;
        thread.mode = Mode::kUser;
        return emit(cpu, self, KvmUserspaceExit{choice % 3u, 0});
      case 1:
        return emit(
            cpu, self,
            KvmDetail{choice, 0, static_cast<DetailKind>(choice / 8 % 8), Access::kWrite, false});
      case 2:
        return emit(cpu, self, KvmVcpuWakeup{choice * 4u, choice % 16 < 8, true});
      case 3:
        return emit(cpu, self, HostEvent{HostStep::kFutex, 1, 0, 0x7000, choice % 4u});
      default:
        break;
    }
    enter(cpu, running);
  }

  void host_step(unsigned cpu, int running, std::uint8_t choice) {
    constexpr HostStep kSteps[] = {
        HostStep::kTimerBegin,     HostStep::kTimerEnd,     HostStep::kIrqBegin,
        HostStep::kIrqEnd,         HostStep::kSoftirqBegin, HostStep::kSoftirqEnd,
        HostStep::kFutex,          HostStep::kFutexEnd,     HostStep::kReclaimBegin,
        HostStep::kReclaimEnd,     HostStep::kLoggedWrite,  HostStep::kDirtyRingFull,
        HostStep::kUnmap,          HostStep::kCollapse,     HostStep::kCollapseEnd,
        HostStep::kCompactionBegin};
    emit(cpu, id(running),
         HostEvent{kSteps[choice % std::size(kSteps)], choice % 5, 0, 0x7000, choice % 4u});
  }

  void wake(unsigned cpu, int running, std::uint8_t choice) {
    const std::size_t woken = choice % kThreads;
    Thread& thread = threads_[woken];
    if (!thread.asleep) return;
    const auto context = static_cast<SchedWakeup::Context>(choice / 16 % 3);
    emit(cpu, id(running),
         SchedWakeup{id(static_cast<int>(woken)), static_cast<std::int32_t>(thread.last_cpu), true,
                     context});
    thread.asleep = false;
  }

  void schedule(unsigned cpu, std::uint8_t choice) {
    std::vector<int> can = {-1};
    for (int i = 0; i < static_cast<int>(kThreads); ++i) {
      const Thread& thread = threads_[static_cast<std::size_t>(i)];
      if (thread.cpu < 0 && !thread.asleep) can.push_back(i);
    }
    const int next = can[choice / 8 % can.size()];
    const int running = records_[cpu].running;
    // Who goes to sleep does so in the kernel.
    const bool in_kernel =
        running >= 0 && threads_[static_cast<std::size_t>(running)].mode == Mode::kKernel;
    switch_to(cpu, next, running < 0 || !in_kernel || choice % 2 == 0);
  }

  void step(unsigned cpu, std::uint8_t choice) {
    CpuRecord& record = records_[cpu];
    const std::uint8_t rest = input_.byte();
    switch (choice % 16) {
      case 0:
        if (may_lose_ && record.last) record.losing = !record.losing;
        return;
      case 1:
      case 2:
      case 3:
        return schedule(cpu, rest);
      case 4:
      case 5:
        return wake(cpu, record.running, rest);
      case 6:
        return host_step(cpu, record.running, rest);
      default:
        if (record.running >= 0 && record.running < static_cast<int>(kVcpus))
          return vcpu_step(cpu, record.running, rest);
        return schedule(cpu, rest);
    }
  }

  fuzz::Choices& input_;
  bool may_lose_, lost_ = false;
  std::uint64_t now_ = 1000;
  std::array<Thread, kThreads> threads_{};
  std::array<CpuRecord, kCpus> records_{};
  std::vector<Event> events_;
  std::set<TrueExit> exits_, short_exits_;
};

// The exits that the pipeline hands out, beside what CheckedSpans holds.
class Found : public SpanSink {
 public:
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kExits; }
  void exit(const ExitSpan& exit, const Pipeline&) override {
    fuzz::hold(all.emplace(exit.thread, exit.start, exit.end).second,
               "an exit was handed out twice");
  }
  std::set<TrueExit> all;
};

// For whoever looks at a find: FUZZ_TELL=1.
void tell(const Host& host, const std::set<TrueExit>& found) {
  if (std::getenv("FUZZ_TELL") == nullptr) return;
  for (const Event& event : host.events()) {
    std::fprintf(stderr, "%llu cpu %u thread %d kind %zu",
                 static_cast<unsigned long long>(event.at.ns()), event.cpu,
                 static_cast<int>(event.thread), event.payload.index());
    if (const auto* lost = std::get_if<Lost>(&event.payload))
      std::fprintf(stderr, " lost to %llu", static_cast<unsigned long long>(lost->to.ns()));
    if (const auto* sched = std::get_if<SchedSwitch>(&event.payload))
      std::fprintf(stderr, " %d %s to %d", static_cast<int>(sched->prev),
                   sched->runnable ? "preempted" : "sleeps", static_cast<int>(sched->next));
    std::fputc('\n', stderr);
  }
  for (const auto* exits : {&host.exits(), &found}) {
    std::fprintf(stderr, exits == &found ? "found:\n" : "true:\n");
    for (const auto& [thread, start, end] : *exits) {
      std::fprintf(stderr, "  %d %llu to %llu\n", static_cast<int>(thread),
                   static_cast<unsigned long long>(start.ns()),
                   static_cast<unsigned long long>(end.ns()));
    }
  }
}

// A source for each CPU, which now and then has nothing yet.
Timeline timeline_of(const Host& host) {
  std::vector<std::unique_ptr<Source>> sources;
  for (unsigned cpu = 0; cpu < kCpus; ++cpu) {
    auto source = std::make_unique<test::MemorySource>();
    unsigned since = 0;
    for (const Event& event : host.events()) {
      if (event.cpu != cpu) continue;
      if (++since % 7 == 0) source->add_nothing_yet();
      source->add(event);
    }
    sources.push_back(std::move(source));
  }
  return Timeline(std::move(sources));
}

void play(const Host& host) {
  fuzz::CheckedSpans spans;
  Found found;
  PipelineOptions options;
  options.model.user_end = UserEnd::kIoctl;
  Pipeline pipeline(std::move(options), {&spans, &found});
  Timeline timeline = timeline_of(host);
  Timestamp last;
  std::size_t events = 0;
  for (Event event;;) {
    const Read read = timeline.next(event);
    if (read == Read::kPending) continue;
    if (read == Read::kEnd) break;
    fuzz::hold(event.at >= last, "events of several sources are not in order");
    last = event.at;
    ++events;
    fuzz::hold(pipeline.push(event), "the pipeline ended before its events");
  }
  fuzz::hold(timeline.status() && events == host.events().size(), "events are missing");
  pipeline.finish(last);
  tell(host, found.all);
  spans.finish(pipeline);
  for (const TrueExit& exit : found.all)
    fuzz::hold(host.is_true(exit), "an exit that never was: it bridges a loss");
  if (host.lost()) return;
  fuzz::hold(found.all == host.exits(), "an exit is missing");
  for (const VcpuTotalsOf& vcpu : pipeline.exits().vcpus()) {
    const std::size_t i = vcpu.thread == ThreadId{kIds[0]} ? 0 : 1;
    if (vcpu.totals.open == State::kGuest) continue;
    fuzz::hold(vcpu.totals.guest_ns == host.guest_ns(i), "the guest ran for another time");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::bounded(size, [&] {
    fuzz::Choices input(fuzz::text_of(data, size));
    const bool may_lose = input.up_to(1) != 0;
    Host host(input, may_lose);
    host.run();
    play(host);
  });
  return 0;
}
