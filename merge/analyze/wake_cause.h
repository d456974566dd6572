// Finds who or what caused a wake-up, as far as the events on the waker's CPU prove it.
//
// A wake-up in a thread's own context is caused by that thread. A wake-up in an interrupt is caused
// by the innermost handler (of a timer, an interrupt line or a softirq) that is open on the CPU at
// the event's interrupt level, if the ends of such handlers are recorded too; or by the disk, if a
// read or write ended in that handler. Otherwise the cause is unknown: the thread that the
// interrupt hit has nothing to do with it. An interrupt sent by a vCPU woke the vCPUs that it was
// sent to. FutexWakes gives more details for a thread that waits for a futex.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/analyze/futex_wakes.h"
#include "merge/analyze/threads.h"
#include "merge/model/thread_table.h"

namespace trapline {

class Pipeline;

class WakeCause {
 public:
  enum class HandlerKind : std::uint8_t { kTimer, kInterrupt, kSoftirq, kNumber };

  void on(const Event& event, const HostEvent& host);
  void on_disk(std::uint32_t cpu, const BlockIo& block);  // block_rq_complete
  void on_run(const ThreadChange& change);
  void on_lost(const Event& event);
  void on_vmm_event(const Event& event, NameId name, std::string_view text, const Pipeline& of);
  // Returns the cause of that wake-up; the sleep began at its `since`.
  [[nodiscard]] Culprit of(const ThreadChange& wakeup, const Pipeline& pipeline);
  // Returns the kind of the handler that of() named last, if no end of that kind was recorded so
  // far: without ends a handler seems to last until the CPU switches.
  [[nodiscard]] std::optional<HandlerKind> without_end() const { return without_end_; }
  [[nodiscard]] bool ends(HandlerKind kind) const { return ends_[static_cast<std::size_t>(kind)]; }
  // Tells who woke the thread and who held what it waited for, after of() returned a futex.
  [[nodiscard]] FutexWakes& futexes() { return futexes_; }

 private:
  static constexpr std::size_t kMostThreads = 1u << 12;
  static constexpr std::size_t kMostHandlers = 8;  // open at once, per CPU
  struct Handler {
    using Kind = HandlerKind;
    Kind kind = Kind::kTimer;
    InterruptLevel level = InterruptLevel::kNone;
    bool disk = false;
    std::uint32_t number = 0;
  };
  struct Cpu {
    std::array<Handler, kMostHandlers> open;  // the innermost is the last
    std::size_t depth = 0;
    Timestamp ipi_at;
    ThreadId ipi_from{-1};
    std::int32_t ipi_to = HostEvent::kNotKnown;
  };
  struct LastVmmEvent {
    Timestamp at;
    NameId name = kNoName;
  };
  [[nodiscard]] Cpu* cpu_of(std::uint32_t cpu);
  static void begin(Cpu& cpu, Handler handler);
  void end(Cpu& cpu, Handler::Kind kind);
  [[nodiscard]] Culprit in_interrupt(const Cpu& cpu, const ThreadChange& wakeup);
  [[nodiscard]] static bool is_ipi(const Cpu& cpu, const ThreadChange& wakeup, const Pipeline& of);

  std::vector<Cpu> cpus_;
  std::array<bool, static_cast<std::size_t>(HandlerKind::kNumber)> ends_{};
  std::optional<HandlerKind> without_end_;
  FutexWakes futexes_;
  ThreadTable<LastVmmEvent> last_vmm_events_;
};

}  // namespace trapline
