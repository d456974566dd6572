// Divides the kernel's part of exits by what the events of their threads show.
//
//   kvm_exit      kvm_page_fault     local_timer_entry    local_timer_exit        kvm_entry
//      │  untraced  │ after kvm_page_fault │ vector local_timer │ after kvm_page_fault │
//
// A handler, or another span of the kernel (an entry event and its exit event), gets the time in
// which it is the innermost; so do functions of the kernel that function_graph recorded. Spans that
// extend beyond the exit are cut at its edges. Every other event is an instant, and how long the
// work that it names took is not known: the time up to the thread's next event is only "after" this
// one. Time before the first event, since kvm_exit or since user space, is untraced.
//
// The shares of an exit sum to its kernel part exactly.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "merge/analyze/exit_tracker.h"
#include "merge/model/event.h"
#include "merge/model/exit_span.h"
#include "merge/model/names.h"
#include "merge/model/thread_table.h"

namespace trapline {

// The kinds of kernel work. A handler or a function may be inside, or called by, another one;
// KernelTracker numbers the stacks of these.
enum class KernelWork : std::uint8_t { kUntraced, kAfter, kHandler, kFunction };
// A stack of handlers and functions, as the number of its innermost frame; 0: none.
using KernelStackId = std::uint32_t;
struct KernelFrame {
  KernelStackId parent = 0;
  NameId name = kNoName;
  KernelWork work = KernelWork::kUntraced;
  friend auto operator<=>(const KernelFrame&, const KernelFrame&) = default;
};

// Returns "softirq NET_RX" for the softirq's number in include/linux/interrupt.h; "softirq 12" if
// the kernel has no such softirq.
[[nodiscard]] inline std::string softirq_text(std::uint32_t number) {
  constexpr std::array<std::string_view, 10> kNames = {
      "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"};
  return "softirq " +
         (number < kNames.size() ? std::string(kNames[number]) : std::to_string(number));
}

struct KernelShare {
  KernelWork work = KernelWork::kUntraced;
  NameId name = kNoName;  // name of the event (without its system), handler or function
  KernelStackId stack = 0;
  std::uint32_t pieces = 0;
  std::uint64_t ns = 0, max_ns = 0;  // max_ns: the longest piece
};
// Returns "untraced", "after kvm_page_fault", "vector local_timer", "svm_handle_exit()".
[[nodiscard]] std::string kernel_work_text(KernelWork work, std::string_view name);

class KernelTracker {
 public:
  static constexpr std::size_t kMostThreads = 1u << 16;
  static constexpr std::size_t kMostPieces = 1u << 15;     // per exit; further time is untraced
  static constexpr std::size_t kMostOpen = 128;            // open handlers and functions
  static constexpr std::size_t kMostFrames = 1u << 16;     // further frames have no stack
  static constexpr std::size_t kMostFunctions = 1u << 15;  // further functions are named "[other]"
  using NameOf = std::function<std::string(const Event&)>;

  // Borrows `names`. `event_name` returns a name such as "kvm:kvm_page_fault"; `function` returns
  // the name of the function in a kFunctionBegin or kFunctionEnd.
  KernelTracker(Names& names, NameOf event_name, NameOf function)
      : names_(names), event_name_(std::move(event_name)), function_(std::move(function)) {}

  // Takes every event of the host, after the exit tracker.
  void on(const Event& event, ThreadChanges changes, const ExitTracker& exits);
  // Computes the shares of an exit that ended with the last event. The exit must have its
  // intervals.
  void on_exit(const ExitSpan& exit);
  // Returns the shares of the exit that on_exit() got, in the order in which they began, one per
  // stack.
  [[nodiscard]] std::span<const KernelShare> shares() const { return shares_; }
  [[nodiscard]] const KernelFrame& frame(KernelStackId stack) const { return frames_[stack]; }
  // Returns the function that took most kernel time of the exit that on_exit() got, without its
  // callees; kNoName: none.
  [[nodiscard]] NameId function() const;

 private:
  // The meaning of events of one type.
  struct Type {
    enum class Kind : std::uint8_t { kNew, kNothing, kInstant, kBegin, kEnd };
    Kind kind = Kind::kNew;
    NameId name = kNoName;
  };
  struct Piece {
    Timestamp begin;
    Timestamp since;  // kAfter: when the event that the piece follows happened
    KernelWork work;
    NameId name;
    KernelStackId stack;
  };
  struct Open {  // a handler, or a function at this depth
    NameId name = kNoName;
    std::int32_t depth = kHandler;
    KernelStackId stack = 0;
    static constexpr std::int32_t kHandler = -1;
  };
  struct Thread {
    bool in_exit = false;
    Timestamp exit;         // beginning of the exit
    NameId last = kNoName;  // the last instant; none: untraced
    Timestamp last_at;
    std::vector<Open> open;     // the innermost last
    std::vector<Piece> pieces;  // the exit's pieces; each lasts until the next
  };
  [[nodiscard]] Type type_of(const Event& event);
  [[nodiscard]] Type look_up(const Event& event);
  void begin(Thread& thread, Timestamp at);
  static void add(Thread& thread, Timestamp at);
  void on_type(Thread& thread, const Event& event, const Type& type);
  void on_function(const Event& event, const HostEvent& call);
  void open(Thread& thread, NameId name, std::int32_t depth);
  [[nodiscard]] KernelStackId number_of(const KernelFrame& frame);
  [[nodiscard]] NameId function_of(const Event& event, std::uint64_t address);
  void add_share(const Piece& piece, std::uint64_t ns);

  Names& names_;
  NameOf event_name_, function_;
  std::vector<std::vector<Type>> types_;  // by source and type
  LossTable<Thread> threads_;
  std::vector<KernelShare> shares_;
  std::map<std::tuple<KernelWork, NameId, KernelStackId>, std::size_t> share_of_;
  std::vector<KernelFrame> frames_{KernelFrame()};
  std::map<KernelFrame, KernelStackId> numbers_;
  std::map<std::pair<std::uint16_t, std::uint64_t>, NameId> functions_;  // by source and address
};

}  // namespace trapline
