// Which of the guest's processes ran on a vCPU, and which vCPU, with its guest's process, on a CPU
// of the host: the scheduling of both kernels on one track.
//
//   vCPU 0                          host CPUs
//     guest processes               CPU 1
//       dd-412 | sh-1 | …             VM 100 vCPU 0 ─────────── | VM 200 vCPU 1 …
//                                       dd-412 | sh-1
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "merge/export/perfetto_texts.h"
#include "merge/export/perfetto_writer.h"
#include "merge/model/thread_table.h"

namespace trapline::perfetto {

class FusedTracks {
 public:
  FusedTracks(Writer& writer, Texts& texts)
      : writer_(writer),
        texts_(texts),
        of_vcpu_(writer.category("vcpu")),
        of_process_(writer.category("guest process")) {}

  // The host's CPU goes from one thread to another; `name` is that of the vCPU that the next thread
  // runs, if it is one.
  void on_host_switch(const Event& event, const SchedSwitch& sched, std::optional<Text> name);
  // A CPU of the guest goes from one task to another; `track` is its vCPU's. The event's thread is
  // the vCPU's, where it is known.
  void on_guest_switch(const Event& event, const SchedSwitch& sched, std::uint64_t track);
  // Switches may be missing: what was running is not known any more.
  void on_lost(const Event& event);
  void finish(Timestamp at);

 private:
  static constexpr std::size_t kMostTracks = 1u << 16;
  struct HostCpu {
    std::uint64_t track = 0;
    ThreadId vcpu{};  // that runs; 0: none
    bool has_process = false;
  };
  struct GuestCpu {
    std::uint64_t track = 0;
    ThreadId vcpu{};  // that it is, where it is known
    std::optional<Text> process;
  };
  struct Vcpu {
    HostCpu* on = nullptr;  // where it runs
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
