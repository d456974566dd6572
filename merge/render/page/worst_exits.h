// The longest exits and what happened around each: the spans of its thread, and the events of its
// thread, of the thread that woke it, and of QEMU's other threads.
//
//   event ──> ring of its vCPU thread, or of the others ──┐
//   exit  ──> long enough? ── copies what the rings hold ─┴─> Capture, open until its end + context
//
// Bounded: rings of a fixed size, kMost exits, and one more for each of kMostRows rows. Texts are
// made at the end, for the few events that are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/model/thread_table.h"
#include "merge/pass/naming.h"
#include "merge/render/page/numbered_texts.h"
#include "merge/report/dimensions.h"
#include "merge/report/grouping.h"
#include "merge/report/slow_exits.h"
#include "merge/report/table.h"

namespace trapline::page {

class WorstExits {
 public:
  static constexpr std::size_t kMost = 100, kMostRows = 200;
  static constexpr std::size_t kThreadRing = 96, kOtherRing = 192, kSpanRing = 48;
  static constexpr std::size_t kMostEvents = 160, kMostSpans = 96, kMostThreads = 1024,
                               kMostOpen = 8, kMostWaits = 12;

  WorstExits() : keys_(row()), rows_(keys_.words(), kMostRows) {}

  void event(const Event& event, const Pipeline& pipeline);
  void exit(const ExitSpan& exit, const Pipeline& pipeline);

  // An event with its bytes.
  struct Kept {
    Event event;
    std::vector<std::byte> raw;  // event.raw is its beginning
    std::uint64_t number = 0;    // in its ring, from 1 on; 0: none
    ThreadId about{-1};  // for another thread's event: the thread that it switched to or woke
  };
  enum class Kind : std::uint8_t {
    kGuest,
    kKernel,
    kUser,
    kPreempted,
    kBlocked,
    kHalted,
    kHandler
  };
  struct Near {
    Kind kind = Kind::kGuest;
    Timestamp begin, end;
    NameId name = kNoName;  // kHandler: the event
  };
  struct Capture {
    KeptExit exit;
    StackId stack = kNoStack;
    std::vector<Near> spans;
    std::vector<Kept> events;      // in order of time
    std::vector<WaitShare> waits;  // the longest, in order of time
    std::uint64_t left_out = 0;    // events and spans around the exit that are not kept
    Timestamp from, to;            // the interval that is looked at
    std::size_t after = 0;         // number of events since its end
  };
  // Returns the longest exits and each row's longest exit, in order of length, the longest first.
  [[nodiscard]] std::vector<std::shared_ptr<const Capture>> sorted() const;
  // Returns the dimensions that define a row, reason and device; each row's longest exit is kept.
  [[nodiscard]] static const std::vector<Dimension>& row();

 private:
  using Pointer = std::shared_ptr<Capture>;
  // The last events of a vCPU's thread, or of all other threads.
  struct Ring {
    std::vector<Kept> events;
    std::size_t next = 0;  // index of the next event
    std::uint64_t pushed = 0;
  };
  struct Thread {
    Ring ring;
    std::uint64_t exit_began = 0;
    std::vector<Near> spans;
    std::size_t next_span = 0;  // index of the next span
    std::vector<Pointer> open;
  };
  struct Row {
    GroupKey key;
    Pointer longest;
  };
  static Kept& keep(Ring& ring, std::size_t most, const Event& event);
  static void add_span(Thread& thread, const Near& span);
  [[nodiscard]] Pointer capture(Thread& thread, const ExitSpan& exit, const Pipeline& pipeline);
  [[nodiscard]] Pointer keep_if_long(Thread& thread, const ExitSpan& exit,
                                     const Pipeline& pipeline);
  void go_on(Thread& thread, const Event& event);

  ExitKeys keys_;
  ThreadTable<Thread> threads_;  // those that run vCPUs
  Ring others_;
  std::vector<Pointer> longest_;  // a heap with the shortest on top
  Grouping<Row> rows_;
};

// The longest exits and their surroundings as tables of the page.

// The names for ids in the tables, and the time from which their times count.
struct PageNames {
  const Naming& naming;
  std::uint64_t start = 0;
  [[nodiscard]] std::int64_t relative(std::uint64_t ns) const {
    return static_cast<std::int64_t>(ns - start);
  }
};

// Return an event's text, "virtio_blk_req_complete ...", and its task, "qemu-system-x86-4242", by
// its name at the time.
[[nodiscard]] std::string event_text(const Event& event, const Timeline& timeline);
[[nodiscard]] std::string task_text(const Event& event, const Timeline& timeline,
                                    const Threads& threads);

// The first kFirst exits are shown with more of their surroundings than the others.
inline constexpr std::size_t kFirst = 12;
inline constexpr std::size_t kEventsOfFirst = 70, kSpansOfFirst = 64, kEvents = 9, kSpans = 10;

// Returns "worst", with the texts that both refer to by number, and "neighbourhoods" for the first
// `neighbourhoods` exits.
[[nodiscard]] std::vector<Table> worst_tables(const WorstExits& worst, const PageNames& names,
                                              std::size_t neighbourhoods);

}  // namespace trapline::page
