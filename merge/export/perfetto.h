// Spans as a Perfetto trace. Tracks:
//
//   VM 1234                       one for each process with vCPUs
//     vCPU 0 (tid 1240)           guest | exits, with their parts, with QEMU's handlers in them
//       guest functions           one for each task of the guest
//       exits/s, kernel % …       counters over 100 ms
//     requests, interrupts        as many lanes as overlap
//   events lost                   one for each CPU
//
// Scheduling of the host's and the guests' kernels is written as native events, so that the CPU and
// thread-state tracks fill.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "merge/export/exporter.h"
#include "merge/export/perfetto_writer.h"

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

  [[nodiscard]] Result<void> finish(const Pipeline& pipeline) override;
  [[nodiscard]] bool failed() const override { return writer_.failed(); }
  [[nodiscard]] std::uint64_t written() const override { return writer_.slices(); }

 private:
  static constexpr std::uint64_t kWindow = 100'000'000;  // of the counters, ns
  static constexpr std::size_t kMostLanes = 4096, kMostFlows = 1u << 16;

  struct Lane {
    std::uint64_t track = 0;
    Timestamp busy_until;
  };
  struct Counters {
    std::uint64_t exits_track = 0;
    std::array<std::uint64_t, kParts> tracks{};
    std::uint64_t window = 0;  // that is being counted
    std::uint64_t exits = 0;
    Parts parts{};
  };
  // What is known of the exit whose children are still to come.
  struct OpenExit {
    Span span;
    std::string name;  // what the slice's views point into
    std::vector<std::pair<std::string_view, std::string>> texts;
    std::vector<std::pair<std::string_view, std::uint64_t>> numbers;
    std::vector<Span> parts, handlers;
    SpanId served = SpanId::kNone;  // the handler that served it
    bool writes = false;            // it may carry a notify
  };

  void add_metadata();
  [[nodiscard]] std::uint64_t vm_track(ThreadId process);
  [[nodiscard]] std::uint64_t vcpu_track(const Span& span, const Pipeline& pipeline);
  [[nodiscard]] std::uint64_t function_track(const Span& span, const Pipeline& pipeline);
  [[nodiscard]] std::uint64_t lane(std::vector<Lane>& lanes, const Span& span,
                                   std::string_view name);
  void describe(const ExitSpan& exit, const Pipeline& pipeline);
  void write_open_exit(const Pipeline& pipeline);
  void write_asynchronous(const Pipeline& pipeline);
  void count(const ExitSpan& exit, const Pipeline& pipeline);
  void write_counters(Counters& counters);
  void note_thread(ThreadId thread, const Event& event, const Pipeline& pipeline);
  [[nodiscard]] std::string comm(const Event& event, ThreadId thread) const;

  const ExportContext context_;
  bool events_;
  perfetto::Writer writer_;
  std::map<ThreadId, std::uint64_t> vms_, vcpus_;
  std::map<std::tuple<MachineId, ThreadId, std::uint64_t>, std::uint64_t> functions_;
  std::map<std::pair<TrackKind, ThreadId>, std::vector<Lane>> lanes_;
  std::map<std::uint32_t, std::uint64_t> lost_;  // by CPU
  std::map<ThreadId, Counters> counters_;
  OpenExit next_;  // described by exit(), before its span comes
  std::optional<OpenExit> open_;
  std::optional<std::pair<Span, std::vector<std::uint64_t>>> asynchronous_;
  std::set<std::uint64_t> ended_flows_;
  std::uint64_t about_track_ = 0;  // what is said of the recording
  std::uint64_t lost_track_ = 0;
  std::uint64_t left_out_ = 0;  // spans that found no lane
};

}  // namespace trapline
