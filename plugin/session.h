// One loaded plugin: everything that its callbacks share. install() makes it, and it is never
// destroyed, because QEMU's threads may still run when the process ends.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "plugin/call_markers.h"
#include "plugin/call_tracker.h"
#include "plugin/function_filter.h"
#include "plugin/guest.h"
#include "plugin/guest_program.h"
#include "plugin/options.h"
#include "plugin/qemu_api.h"
#include "plugin/recording.h"

namespace trapline {

// Hot state of one vCPU, on cache lines of its own.
struct alignas(64) Vcpu {
  Vcpu(unsigned number, const Architecture& arch, const qemu::Api& api)
      : index(number), guest(arch, api) {}
  unsigned index;
  CallTracker* tracker = nullptr;
  std::uint64_t target = 0;    // of the indirect call in progress
  std::uint64_t far_slot = 0;  // the first word that a far call or return accessed
  // API below 4: a call whose target is known only at the next block.
  const Site* delayed = nullptr;
  std::uint64_t delayed_slot = 0;
  std::uint64_t last_flush = 0;
  pthread_t thread{};  // the thread that runs the vCPU
  Guest guest;
  std::unique_ptr<StackPool> own_stacks;
  std::unique_ptr<CallTracker> tracker_storage;
  std::unique_ptr<VcpuMarkers> markers;
  // For mode=frame-pointer:
  std::uint64_t frame_pointer = 0;
  unsigned frame_level = ~0U;
  std::uint64_t last_block = 0;
  struct MissingFrame {
    std::uint64_t frame, ret, function;
  };
  std::vector<MissingFrame> missing_frames;  // innermost first

  std::vector<StampedSync> syncs;  // of the series in progress
};

// The call sites. Each is stored once, however often its block is translated, at an address that
// stays valid. The index is open-addressed and stores 32-bit indices to save memory: a boot has
// some ten thousand sites, and a guest that generates code any number.
class SitePool {
 public:
  static constexpr std::size_t kMost = 1U << 18;  // 8 MB
  // Returns nullptr if there are kMost sites already.
  const Site* keep(const Site& site);
  // Drops all sites, after QEMU has dropped all code that refers to them.
  void clear();

 private:
  [[nodiscard]] static std::size_t hash(const Site& site) {
    return ((site.ret ^ site.function * 0x9e3779b97f4a7c15U) + site.level) * 0xff51afd7ed558ccdU >>
           20;
  }
  void grow();

  std::deque<Site> sites_;
  std::vector<std::uint32_t> table_;  // index + 1; 0: free slot
};

struct Session {
  qemu::Api api;
  PluginOptions options;
  const Architecture* arch = nullptr;
  TrackerOptions tracker_options;
  bool user_mode = false;  // qemu-user: the guest is a program and its vCPUs are threads
  GuestProgram program;
  std::optional<SymbolFilter> filter;
  std::unique_ptr<CallMarkers> markers;  // output=ftrace
  std::unique_ptr<Recording> recording;
  FrameBudget frames;
  std::unique_ptr<StackPool> shared_stacks;  // contexts=stack
  RecordClock clock;
  std::uint64_t start_address = 0;
  std::uint64_t stop_address = 0;
  bool has_start = false;
  bool has_stop = false;
  // With code=, returns whether the address is followed; code elsewhere runs as without the plugin.
  [[nodiscard]] bool follows(std::uint64_t address) const {
    if (options.code.empty()) [[likely]]
      return true;
    for (const AddressRange& range : options.code)
      if (range.contains(address)) return true;
    return false;
  }

  // Guards sites, translation_guest, switched_on, and the vCPUs that begin and end.
  std::mutex translation;
  SitePool sites;
  std::uint64_t sites_left_out = 0;
  const Site* keep(const Site& site);
  std::unique_ptr<Guest> translation_guest;
  std::optional<bool> switched_on;      // by the function of start= or stop= that ran last
  std::atomic<bool> guest_ran = false;  // some of the guest's code was translated
  bool told_of_kvm = false;
  std::atomic<bool> told_of_deep_stack = false;
  std::atomic<bool> ended = false;

  static constexpr unsigned kMaxVcpus = 4096;
  std::array<std::atomic<Vcpu*>, kMaxVcpus> vcpus{};

  TrackerCounters ended_counters;  // of vCPUs that ended

  Vcpu& vcpu(unsigned index) { return *vcpus[index].load(std::memory_order_relaxed); }
};

extern Session* session;
// Hot: the tracker of each running vCPU, by its number.
extern std::array<CallTracker*, Session::kMaxVcpus> trackers;

void vcpu_started(unsigned index);
// qemu-user only: a thread of the program ends, or makes a system call.
void vcpu_ended(unsigned index);
void system_called(unsigned index, std::int64_t number);
// Called at fork(), in the calling process and in the new one.
void before_fork();
void forked();
// Opens the outputs before the guest runs; the Error says why one cannot be opened.
[[nodiscard]] Result<void> begin_recording(Session& s);
// qemu-user: writes the names of the functions in all files that the program has mapped.
void name_functions(Session& s);
void vcpu_idle(unsigned index);
void write_syncs(Vcpu& vcpu);
void translated(qemu::Block* block);
void flushed();  // QEMU dropped all translated code; no vCPU runs
void discontinuity(unsigned index, int type, std::uint64_t from, std::uint64_t to);
void ended();

}  // namespace trapline
