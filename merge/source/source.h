// Where events come from. A source yields its events in order of time, then ends; a live one may
// say meanwhile that there is nothing yet. Damage is an error or a counted Lost event, never
// silence.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/model/capabilities.h"
#include "merge/model/event.h"
#include "merge/model/loss_counts.h"
#include "merge/model/source_alignment.h"

namespace trapline {

// What a source says of itself before it is read: enough to tell how it stands to other sources.

// Which machine a recording was made on, as far as it says; empty and 0: it does not.
struct Machine {
  std::string name;    // "host"; machines without one of their own ("localhost") have none
  std::string system;  // uname: "Linux host 6.1.0 #1 SMP … x86_64"
  std::uint32_t cpus = 0;
};

enum class Witness : std::uint8_t {
  kKernel,    // a kernel's events: of a host, or of a guest
  kFunctions  // functions of a program or a guest, or a program's own events
};

// A guest that was recorded together with its host: which thread of the host ran which of its CPUs.
struct RecordedGuest {
  std::uint64_t trace_id = 0;
  std::map<std::int32_t, std::int32_t> threads;  // by the guest's CPU
};

struct Description {
  std::string path;
  std::string clock;                // "mono", "local", "x86-tsc"
  bool cycles = false;              // its times are cycles
  bool nanoseconds_of_tsc = false;  // converted by TSC2NSEC or --tsc-khz
  Machine machine;
  Witness witness = Witness::kFunctions;
  Capabilities has;
  // The process that recorded it and left itself out, and the one whose threads' switches alone it
  // holds; 0: none.
  std::int32_t recorder = 0, selected = 0;
  // trace-cmd's TIME_SHIFT was applied: its times are on its host's clock. Ids of this recording,
  // of its host's and of its guests'.
  bool shifted = false;
  std::uint64_t trace_id = 0, peer_id = 0;
  std::vector<RecordedGuest> guests;
};

// The names a source has for the numbers in its events; what a report needs to be read.
struct SourceInfo {
  std::string path;
  std::string kind;     // "trace.dat"
  std::string clock;    // "mono"
  bool cycles = false;  // times are cycles of a counter that nothing converts to nanoseconds
  // Times are whole multiples of this; nothing: of the clock's own unit.
  std::optional<std::uint64_t> resolution_ns = std::nullopt;
  Role role = Role::kHostKernel;
  SourceAlignment aligned = {};
};

struct SourceCounters : LossCounts {
  std::uint64_t events = 0;
  std::uint64_t lost_unplaced = 0;  // more that were counted, and nothing tells where: at the end
  // What the recorder left out on purpose (--snapshot-on); not among the losses above.
  std::uint64_t left_out_events = 0;  // the counted ones
  std::uint64_t left_out_pieces = 0;
  Timestamp first, last;             // of the events
  std::uint64_t damaged_events = 0;  // too short for their format
  std::uint64_t damaged_pages = 0;   // passed over, each a loss; known at the end
  bool counts_losses = false;        // the recording has counters of what was lost
  // Samples that the kernel lost; how often it took none for a while, since they took too long.
  std::uint64_t lost_samples = 0, throttled = 0;

  void add_event(Timestamp at) {
    if (events++ == 0) first = at;
    last = at;
  }
};

// The name of the fact that says what of a recording is damaged.
inline constexpr const char* kDamagedFact = "damaged";

// What a call of next() came to.
enum class Read : std::uint8_t {
  kEvent,    // the event is filled
  kPending,  // nothing yet: ask again later. Recordings that are whole never say so
  kEnd,      // nothing more; an error where status() is one
};

class KeptBuffers;  // read_ahead.h

class Source {
 public:
  virtual ~Source() = default;

  // Call before the first next().
  virtual void select(EventClass) {}
  // From now on the buffers that its events point into are not written again, but left to `kept`
  // (borrowed), and next() may be called by another thread than the members that tell of names and
  // of what it is. False: it cannot do that.
  virtual bool keep_buffers(KeptBuffers& /*kept*/) { return false; }

  // Fills `event` where it returns kEvent. After kPending the next event may be of any time that is
  // not before the last one's.
  [[nodiscard]] virtual Read next(Event& event) = 0;
  [[nodiscard]] virtual const Result<void>& status() const = 0;
  [[nodiscard]] virtual const SourceInfo& info() const = 0;
  [[nodiscard]] virtual SourceCounters counters() const = 0;
  // Share of the input consumed, 0 to 1.
  [[nodiscard]] virtual double progress() const = 0;

  // What it can witness of VM exits; what it is sampled for before it is read.
  [[nodiscard]] virtual Capabilities capabilities() const { return {}; }

  // What it is, before it is read.
  [[nodiscard]] virtual Description describe() const {
    Description is;
    is.path = info().path;
    is.clock = info().clock;
    is.cycles = info().cycles;
    return is;
  }
  // When its first and last event were, without reading it all; nothing where that is not known.
  [[nodiscard]] virtual std::optional<std::pair<Timestamp, Timestamp>> range() const {
    return std::nullopt;
  }
  // What reads the file, for --verbose.
  [[nodiscard]] virtual std::string reader() const { return "trapline"; }
  // What the recording says of itself, for `info`: {"host", "Linux …"}, …
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> facts() const {
    return {};
  }
  // Events by name of what was read so far.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::uint64_t>> event_counts() const {
    return {};
  }

  // Texts for people; printable. Empty where the source does not know.
  [[nodiscard]] virtual std::string event_name(const Event& event) const = 0;
  [[nodiscard]] virtual std::string event_text(const Event& event) const = 0;
  [[nodiscard]] virtual std::string comm(ThreadId) const { return {}; }
  // By the kernel's own names: of isa, reason, exception class.
  [[nodiscard]] virtual std::string exit_reason(std::uint32_t, std::uint32_t, std::uint32_t) const {
    return {};
  }
  // The kernel's function that begins at an address of HostStep::kFunctionBegin.
  [[nodiscard]] virtual std::string kernel_function(std::uint64_t) const { return {}; }
  [[nodiscard]] virtual std::string userspace_reason(std::uint32_t) const { return {}; }
};

// A source around another one, which inherits from the inner source what it does not change.
class ForwardingSource : public Source {
 public:
  explicit ForwardingSource(std::unique_ptr<Source> source) : source_(std::move(source)) {}

  void select(EventClass events) override { source_->select(events); }
  bool keep_buffers(KeptBuffers& kept) override { return source_->keep_buffers(kept); }
  [[nodiscard]] const Result<void>& status() const override { return source_->status(); }
  [[nodiscard]] const SourceInfo& info() const override { return source_->info(); }
  [[nodiscard]] SourceCounters counters() const override { return source_->counters(); }
  [[nodiscard]] double progress() const override { return source_->progress(); }
  [[nodiscard]] Capabilities capabilities() const override { return source_->capabilities(); }
  [[nodiscard]] Description describe() const override { return source_->describe(); }
  [[nodiscard]] std::optional<std::pair<Timestamp, Timestamp>> range() const override {
    return source_->range();
  }
  [[nodiscard]] std::string reader() const override { return source_->reader(); }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override {
    return source_->facts();
  }
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> event_counts() const override {
    return source_->event_counts();
  }
  [[nodiscard]] std::string event_name(const Event& event) const override {
    return source_->event_name(event);
  }
  [[nodiscard]] std::string event_text(const Event& event) const override {
    return source_->event_text(event);
  }
  [[nodiscard]] std::string comm(ThreadId thread) const override { return source_->comm(thread); }
  [[nodiscard]] std::string exit_reason(std::uint32_t isa, std::uint32_t reason,
                                        std::uint32_t exception_class) const override {
    return source_->exit_reason(isa, reason, exception_class);
  }
  [[nodiscard]] std::string kernel_function(std::uint64_t address) const override {
    return source_->kernel_function(address);
  }
  [[nodiscard]] std::string userspace_reason(std::uint32_t reason) const override {
    return source_->userspace_reason(reason);
  }

 protected:
  std::unique_ptr<Source> source_;
};

}  // namespace trapline
