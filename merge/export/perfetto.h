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
#pragma once

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

#include "merge/analyze/pipeline.h"
#include "merge/export/exporter.h"
#include "merge/export/nested_exit.h"
#include "merge/export/perfetto_writer.h"
#include "merge/export/texts.h"
#include "merge/model/thread_table.h"
#include "merge/source/timeline.h"

namespace trapline::perfetto {

// Numbers for the texts of slices. Each text is looked up once, by the pipeline's id for it.
// Views in returned values are valid until the next call of the same function.
class Texts {
 public:
  Texts(Writer& writer, const Timeline& timeline) : writer_(writer), timeline_(timeline) {}

  [[nodiscard]] Text reason(const ExitSpan& exit);
  [[nodiscard]] Text detail(const ExitSpan& exit);
  [[nodiscard]] Text userspace_reason(const ExitSpan& exit);
  // Returns "interrupt 0x31", as a slice's name.
  [[nodiscard]] Text interrupt(std::uint32_t vector);
  // Returns the name of a thread of the host, from whichever kernel's source has it.
  [[nodiscard]] std::string host_comm(ThreadId thread) const;
  // Returns "dd-412" for a task of the event's guest, as a slice's name.
  [[nodiscard]] Text guest_process(const Event& event, ThreadId task);
  // Return a device, an event or a function as a slice's name, and as an annotation's value.
  [[nodiscard]] Text name(NameId id, const Pipeline& pipeline);
  [[nodiscard]] Text value(NameId id, const Pipeline& pipeline);
  [[nodiscard]] Text stack(StackId id, const Pipeline& pipeline);

  // Returns a thread's printable name: from the last sched_switch to it, else from the source.
  [[nodiscard]] const std::string& comm(const Event& event, ThreadId thread);
  void note_comm(const Event& event, ThreadId thread, std::string_view comm);

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
  [[nodiscard]] Comm& comm_of(const Event& event, ThreadId thread);
  [[nodiscard]] Kept kept(std::string text, Text (Writer::*number)(std::string_view)) {
    const std::uint64_t id = (writer_.*number)(text).id;
    return {std::move(text), id};
  }

  Writer& writer_;
  const Timeline& timeline_;
  std::unordered_map<std::uint64_t, Kept> reasons_, userspace_reasons_, interrupts_;
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
  void on_host_run(const ThreadChange& change, std::optional<Text> name);
  // A CPU of the guest changes to another task; `track` is its vCPU's. The event's thread is the
  // vCPU's, if that is known.
  void on_guest_run(const Event& event, ThreadId task, std::uint64_t track);
  // Ends the slices on the event's CPU: switches may be missing, so what ran there is not known.
  void on_lost(const Event& event);
  void finish(Timestamp at);

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

  void close(HostCpu& cpu, Timestamp at);
  void close(GuestCpu& cpu, Timestamp at);
  void show_process(Vcpu& vcpu, std::optional<Text> process, Timestamp at);

  Writer& writer_;
  Texts& texts_;
  std::uint64_t of_vcpu_, of_process_;
  std::uint64_t host_track_ = 0;
  std::map<std::uint32_t, HostCpu> host_;
  std::map<std::pair<MachineId, std::uint32_t>, GuestCpu> guests_;
  ThreadTable<Vcpu> vcpus_;
};

}  // namespace trapline::perfetto

namespace trapline {

class PerfettoExporter : public Exporter {
 public:
  PerfettoExporter(const ExportContext& context, const ExportOptions& options, OutputFile output);

  [[nodiscard]] SpanClass selects() const override;
  void event(const Event& event, const Pipeline& pipeline) override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  void span(const Span& span, const Pipeline& pipeline) override;
  void begin(const Span& span, const Pipeline& pipeline) override;
  void flow(SpanId from, SpanId to, FlowKind kind) override;
  void lost(const Event& event, const Lost& lost, const Pipeline& pipeline) override;
  void guest_interval(const GuestInterval& interval, const Pipeline& pipeline) override;

  [[nodiscard]] Result<void> finish(const Naming& names) override;
  [[nodiscard]] bool failed() const override { return writer_.failed(); }

 private:
  static constexpr std::uint64_t kWindow = 100'000'000;  // ns for which a counter has one value
  static constexpr std::uint64_t kMostOff = 1'000;       // ns that a guest's clock may drift
  static constexpr std::size_t kMostLanes = 4096, kMostFlows = 1u << 16, kMostThreads = 1u << 16;

  // Numbers of the texts that every trace contains.
  struct Words {
    perfetto::Writer& in;
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
    perfetto::Text guest = in.name("guest");
    std::array<perfetto::Text, kParts> parts = {in.name(kPartNames[0]), in.name(kPartNames[1]),
                                                in.name(kPartNames[2]), in.name(kPartNames[3]),
                                                in.name(kPartNames[4])};
  };
  struct Flow {
    SpanId to = SpanId::kNone;
    std::uint64_t number = 0;
  };
  // A request, an interrupt or a turn: held until the flows that lead to it are known.
  struct Asynchronous {
    Span span;
    std::vector<Span> children;
    std::vector<std::uint64_t> flows, ending_flows;
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
    perfetto::Text name;  // with its VM's name, for a host CPU's track
    Counters counters;
  };

  // Returns the number of the flow of this kind that leaves the span. At most one flow of each kind
  // leaves a span.
  [[nodiscard]] static std::uint64_t flow_of(SpanId from, FlowKind kind);
  void add_metadata(std::uint64_t at, const Timeline& timeline);
  [[nodiscard]] std::uint64_t vm_track(ThreadId process);
  [[nodiscard]] Vcpu& vcpu(ThreadId thread, std::int32_t number, const Pipeline& pipeline);
  [[nodiscard]] std::uint64_t function_track(const Span& span, const Pipeline& pipeline);
  [[nodiscard]] std::uint64_t lane(TrackKind kind, ThreadId process, Timestamp begin, Timestamp end,
                                   std::string_view name);
  void describe(const ExitSpan& exit, const Pipeline& pipeline);
  void write_open_exit(const Pipeline& pipeline);
  void begin_exit(std::uint64_t track, const Span& span);
  void begin_handler(std::uint64_t track, const Span& span, const Pipeline& pipeline);
  void write_asynchronous(const Pipeline& pipeline);
  void write_wakeup(const Span& span, const Pipeline& pipeline);
  void write_turn(const Span& span, const std::vector<Span>& parts,
                  const std::vector<std::uint64_t>& flows);
  void write_slice(std::uint64_t track, const Span& span, std::string_view name,
                   std::uint64_t category);
  void count(const ExitSpan& exit, const Pipeline& pipeline);
  void write_counters(Counters& counters);
  // Returns the event's time on its machine's own clock. Relates that clock to the trace's again
  // (add_clocks()) if it has drifted by more than kMostOff and no event in the trace would move.
  [[nodiscard]] std::uint64_t own_time(const Event& event);
  void on_switch(const Event& event, const ThreadChange& leaves, const ThreadChange& runs,
                 const Pipeline& pipeline);
  void add_thread_names(const Naming& names);

  const ExportContext context_;
  bool events_;
  std::string guest_span_;
  perfetto::Writer writer_;
  const Words words_{writer_};
  perfetto::Texts texts_;
  CulpritTexts culprits_;
  perfetto::FusedTracks fused_;
  std::map<MachineId, GuestClock> clocks_;
  std::map<ThreadId, std::uint64_t> vms_;
  ThreadTable<Vcpu> vcpus_;
  Vcpu other_vcpus_;  // stands for all vCPUs beyond kMostThreads
  std::map<std::tuple<MachineId, ThreadId, std::uint64_t>, std::uint64_t> functions_;
  std::map<std::pair<TrackKind, ThreadId>, std::vector<Lane>> lanes_;
  std::map<std::uint32_t, std::uint64_t> lost_;      // by CPU
  std::map<ThreadId, std::uint64_t> wakeup_tracks_;  // by the VM's process
  std::map<ThreadId, std::uint64_t> worker_tracks_;
  // The exit whose children are still to come, and facts about the exit that come before its span.
  NestedExit open_;
  perfetto::Text reason_;
  std::vector<perfetto::Annotation> annotations_;
  SpanId served_ = SpanId::kNone;  // the handler that served the exit
  bool writes_ = false;            // the exit may carry a notify
  std::vector<Flow> wakeups_;      // wake-ups that led to the exit's parts, in order
  std::optional<Asynchronous> asynchronous_;
  std::set<std::uint64_t> ended_flows_;
  std::uint64_t about_track_ = 0;  // for facts about the recording
  std::uint64_t lost_track_ = 0;
  std::uint64_t left_out_ = 0;  // spans for which there was no lane
};

}  // namespace trapline
