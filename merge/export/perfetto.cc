// Writes spans as a Perfetto trace. Tracks:
//
//   VM 1234                       one for each process with vCPUs
//     vCPU 0 (tid 1240)           guest | exits, with their parts, with QEMU's handlers in them
//       guest functions           one for each task of the guest
//       exits/s, kernel % …       counters over 100 ms
//     requests, interrupts        as many lanes as overlap; requests with their stages
//     guest spans: …              the guest's intervals, with the parts of their vCPU's time
//     vhost-1234 (tid 1236)       a vhost worker's turns
//     wake-ups                    by other threads; those by a vCPU are on the vCPU's track
//   events lost                   one for each CPU
//
// Scheduling of the host's and the guests' kernels is written as native events, so that Perfetto
// shows it in its CPU and thread-state tracks: each kernel's with its own clock, as a machine.
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/pipeline.h"
#include "merge/export/exit_walk.h"
#include "merge/export/exporter.h"
#include "merge/export/perfetto_writer.h"
#include "merge/export/texts.h"
#include "merge/model/thread_table.h"
#include "merge/pass/naming.h"
#include "merge/source/timeline.h"

namespace trapline::perfetto {
namespace {

// Numbers for the texts of slices. Each text is looked up once, by the pipeline's id for it.
// Views in returned values are valid until the next call of the same function.
class Texts {
 public:
  Texts(Writer& writer, const Timeline& timeline) : writer_(writer), timeline_(timeline) {}

  [[nodiscard]] Text reason(const ExitSpan& exit) {
    const auto [place, is_new] = reasons_.try_emplace(packed(exit.reason, exit.source));
    const Source& source = timeline_.source(exit.source);
    if (is_new) place->second = kept(source.reason_name(exit.reason), &Writer::name);
    return place->second.as_text();
  }
  [[nodiscard]] Text detail(const ExitSpan& exit) {
    return details_.of(exit, [&] { return kept(detail_text(exit.detail), &Writer::value); })
        .as_text();
  }
  [[nodiscard]] Text userspace_reason(const ExitSpan& exit) {
    const std::uint64_t key = std::uint64_t{exit.source} << 32 | exit.userspace_reason;
    const auto [place, is_new] = userspace_reasons_.try_emplace(key);
    const Source& source = timeline_.source(exit.source);
    if (is_new)
      place->second = kept(source.reason_name({exit.userspace_reason, ExitReason::kIsaUserspace}),
                           &Writer::value);
    return place->second.as_text();
  }
  // Returns "interrupt 0x31", as a slice's name.
  [[nodiscard]] Text interrupt(std::uint32_t vector) {
    return once(interrupts_, vector, [vector] {
      return vector == kNoVector ? "interrupt" : fmt::format("interrupt {:#x}", vector);
    });
  }
  // Returns "interrupt wakes vCPU 0", as an instant's name.
  [[nodiscard]] Text wakeup(std::int32_t vcpu) {
    return once(wakeups_, static_cast<std::uint32_t>(vcpu),
                [vcpu] { return fmt::format("interrupt wakes vCPU {}", vcpu); });
  }
  // Returns "dd-412" for a task of the event's guest, as a slice's name.
  [[nodiscard]] Text guest_process(const Event& event, ThreadId task) {
    const std::uint64_t id = writer_.name(fmt::format("{}-{}", comm(event, task), tid_of(task))).id;
    return {id, id == 0 ? std::string_view("[other]") : std::string_view()};
  }
  // Return a device, an event or a function as a slice's name, and as an annotation's value.
  [[nodiscard]] Text name(NameId id, const Pipeline& pipeline) {
    return once(names_, id, &Writer::name, pipeline);
  }
  [[nodiscard]] Text value(NameId id, const Pipeline& pipeline) {
    return once(values_, id, &Writer::value, pipeline);
  }
  [[nodiscard]] Text stack(StackId id, const Pipeline& pipeline) {
    if (id >= stacks_.size()) stacks_.resize(id + 1);
    if (stacks_[id] != 0) return {stacks_[id], {}};
    stack_text_ = pipeline.stacks().text(id);
    stacks_[id] = writer_.value(stack_text_).id;
    return {stacks_[id], stack_text_};
  }

  // Returns a thread's printable name: from the last sched_switch to it, else from the source.
  [[nodiscard]] const std::string& comm(const Event& event, ThreadId thread) {
    return comm_of(event, thread).printable;
  }
  void note_comm(const Event& event, ThreadId thread, std::string_view comm) {
    Comm& kept = comm_of(event, thread);
    if (kept.raw == comm) return;
    kept = {std::string(comm), printable(comm)};
  }

 private:
  static constexpr std::size_t kMostThreads = 1u << 16;
  struct Kept {
    std::string text;
    std::uint64_t id = 0;
    [[nodiscard]] Text as_text() const { return {id, text}; }
  };
  struct Comm {
    std::string raw, printable;
  };
  [[nodiscard]] static std::uint64_t key_of(std::uint16_t source, ThreadId thread) {
    return std::uint64_t{source} << 32 | static_cast<std::uint32_t>(thread);
  }
  [[nodiscard]] Comm& comm_of(const Event& event, ThreadId thread) {
    // Every CPU has an idle thread, and all of them have the id 0.
    const std::uint64_t key = thread == ThreadId{}
                                  ? std::uint64_t{1} << 63 | key_of(event.source, {}) | event.cpu
                                  : key_of(event.source, thread);
    const auto found = comms_.find(key);
    if (found != comms_.end()) return found->second;
    if (comms_.size() >= kMostThreads) comms_.clear();
    Comm& comm = comms_[key];
    comm.raw = thread == ThreadId{} ? fmt::format("swapper/{}", event.cpu)
                                    : timeline_.source_of(event).comm(thread);
    comm.printable = printable(comm.raw);
    return comm;
  }
  [[nodiscard]] Text once(std::unordered_map<std::uint64_t, Kept>& names, std::uint64_t number,
                          auto&& make) {
    if (names.size() >= kMostThreads) names.clear();
    const auto [place, is_new] = names.try_emplace(number);
    if (is_new) place->second = kept(make(), &Writer::name);
    return place->second.as_text();
  }
  [[nodiscard]] Text once(std::vector<std::uint64_t>& ids, NameId id,
                          Text (Writer::*number)(std::string_view), const Pipeline& pipeline) {
    const std::string_view text = pipeline.names()[id];
    if (id >= ids.size()) ids.resize(id + 1);
    if (ids[id] == 0) ids[id] = (writer_.*number)(text).id;
    return {ids[id], text};
  }
  [[nodiscard]] Kept kept(std::string text, Text (Writer::*number)(std::string_view)) {
    const std::uint64_t id = (writer_.*number)(text).id;
    return {std::move(text), id};
  }

  Writer& writer_;
  const Timeline& timeline_;
  std::unordered_map<std::uint64_t, Kept> reasons_, userspace_reasons_, interrupts_, wakeups_;
  ExitTexts<Kept> details_;
  std::vector<std::uint64_t> names_, values_, stacks_;  // 0: not looked up, or too many
  std::string stack_text_;
  std::unordered_map<std::uint64_t, Comm> comms_;
};

// Shows the scheduling of both kernels on one track: which of the guest's processes ran on a vCPU,
// and which vCPU, with its guest's process, ran on a CPU of the host.
//
//   vCPU 0                          host CPUs
//     guest processes               CPU 1
//       dd-412 | sh-1 | …             VM 100 vCPU 0 ─────────── | VM 200 vCPU 1 …
//                                       dd-412 | sh-1
class FusedTracks {
 public:
  FusedTracks(Writer& writer, Texts& texts)
      : writer_(writer),
        texts_(texts),
        of_vcpu_(writer.category("vcpu")),
        of_process_(writer.category("guest process")) {}

  // The host's CPU changes to another thread; `name` is that of the vCPU that the next thread runs,
  // if it runs one.
  void on_host_run(const ThreadChange& change, std::optional<Text> name) {
    const auto found = host_.find(change.cpu);
    if (found != host_.end()) close(found->second, change.at);
    if (!name || change.thread == ThreadId{}) return;
    Vcpu* vcpu = vcpus_.get(change.thread, kMostTracks);
    if (vcpu == nullptr) return;
    if (vcpu->on != nullptr) close(*vcpu->on, change.at);  // the switch that left this CPU was lost
    HostCpu& cpu = host_[change.cpu];
    if (cpu.track == 0) {
      if (host_track_ == 0) host_track_ = writer_.add_track(0, "host CPUs", -7, true);
      cpu.track = writer_.add_track(host_track_, fmt::format("CPU {}", change.cpu),
                                    static_cast<int>(change.cpu), true);
    }
    cpu.vcpu = change.thread;
    vcpu->on = &cpu;
    writer_.begin(cpu.track, change.at.ns(), {*name, of_vcpu_});
    if (vcpu->process) show_process(*vcpu, vcpu->process, change.at);
  }
  // A CPU of the guest changes to another task; `track` is its vCPU's. The event's thread is the
  // vCPU's, if that is known.
  void on_guest_run(const Event& event, ThreadId task, std::uint64_t track) {
    if (guests_.size() >= kMostTracks) return;
    GuestCpu& cpu = guests_[{event.machine, event.cpu}];
    if (cpu.track == 0) cpu.track = writer_.add_track(track, "guest processes", 1, true);
    close(cpu, event.at);
    cpu.vcpu = event.thread;
    if (task != ThreadId{}) {
      cpu.process = texts_.guest_process(event, task);
      writer_.begin(cpu.track, event.at.ns(), {*cpu.process, of_process_});
    }
    if (event.thread == ThreadId{}) return;
    if (Vcpu* vcpu = vcpus_.get(event.thread, kMostTracks))
      show_process(*vcpu, cpu.process, event.at);
  }
  // Ends the slices on the event's CPU: switches may be missing, so what ran there is not known.
  void on_lost(const Event& event) {
    if (!is_guest(event.machine)) {
      const auto found = host_.find(event.cpu);
      if (found != host_.end()) close(found->second, event.at);
      return;
    }
    const auto found = guests_.find({event.machine, event.cpu});
    if (found == guests_.end()) return;
    close(found->second, event.at);
    if (Vcpu* vcpu = vcpus_.find(found->second.vcpu)) show_process(*vcpu, std::nullopt, event.at);
  }
  void finish(Timestamp at) {
    for (auto& [number, cpu] : host_) close(cpu, at);
    for (auto& [key, cpu] : guests_) close(cpu, at);
  }

 private:
  static constexpr std::size_t kMostTracks = 1u << 16;
  struct HostCpu {
    std::uint64_t track = 0;
    ThreadId vcpu{};  // the running vCPU; 0: none
    bool has_process = false;
  };
  struct GuestCpu {
    std::uint64_t track = 0;
    ThreadId vcpu{};  // the thread of the vCPU, if known
    std::optional<Text> process;
  };
  struct Vcpu {
    HostCpu* on = nullptr;  // the CPU on which it runs
    std::optional<Text> process;
  };

  void close(HostCpu& cpu, Timestamp at) {
    if (cpu.vcpu == ThreadId{}) return;
    if (cpu.has_process) writer_.end(cpu.track, at.ns());
    writer_.end(cpu.track, at.ns());
    if (Vcpu* vcpu = vcpus_.find(cpu.vcpu)) vcpu->on = nullptr;
    cpu.vcpu = {};
    cpu.has_process = false;
  }
  void close(GuestCpu& cpu, Timestamp at) {
    if (!cpu.process) return;
    writer_.end(cpu.track, at.ns());
    cpu.process.reset();
  }
  // Shows the guest's process as a slice inside the vCPU's slice on the host's CPU.
  void show_process(Vcpu& vcpu, std::optional<Text> process, Timestamp at) {
    vcpu.process = process;
    if (vcpu.on == nullptr) return;
    HostCpu& cpu = *vcpu.on;
    if (std::exchange(cpu.has_process, process.has_value())) writer_.end(cpu.track, at.ns());
    if (process) writer_.begin(cpu.track, at.ns(), {*process, of_process_});
  }

  Writer& writer_;
  Texts& texts_;
  std::uint64_t of_vcpu_, of_process_;
  std::uint64_t host_track_ = 0;
  std::map<std::uint32_t, HostCpu> host_;
  std::map<std::pair<MachineId, std::uint32_t>, GuestCpu> guests_;
  ThreadTable<Vcpu> vcpus_;
};

class PerfettoExporter : public Exporter {
 public:
  PerfettoExporter(const ExportContext& context, const ExportOptions& options, OutputFile output)
      : context_(context),
        events_(options.events),
        guest_span_(printable(options.guest_span)),
        guest_lanes_("guest spans: " + guest_span_),
        writer_(std::move(output)),
        texts_(writer_, context_.timeline),
        culprits_(context_.timeline, [](const std::string& text) { return printable(text); }),
        fused_(writer_, texts_) {
    about_track_ = writer_.add_track(0, "trapline", -10);
  }

  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kExits | SpanClass::kIntervals | SpanClass::kGuestRuns |
           SpanClass::kFunctions | SpanClass::kRequests | SpanClass::kInterrupts |
           SpanClass::kLosses | SpanClass::kWaits |
           (events_ ? SpanClass::kEvents | SpanClass::kAllEvents : SpanClass::kChanges) |
           (guest_span_.empty() ? SpanClass::kNone : SpanClass::kGuestIntervals);
  }
  void event(const Event& event, const Pipeline& pipeline) override {
    const auto machine = static_cast<std::uint32_t>(event.machine);
    const ThreadChanges changes = pipeline.changes();
    const auto kind = changes.empty() ? ThreadChange::Kind::kMoves : changes.front().kind;
    if (kind == ThreadChange::Kind::kLeaves) {
      on_switch(event, changes.front(), changes.back(), pipeline);
    } else if (kind == ThreadChange::Kind::kWoken) {
      const ThreadId woken = changes.front().thread;
      if (!is_guest(event.machine)) on_wakeup(changes.front(), pipeline);
      if (shown(event, woken, pipeline) != woken) return;
      writer_.add_waking(machine, event.cpu, own_time(event), tid_of(event.thread), tid_of(woken),
                         texts_.comm(event, woken));
    } else if (events_ && !std::holds_alternative<Lost>(event.payload) &&
               !std::holds_alternative<GuestCall>(event.payload)) {
      const Source& source = context_.timeline.source_of(event);
      writer_.add_generic(machine, event.cpu, own_time(event), tid_of(event.thread),
                          source.event_name(event), source.event_text(event));
    }
  }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    Vcpu& of = vcpu(exit.thread, exit.vcpu, pipeline);
    describe(exit, pipeline);
    count(exit, of, pipeline);
    write_exit(exit, of.track, pipeline);
  }
  void guest_run(const GuestRun& run, const Pipeline& pipeline) override {
    const std::uint64_t track = vcpu(run.thread, run.vcpu, pipeline).track;
    writer_.begin(track, run.begin.ns(), {words_.guest, words_.of_guest});
    writer_.end(track, run.end.ns());
  }
  void begin(const FunctionCall& call, const Pipeline& pipeline) override {
    const NameId name = pipeline.stacks().innermost(call.stack);
    writer_.begin(function_track(call, pipeline), call.begin.ns(),
                  {texts_.name(name, pipeline), words_.of_function});
  }
  void end(const FunctionCall& call, const Pipeline& pipeline) override {
    writer_.end(function_track(call, pipeline), call.end.ns());
  }
  void request(const RequestSpan& request, const Pipeline& pipeline) override {
    const std::uint64_t track = lane("requests", request.process, request.start, request.end);
    if (track == 0) return;
    const Text name = texts_.name(pipeline.request_name(request.spec), pipeline);
    // The flow goes on: from the exit to the device's handler of the queue, and from there to the
    // requests. The interrupt that tells of the request's end comes later.
    const std::array flows = {interrupt_flow(request.number),
                              request.notified ? notify_flow(*request.notified) : 0};
    writer_.begin(track, request.start.ns(),
                  {name, words_.of_request, {}, {flows.data(), request.notified ? 2u : 1u}, {}});
    for (const RequestStage& stage : stages_of(request))
      write_slice(track, stage.begin, stage.end,
                  kRequestStageNames[static_cast<std::size_t>(stage.kind)], words_.of_stage);
    writer_.end(track, request.end.ns());
  }
  void interrupt(const IrqSpan& irq, const Pipeline&) override {
    const std::uint64_t track = lane("interrupts", irq.process, irq.raised, irq.end());
    if (track == 0) return;
    const std::uint64_t flow = interrupt_flow(irq.request);
    Slice slice{texts_.interrupt(irq.vector), words_.of_interrupt};
    if (irq.request != 0) slice.ending_flows = {&flow, 1};
    writer_.begin(track, irq.raised.ns(), slice);
    writer_.end(track, irq.end().ns());
  }
  // Writes the turn on the worker's own track, where turns never overlap.
  void turn(const VhostTurn& turn, const Pipeline&) override {
    std::uint64_t& track = worker_tracks_[turn.worker];
    if (track == 0) {
      if (worker_tracks_.size() > kMostThreads) return;
      const std::string name = fmt::format("{} (tid {})", host_comm(context_.timeline, turn.worker),
                                           tid_text(turn.worker));
      track = writer_.add_track(vm_track(turn.process), name, 95);
    }
    Slice slice{writer_.name(turn.notify ? "serves a notify" : "turn"), words_.of_vhost};
    const std::uint64_t flow = turn.notify ? notify_flow({*turn.notify, turn.notifier}) : 0;
    if (turn.notify) slice.flows = {&flow, 1};
    writer_.begin(track, turn.woken.ns(), slice);
    for (const VhostTurn::Piece& piece : turn.pieces)
      write_slice(track, piece.begin, piece.end,
                  kTurnPartNames[static_cast<std::size_t>(piece.part)], words_.of_turn_part);
    writer_.end(track, turn.end.ns());
  }
  void lost(const Event& event, const Lost& lost, const Pipeline&) override {
    fused_.on_lost(event);
    if (lost_track_ == 0) lost_track_ = writer_.add_track(0, "events lost", -8);
    std::uint64_t& track = lost_[event.cpu];
    if (track == 0) track = writer_.add_track(lost_track_, fmt::format("CPU {}", event.cpu));
    const std::string name =
        lost.count == 0 ? "events lost (count unknown)" : fmt::format("{} events lost", lost.count);
    writer_.begin(track, lost.from.ns(), {writer_.name(name), words_.of_loss});
    writer_.end(track, lost.to.ns());
  }
  // Writes the interval into a lane: intervals of two tasks overlap, and so do interrupts in
  // interrupts.
  void guest_interval(const GuestInterval& interval, const Pipeline& pipeline) override {
    const ThreadId process = pipeline.processes().of(interval.thread, {});
    const auto state = pipeline.vcpu(interval.thread);
    const std::int32_t number_of = state ? state->vcpu : kNoVcpu;
    const std::uint64_t track = lane(guest_lanes_, process, interval.begin, interval.end);
    if (track == 0) return;
    const std::string name = interval.what.empty() ? guest_span_ : printable(interval.what);
    const std::string on = number_of == kNoVcpu ? "tid " + tid_text(interval.thread)
                                                : fmt::format("vCPU {}", number_of);
    const Annotation where{words_.vcpu, writer_.value(on)};
    writer_.begin(track, interval.begin.ns(),
                  {writer_.name(name), words_.of_guest_span, {&where, 1}, {}, {}});
    for (const VcpuPiece& piece : interval.pieces) {
      const Annotation who{
          words_.culprit,
          piece.has_culprit() ? writer_.value(culprits_.of(piece.culprit, pipeline)) : Text{}};
      Slice slice{piece.part ? words_.parts[static_cast<std::size_t>(*piece.part)] : words_.guest,
                  words_.of_guest_span_part};
      if (piece.has_culprit()) slice.annotations = {&who, 1};
      writer_.begin(track, piece.begin.ns(), slice);
      writer_.end(track, piece.end.ns());
    }
    writer_.end(track, interval.end.ns());
  }

  [[nodiscard]] Result<void> finish(const Naming& names) override {
    const Pipeline& pipeline = names.pipeline;
    fused_.finish(pipeline.end());
    for (auto& [thread, vcpu] : vcpus_.entries())
      if (vcpu.counters.exits_track != 0) write_counters(vcpu.counters);
    if (left_out_ != 0) {
      const std::string text =
          fmt::format("{} requests and interrupts are left out: more than {} overlapped", left_out_,
                      kMostLanes);
      writer_.instant(about_track_, pipeline.end().ns(), {writer_.name(text), words_.of_trapline});
    }
    add_thread_names(names);
    add_metadata(pipeline.begin().value_or(Timestamp()).ns(), names.timeline);
    return writer_.finish();
  }
  [[nodiscard]] bool failed() const override { return writer_.failed(); }

 private:
  static constexpr std::uint64_t kWindow = 100'000'000;  // ns for which a counter has one value
  static constexpr std::uint64_t kMostOff = 1'000;       // ns that a guest's clock may drift
  static constexpr std::size_t kMostLanes = 4096, kMostFlows = 1u << 16, kMostThreads = 1u << 16;

  // Numbers of the texts that every trace contains.
  struct Words {
    Writer& in;
    // Categories.
    std::uint64_t of_guest = in.category("guest"), of_exit = in.category("exit"),
                  of_part = in.category("part"), of_handler = in.category("qemu"),
                  of_function = in.category("function"), of_request = in.category("request"),
                  of_stage = in.category("request stage"), of_vhost = in.category("vhost"),
                  of_turn_part = in.category("vhost part"),
                  of_guest_span = in.category("guest span"),
                  of_guest_span_part = in.category("guest span part"),
                  of_interrupt = in.category("interrupt"), of_wakeup = in.category("wakeup"),
                  of_loss = in.category("lost"), of_trapline = in.category("trapline");
    // Annotations.
    std::uint64_t detail = in.key("detail"), device = in.key("device"), handler = in.key("handler"),
                  function = in.key("function"), stack = in.key("stack"),
                  user_space = in.key("to user space"), preempted_by = in.key("preempted by"),
                  rip = in.key("rip"), injected = in.key("injected vector"),
                  event = in.key("event"), culprit = in.key("culprit"), vcpu = in.key("vCPU");
    Text guest = in.name("guest");
    std::array<Text, kParts> parts = {in.name(kPartNames[0]), in.name(kPartNames[1]),
                                      in.name(kPartNames[2]), in.name(kPartNames[3]),
                                      in.name(kPartNames[4])};
  };
  // A wake-up of a vCPU in an exit, and its flow to the exit's part that begins with it.
  struct Wakeup {
    Timestamp at;
    std::uint64_t flow = 0;
  };
  struct GuestClock {
    // The last instant that add_clocks() got, on both clocks, and the last time that was returned.
    std::uint64_t own = 0, at = 0, last = 0;
  };
  struct Lane {
    std::uint64_t track = 0;
    Timestamp busy_until;
  };
  struct Counters {
    std::uint64_t exits_track = 0;
    std::array<std::uint64_t, kParts> tracks{};
    std::uint64_t window = 0;  // the window that is being counted
    std::uint64_t exits = 0;
    Parts parts{};
  };
  struct Vcpu {
    std::uint64_t track = 0;
    Text name;  // with its VM's name, for a host CPU's track
    Counters counters;
  };

  // Flows have even numbers that are counted, and those from requests to interrupts have odd ones,
  // made of the requests' numbers. No number is made of a time: on a clock of microseconds, or in
  // several VMs, much happens at one time.
  [[nodiscard]] std::uint64_t next_flow() { return last_flow_ += 2; }
  [[nodiscard]] static std::uint64_t interrupt_flow(std::uint64_t request) {
    return 2 * request + 1;
  }
  // Returns the flow from the exit to what its notify began. Requests and turns may end before the
  // exit does, or after it, so whichever is written first gets the number.
  [[nodiscard]] std::uint64_t notify_flow(const NotifyExit& exit) {
    if (notifies_.size() >= kMostFlows) notifies_.erase(notifies_.begin());
    std::uint64_t& flow =
        notifies_.try_emplace(notifies_.end(), {exit.begin, exit.thread}, 0)->second;
    if (flow == 0) flow = next_flow();
    return flow;
  }
  [[nodiscard]] std::uint64_t vm_track(ThreadId process) {
    std::uint64_t& track = vms_[process];
    if (track == 0)
      track = writer_.add_track(
          0, process == ThreadId{} ? "VM" : fmt::format("VM {}", tid_of(process)), -5, true);
    return track;
  }
  [[nodiscard]] Vcpu& vcpu(ThreadId thread, std::int32_t number_of, const Pipeline& pipeline) {
    Vcpu* vcpu = vcpus_.get(thread, kMostThreads);
    if (vcpu == nullptr) vcpu = &other_vcpus_;
    if (vcpu->track != 0) return *vcpu;
    const ThreadId process = pipeline.processes().of(thread, {});
    const std::uint64_t vm = vm_track(process);
    const std::string name = vcpu == &other_vcpus_ ? std::string("other vCPUs")
                             : number_of == kNoVcpu
                                 ? "vCPU of tid " + tid_text(thread)
                                 : fmt::format("vCPU {} (tid {})", number_of, tid_text(thread));
    vcpu->track = writer_.add_track(vm, name, number_of, true);
    vcpu->name =
        writer_.name(process == ThreadId{} ? name : fmt::format("VM {} {}", tid_of(process), name));
    vcpu->name.text = "vCPU";  // used if there were too many names to number
    return *vcpu;
  }
  [[nodiscard]] std::uint64_t function_track(const FunctionCall& call, const Pipeline& pipeline) {
    // A task that moves between vCPUs stays on one track.
    const ThreadId thread = call.task == 0 ? call.thread : ThreadId{};
    const auto key = std::tuple{call.machine, thread, call.task};
    const auto [place, is_new] = functions_.try_emplace(key, 0);
    if (is_new) {
      const std::uint64_t parent =
          call.thread != ThreadId{} ? vcpu(call.thread, kNoVcpu, pipeline).track : vm_track({});
      const auto task = static_cast<std::uint32_t>(call.task);
      place->second = writer_.add_track(
          parent, task == 0 ? "guest functions" : fmt::format("guest task {}", task), 1, true);
    }
    return place->second;
  }
  void describe(const ExitSpan& exit, const Pipeline& pipeline) {
    annotations_.clear();
    const auto text = [this](std::uint64_t key, Text value) {
      annotations_.push_back({key, value});
    };
    if (exit.detail.kind != DetailKind::kNone) text(words_.detail, texts_.detail(exit));
    if (exit.device != kNoName) text(words_.device, texts_.value(exit.device, pipeline));
    if (exit.vmm_event != kNoName) text(words_.handler, texts_.value(exit.vmm_event, pipeline));
    const StackId stack = pipeline.stack_of(exit);
    if (stack != kNoStack) {
      text(words_.function, texts_.value(pipeline.stacks().innermost(stack), pipeline));
      text(words_.stack, texts_.stack(stack, pipeline));
    }
    if (exit.userspace_reason != ExitSpan::kNoUserspaceReason)
      text(words_.user_space, texts_.userspace_reason(exit));
    if (exit.parts[static_cast<std::size_t>(Part::kPreempted)] != 0) {
      const auto most = largest(pipeline.waits()->shares(), Part::kPreempted);
      if (most.ns != 0)
        text(words_.preempted_by, writer_.value(culprits_.of(most.culprit, pipeline)));
    }
    if (exit.rip != 0) annotations_.push_back({words_.rip, {}, exit.rip});
    if (exit.injected != kNoVector) annotations_.push_back({words_.injected, {}, exit.injected});
  }
  // Writes the exit with its parts inside, and QEMU's handlers inside the parts, in nested order.
  void write_exit(const ExitSpan& exit, std::uint64_t track, const Pipeline& pipeline) {
    const std::vector<HandlerRun> handlers = handlers_of(exit);
    const bool is_served = std::ranges::find(handlers, true, &HandlerRun::served) != handlers.end();
    std::array<std::uint64_t, 2> flows{};
    std::size_t count = 0;
    if (is_served) flows[count++] = next_flow();
    // Only an exit with a write can carry a guest's notify. On a coarse clock an exit may begin
    // and end at one time, and another exit of the vCPU begin then, too.
    if (exit.detail.is_device_write() && exit.total() != 0)
      flows[count++] = notify_flow({exit.start, exit.thread});
    writer_.begin(track, exit.start.ns(),
                  {texts_.reason(exit), words_.of_exit, annotations_, {flows.data(), count}, {}});
    std::vector<Wakeup>* wakeups = wakeups_.find(exit.thread);
    std::size_t next = 0;
    bool slept = false;
    walk(
        exit, handlers,
        [&](const PartInterval& part) {
          Slice slice{words_.parts[static_cast<std::size_t>(part.part)], words_.of_part};
          const bool sleeps = part.part == Part::kBlocked || part.part == Part::kHalted;
          if (std::exchange(slept, sleeps) && wakeups != nullptr) {
            while (next < wakeups->size() && (*wakeups)[next].at < part.begin) ++next;
            if (next < wakeups->size() && (*wakeups)[next].at == part.begin)
              slice.ending_flows = {&(*wakeups)[next].flow, 1};
          }
          writer_.begin(track, part.begin.ns(), slice);
        },
        [&](const HandlerRun& handler) {
          const Annotation event{words_.event, texts_.value(handler.event->event, pipeline)};
          Slice slice{texts_.name(handler.event->name(), pipeline), words_.of_handler, {&event, 1}};
          if (handler.served) slice.ending_flows = {flows.data(), 1};
          writer_.begin(track, handler.begin.ns(), slice);
          writer_.end(track, handler.end.ns());
        },
        [&](const PartInterval& part) { writer_.end(track, part.end.ns()); });
    writer_.end(track, exit.end.ns());
    if (wakeups != nullptr) wakeups->clear();
  }
  void count(const ExitSpan& exit, Vcpu& of, const Pipeline& pipeline) {
    Counters& counters = of.counters;
    if (counters.exits_track == 0) {
      counters.exits_track = writer_.add_track(of.track, "exits/s", 0, false, "");
      const States known = pipeline.exits().model().known_states();
      for (std::size_t i = 0; i < kParts; ++i) {
        if (!known[i]) continue;
        counters.tracks[i] =
            writer_.add_track(of.track, fmt::format("{} %", kPartNames[i]), 0, false, "%");
      }
      counters.window = exit.end.ns() / kWindow;
    }
    if (exit.end.ns() / kWindow != counters.window) {
      write_counters(counters);
      counters.window = exit.end.ns() / kWindow;
    }
    ++counters.exits;
    for (std::size_t i = 0; i < kParts; ++i) counters.parts[i] += exit.parts[i];
  }
  void write_counters(Counters& counters) {
    const std::uint64_t at = counters.window * kWindow;
    constexpr double kPerSecond = 1e9 / static_cast<double>(kWindow);
    writer_.count(counters.exits_track, at, static_cast<double>(counters.exits) * kPerSecond);
    for (std::size_t i = 0; i < kParts; ++i) {
      if (counters.tracks[i] == 0) continue;
      writer_.count(counters.tracks[i], at,
                    static_cast<double>(counters.parts[i]) * 100 / static_cast<double>(kWindow));
    }
    counters.exits = 0;
    counters.parts = {};
  }

  // The functions below write the spans that are not on a vCPU's track: requests with their stages,
  // interrupts, turns of vhost workers, the guest's intervals, wake-ups.

  // Slices of one track must not overlap, so this returns a lane that is free when the span begins,
  // or a new one. Spans come in the order of their ends, so the spans of a lane have ended before.
  [[nodiscard]] std::uint64_t lane(std::string_view name, ThreadId process, Timestamp begin,
                                   Timestamp end) {
    std::vector<Lane>& lanes = lanes_[{process, name}];
    for (Lane& lane : lanes) {
      if (lane.busy_until > begin) continue;
      lane.busy_until = end;
      return lane.track;
    }
    if (lanes.size() >= kMostLanes) {
      ++left_out_;
      return 0;
    }
    lanes.push_back({writer_.add_track(vm_track(process), name, 100), end});
    return lanes.back().track;
  }
  // Writes a wake-up that leads to a part of an exit, on the track of the vCPU that woke the
  // thread, else on a track of the VM.
  void on_wakeup(const ThreadChange& change, const Pipeline& pipeline) {
    const ThreadId woken = change.thread;
    const auto vcpu = pipeline.vcpu(woken);
    // Outside an exit there is no part that the wake-up could lead to.
    const bool in_exit = vcpu && (vcpu->where == VcpuState::Where::kKernel ||
                                  vcpu->where == VcpuState::Where::kUser);
    if (!in_exit || !vcpu->off_cpu || !pipeline.counts(woken)) return;
    std::vector<Wakeup>* wakeups = wakeups_.get(woken, kMostThreads);
    // Exits that are not exported leave their wake-ups here.
    if (wakeups != nullptr && !wakeups->empty() && wakeups->front().at < vcpu->begin)
      wakeups->clear();
    if (wakeups == nullptr || wakeups->size() >= ExitTracker::kMostIntervals) return;
    // sched_waking and then sched_wakeup report the same wake-up.
    if (!wakeups->empty() && wakeups->back().at >= *vcpu->off_cpu) return;
    wakeups->push_back({change.at, next_flow()});
    // An interrupt may hit any thread, and the idle thread carries out wake-ups for other CPUs.
    const ThreadId waker = change.context == WakeContext::kThread ? change.other : ThreadId{};
    const Vcpu* of_waker = vcpus_.find(waker);
    std::uint64_t track = of_waker == nullptr ? 0 : of_waker->track;
    if (track == 0) {
      const ThreadId process = pipeline.processes().of(woken, {});
      std::uint64_t& of_vm = wakeup_tracks_[process];
      if (of_vm == 0) of_vm = writer_.add_track(vm_track(process), "wake-ups", 90);
      track = of_vm;
    }
    const auto write = [&](Text name) {
      writer_.instant(track, change.at.ns(),
                      {name, words_.of_wakeup, {}, {&wakeups->back().flow, 1}, {}});
    };
    if (waker == ThreadId{} && vcpu->vcpu != kNoVcpu) return write(texts_.wakeup(vcpu->vcpu));
    const std::string who =
        waker == ThreadId{}
            ? "interrupt"
            : fmt::format("{}-{}", host_comm(context_.timeline, waker), tid_of(waker));
    const std::string whom =
        vcpu->vcpu == kNoVcpu ? "tid " + tid_text(woken) : fmt::format("vCPU {}", vcpu->vcpu);
    write(writer_.name(fmt::format("{} wakes {}", who, whom)));
  }
  void write_slice(std::uint64_t track, Timestamp begin, Timestamp end, std::string_view name,
                   std::uint64_t category) {
    writer_.begin(track, begin.ns(), {writer_.name(name), category});
    writer_.end(track, end.ns());
  }

  // Facts about the recording itself, and the native events of its kernels.

  // Adds the facts about the recording, as instants where it begins and as the trace's system
  // information.
  void add_metadata(std::uint64_t at, const Timeline& timeline) {
    for (std::size_t i = 0; i < timeline.size(); ++i) {
      const Source& source = timeline.source(i);
      const SourceInfo& info = source.info();
      std::vector<std::pair<std::string, std::string>> facts = source.facts();
      facts.emplace_back("kind", info.kind);
      facts.emplace_back("clock", info.clock);
      if (info.resolution_ns)
        facts.emplace_back("resolution", fmt::format("{} ns", *info.resolution_ns));
      const auto& error = info.aligned.error_ns;
      facts.emplace_back("aligned by", info.aligned.text());
      facts.emplace_back("clock error bound", error ? fmt::format("{} ns", *error) : "not known");
      std::vector<Annotation> annotations;
      for (const auto& [name, text] : facts) annotations.push_back({writer_.key(name), {0, text}});
      writer_.instant(about_track_, at, {writer_.name(info.path), words_.of_trapline, annotations});
    }
    for (const std::string& note : context_.notes)
      writer_.instant(about_track_, at, {writer_.name(note), words_.of_trapline});
  }
  // Returns the event's time on its machine's own clock. Relates that clock to the trace's again
  // (add_clocks()) if it has drifted by more than kMostOff and no event in the trace would move.
  [[nodiscard]] std::uint64_t own_time(const Event& event) {
    const std::uint64_t at = event.at.ns();
    if (!is_guest(event.machine)) return at;
    const ClockMap& map = context_.timeline.source_of(event).info().aligned.map;
    GuestClock& clock = clocks_[event.machine];
    const std::uint64_t time = clock.own + (at - clock.at), off = map(time) - at + kMostOff;
    if (clock.last != 0 && off <= 2 * kMostOff) return clock.last = time;
    // clock.last is the time of the guest's last event in the trace. add_clocks() with a time that
    // is not after it would move that event.
    const std::uint64_t own = map.source_of(at);
    if (own <= clock.last) return clock.last = time;
    writer_.add_clocks(static_cast<std::uint32_t>(event.machine), own, at);
    clock = {own, at, own};
    return own;
  }
  // Returns the idle thread in place of one whose other switches were not recorded: it would seem
  // to run until the CPU's next recorded switch.
  static ThreadId shown(const Event& event, ThreadId thread, const Pipeline& pipeline) {
    const bool is_whole =
        is_guest(event.machine) || pipeline.threads().switches().has_all_of(thread);
    return is_whole ? thread : ThreadId{};
  }
  void on_switch(const Event& event, const ThreadChange& leaves, const ThreadChange& runs,
                 const Pipeline& pipeline) {
    // The values of prev_state in sched_switch of Linux 4.4, for which Perfetto takes each kernel
    // whose release the trace does not tell. In later ones the preempted thread's differs, and not
    // every recording, or guest, tells which kernel it is of.
    constexpr std::int64_t kPreempted = 2048, kAsleep = 1;
    texts_.note_comm(event, runs.thread, runs.name);
    const ThreadId prev = shown(event, leaves.thread, pipeline),
                   next = shown(event, runs.thread, pipeline);
    writer_.add_switch(
        static_cast<std::uint32_t>(event.machine), event.cpu,
        {own_time(event), tid_of(prev), tid_of(next), leaves.sleeps() ? kAsleep : kPreempted,
         texts_.comm(event, prev), texts_.comm(event, next)});
    if (is_guest(event.machine)) {
      const bool is_known = event.thread != ThreadId{};
      const auto guest_cpu = static_cast<std::int32_t>(event.cpu);
      const std::uint64_t track =
          is_known ? vcpu(event.thread, guest_cpu, pipeline).track : vm_track({});
      return fused_.on_guest_run(event, next, track);
    }
    const Vcpu* vcpu = vcpus_.find(next);
    fused_.on_host_run(runs, vcpu == nullptr ? std::nullopt : std::optional(vcpu->name));
  }
  void add_thread_names(const Naming& names) {
    std::vector<Writer::Thread> threads;
    for (const auto& [thread, vcpu] : vcpus_.entries()) {
      const ThreadId process = names.processes.of(thread, thread);
      if (process == ThreadId{0}) continue;
      threads.push_back({tid_of(thread), tid_of(process), host_comm(context_.timeline, thread)});
    }
    if (!threads.empty()) writer_.add_threads(threads);
  }

  const ExportContext context_;
  bool events_;
  std::string guest_span_, guest_lanes_;
  Writer writer_;
  const Words words_{writer_};
  Texts texts_;
  CulpritTexts culprits_;
  FusedTracks fused_;
  std::map<MachineId, GuestClock> clocks_;
  std::map<ThreadId, std::uint64_t> vms_;
  ThreadTable<Vcpu> vcpus_;
  Vcpu other_vcpus_;  // stands for all vCPUs beyond kMostThreads
  std::map<std::tuple<MachineId, ThreadId, std::uint64_t>, std::uint64_t> functions_;
  std::map<std::pair<ThreadId, std::string_view>, std::vector<Lane>> lanes_;  // by process and name
  std::map<std::uint32_t, std::uint64_t> lost_;                               // by CPU
  std::map<ThreadId, std::uint64_t> wakeup_tracks_;                           // by the VM's process
  std::map<ThreadId, std::uint64_t> worker_tracks_;
  std::vector<Annotation> annotations_;  // of the exit that is written
  std::uint64_t last_flow_ = 0;
  std::map<std::pair<Timestamp, ThreadId>, std::uint64_t> notifies_;  // flows, by NotifyExit
  ThreadTable<std::vector<Wakeup>> wakeups_;  // by vCPU thread, since its last exit
  std::uint64_t about_track_ = 0;             // for facts about the recording
  std::uint64_t lost_track_ = 0;
  std::uint64_t left_out_ = 0;  // spans for which there was no lane
};

}  // namespace
}  // namespace trapline::perfetto

namespace trapline {

Result<std::unique_ptr<Exporter>> make_perfetto(const ExportContext& context,
                                                const ExportOptions& options) {
  if (context.timeline.source(0).info().cycles) {
    return fail(ErrorKind::kUsage,
                "{}: its times are cycles, which Perfetto has no unit for; give --tsc-khz",
                context.timeline.source(0).info().path);
  }
  auto output = OutputFile::create(options.output, options.force);
  if (!output) return tl::unexpected(std::move(output).error());
  return std::make_unique<perfetto::PerfettoExporter>(context, options, std::move(*output));
}

}  // namespace trapline
