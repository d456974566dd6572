// The interface of all sources of events. A source returns its events in order of time, then ends;
// a live source may report that there is no event yet. Damage is an error or a counted Lost event,
// never silence.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/model/capabilities.h"
#include "merge/model/clock_map.h"
#include "merge/model/event.h"
#include "merge/model/loss_counts.h"
#include "merge/model/processes.h"
#include "merge/model/source_alignment.h"

namespace trapline {

// The facts that a source knows before its events are read, enough to relate it to other sources.

// The machine that a recording was made on, as far as the recording says; empty and 0 if it does
// not.
struct Machine {
  std::string name;    // "host"; empty for machines without a name of their own ("localhost")
  std::string system;  // uname: "Linux host 6.1.0 #1 SMP … x86_64"
  std::uint32_t cpus = 0;
};

// A guest that was recorded together with its host: the host's thread for each of its CPUs.
struct RecordedGuest {
  std::uint64_t trace_id = 0;
  std::map<std::int32_t, ThreadId> threads;  // by the guest's CPU
};

struct Description : ClockFacts {
  Machine machine;
  Role role = Role::kHostKernel;  // a guest's kernel has it too, until its recording is placed
  Capabilities has;
  // `recorder` made the recording and left out the switches among its own threads. `selected` is
  // the only process whose thread switches were recorded. Both are process ids; 0: none.
  std::int32_t recorder = 0, selected = 0;
  Processes processes;  // of the threads that existed when a perf.data began
  std::vector<RecordedGuest> guests;
};

// The facts about a source that reports print: its file, clock and role, and how it was aligned.
struct SourceInfo {
  std::string path;
  std::string kind;     // "trace.dat"
  std::string clock;    // "mono"
  bool cycles = false;  // times are cycles of a counter, and nothing converts them to nanoseconds
  // Times are multiples of this many nanoseconds; nullopt: as exact as the clock itself.
  std::optional<std::uint64_t> resolution_ns = std::nullopt;
  Role role = Role::kHostKernel;
  SourceAlignment aligned = {};
};

struct SourceCounters : LossCounts {
  std::uint64_t events = 0;
  // Lost events at unknown times, which lost_events does not include; known at the end.
  std::uint64_t lost_unplaced = 0;
  // Events that the recorder left out on purpose (--snapshot-on); the losses above do not include
  // them.
  std::uint64_t left_out_events = 0;  // as far as the recorder counted them
  std::uint64_t left_out_pieces = 0;  // intervals in which events were left out
  Timestamp first, last;              // of the first and the last event
  std::uint64_t damaged_events = 0;   // shorter than their format says
  std::uint64_t damaged_pages = 0;    // skipped, each a loss; known at the end
  std::uint64_t unread_events = 0;    // of types whose format could not be read
  bool counts_losses = false;         // the recording has counters of lost events

  void add_event(Timestamp at) {
    if (events++ == 0) first = at;
    last = at;
  }
};

// The name of the entry of Source::facts() that says which parts of a recording are damaged.
inline constexpr const char* kDamagedFact = "damaged";

// The result of Source::next().
enum class Read : std::uint8_t {
  kEvent,    // `event` is filled
  kPending,  // no event yet, ask again later; complete recordings never return this
  kEnd,      // no more events; status() has the error, if there is one
};

// How a source is placed on the timeline.
struct Placement {
  SourceInfo info;                          // replaces the source's own
  ClockMap map;                             // from the source's times to the timeline's
  std::function<void(Event&)> adjust = {};  // changes each event, whose times are converted
  std::string comm = {};                    // the name of all threads, if not empty
};

// A derived class reads one recording: it overrides take() and what it knows besides. The source
// converts the events to the timeline's clock, once it is placed there.
class Source {
 public:
  virtual ~Source() = default;

  // Returns a source of the same recording that begins at its start. It shares the open file and
  // what is known about it. Errors: a live source; those of reading.
  [[nodiscard]] Result<std::unique_ptr<Source>> again() const {
    auto again = reopen();
    if (again) (*again)->placed_ = placed_;
    return again;
  }
  // Places the source on the timeline, or moves one that is placed further; call it before the
  // first next(). describe(), range() and facts() stay as they are.
  void place(Placement how) { placed_.push_back(std::move(how)); }

  // Selects classes of events; call it before the first next().
  virtual void select(EventClass) {}

  // Fills `event` if it returns kEvent. After kPending the next event may have any time that is not
  // before the last one's.
  [[nodiscard]] Read next(Event& event) {
    const Read read = take(event);
    if (!placed_.empty() && read == Read::kEvent) [[unlikely]]
      apply(event);
    return read;
  }
  // Passes up to `most` events on, each in `event`. Returns what ended it: kEvent: it was `most`;
  // kEnd also if the sink needs no further one.
  virtual Read pass_on(Event& event, std::uint64_t most, EventSink& sink) {
    for (; most != 0; --most) {
      if (const Read read = next(event); read != Read::kEvent) return read;
      if (!sink.push(event)) return Read::kEnd;
    }
    return Read::kEvent;
  }
  [[nodiscard]] virtual const Result<void>& status() const { return status_; }
  [[nodiscard]] const SourceInfo& info() const {
    return placed_.empty() ? info_ : placed_.back().info;
  }
  [[nodiscard]] SourceCounters counters() const {
    SourceCounters counters = count();
    for (const Placement& how : placed_) {
      counters.first = how.map(counters.first);
      counters.last = how.map(counters.last);
    }
    return counters;
  }
  // Returns the share of the input that has been read, 0 to 1.
  [[nodiscard]] virtual double progress() const = 0;

  // Returns which kinds of events the source has, from a sample taken before it is read.
  [[nodiscard]] virtual Capabilities capabilities() const { return {}; }

  // Describes the source, before it is read.
  [[nodiscard]] virtual Description describe() const {
    Description is;
    is.path = info_.path;
    is.clock = info_.clock;
    is.cycles = info_.cycles;
    is.role = info_.role;
    is.has = capabilities();
    return is;
  }
  // Returns the times of its first and last event without reading everything; nullopt if not known.
  [[nodiscard]] virtual std::optional<std::pair<Timestamp, Timestamp>> range() const {
    return std::nullopt;
  }
  // Returns the name of the program or library that reads the file, for --verbose.
  [[nodiscard]] virtual std::string reader() const { return "trapline"; }
  // Returns facts about the recording, for `trapline info`: {"host", "Linux …"}, …
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> facts() const {
    return {};
  }
  // Returns the number of events by name, of those read so far.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::uint64_t>> event_counts() const {
    return {};
  }

  // The following return printable texts for people; empty if the source does not know.
  [[nodiscard]] virtual std::string event_name(const Event& event) const = 0;
  [[nodiscard]] virtual std::string event_text(const Event& event) const = 0;
  [[nodiscard]] std::string comm(ThreadId thread) const {
    for (const Placement& how : placed_)
      if (!how.comm.empty()) return how.comm;
    return name_of(thread);
  }
  // Returns the kernel's own name for a reason: "io", "EXTERNAL_INTERRUPT", "DABT_LOW"; the number
  // if the recording has no name.
  [[nodiscard]] virtual std::string reason_name(const ExitReason&) const { return {}; }
  // Returns the kernel function whose entry has this address (HostStep::kFunctionBegin).
  [[nodiscard]] virtual std::string kernel_function(std::uint64_t) const { return {}; }

 protected:
  [[nodiscard]] bool is_placed() const { return !placed_.empty(); }
  // Do what next(), again(), counters() and comm() do, for a source that is not placed.
  [[nodiscard]] virtual Read take(Event& event) = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<Source>> reopen() const {
    return fail("{}: can be read only once", info_.path);
  }
  [[nodiscard]] virtual SourceCounters count() const { return counters_; }
  [[nodiscard]] virtual std::string name_of(ThreadId) const { return {}; }

  SourceInfo info_;
  SourceCounters counters_;
  Result<void> status_;

 private:
  [[gnu::noinline]] void apply(Event& event) const {
    for (const Placement& how : placed_) {
      event.at = how.map(event.at);
      if (auto* lost = std::get_if<Lost>(&event.payload)) {
        lost->from = how.map(lost->from);
        lost->to = how.map(lost->to);
      }
      if (how.adjust) how.adjust(event);
    }
  }

  std::vector<Placement> placed_;  // applied in this order
};

}  // namespace trapline
