// One loaded plugin: everything that its callbacks share. Made by install(), never destroyed
// (QEMU's threads may still run when the process ends).
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

// Hot state of one vCPU; on cache lines of its own.
struct alignas(64) Vcpu {
  Vcpu(unsigned number, const Architecture& arch, const qemu::Api& api)
      : index(number), guest(arch, api) {}
  unsigned index;
  CallTracker* tracker = nullptr;
  std::uint64_t target = 0;       // of the indirect call that is under way
  std::uint64_t far_slot = 0;     // the first word that a far call or return touched
  const Site* delayed = nullptr;  // API below 4: a call whose target shows at the next block
  std::uint64_t delayed_slot = 0;
  std::uint64_t last_flush = 0;
  pthread_t thread{};  // that runs it
  bool used = false;
  Guest guest;
  std::unique_ptr<StackPool> own_stacks;
  std::unique_ptr<CallTracker> tracker_storage;
  std::unique_ptr<VcpuMarkers> markers;
  // mode=frame-pointer
  std::uint64_t frame_pointer = 0;
  unsigned frame_level = ~0U;
  std::uint64_t last_block = 0;
  struct MissingFrame {
    std::uint64_t frame, ret, function;
  };
  std::vector<MissingFrame> missing_frames;  // innermost first
  std::vector<StampedSync> syncs;            // of a series that is under way
};

// Call sites, each kept once however often its block is translated. Addresses stay valid. Open
// addressing over indices: a boot has some ten thousands, and memory counts. A guest that makes
// code as it goes has any number.
class SitePool {
 public:
  static constexpr std::size_t kMost = 1U << 18;  // 8 MB
  // nullptr: there are kMost.
  const Site* keep(const Site& site);
  // QEMU has dropped all code that refers to them.
  void clear();

 private:
  [[nodiscard]] static std::size_t hash(const Site& site) {
    return ((site.ret ^ site.function * 0x9e3779b97f4a7c15U) + site.level) * 0xff51afd7ed558ccdU >>
           20;
  }
  void grow();

  std::deque<Site> sites_;
  std::vector<std::uint32_t> table_;  // index + 1; 0: free
};

struct Session {
  qemu::Api api;
  PluginOptions options;
  const Architecture* arch = nullptr;
  TrackerOptions tracker_options;
  bool user_mode = false;  // qemu-user: the guest is a program, its vCPUs are threads
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
  // code=: what lies elsewhere runs as without the plugin.
  [[nodiscard]] bool follows(std::uint64_t address) const {
    if (options.code.empty()) [[likely]]
      return true;
    for (const AddressRange& range : options.code)
      if (range.contains(address)) return true;
    return false;
  }

  std::mutex translation;  // guards sites, translation_guest, and vCPUs that end
  SitePool sites;
  std::uint64_t sites_left_out = 0;
  const Site* keep(const Site& site);
  std::unique_ptr<Guest> translation_guest;
  std::atomic<bool> guest_ran = false;  // some of its code was translated
  bool told_of_kvm = false;
  std::atomic<bool> told_of_deep_stack = false;
  std::atomic<bool> ended = false;

  static constexpr unsigned kMaxVcpus = 4096;
  std::array<std::atomic<Vcpu*>, kMaxVcpus> vcpus{};

  TrackerCounters ended_counters;  // of vCPUs that ended

  Vcpu& vcpu(unsigned index) { return *vcpus[index].load(std::memory_order_relaxed); }
};

extern Session* session;
// Hot: of each vCPU that runs, by its number.
extern std::array<CallTracker*, Session::kMaxVcpus> trackers;

void vcpu_started(unsigned index);
// qemu-user alone: a thread of the program ends; it makes a system call.
void vcpu_ended(unsigned index);
void system_called(unsigned index, std::int64_t number);
// fork(), in the process that calls it and in the new one.
void before_fork();
void forked();
// Opens what is recorded into, before the guest runs; where that is refused, why.
[[nodiscard]] Result<void> begin_recording(Session& s);
// qemu-user: writes the names of the functions in all files that the program has mapped.
void name_functions(Session& s);
void vcpu_idle(unsigned index);
void write_syncs(Vcpu& vcpu);
void translated(qemu::Block* block);
void flushed();  // all translated code is gone; no vCPU runs
void discontinuity(unsigned index, int type, std::uint64_t from, std::uint64_t to);
void ended();

}  // namespace trapline
