#include "merge/session/recordings.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "backend_ftrace/base/text.h"
#include "merge/clock/alignment.h"
#include "merge/clock/cpu_conflict.h"
#include "merge/clock/shift_bound.h"
#include "merge/session/collected_evidence.h"
#include "merge/session/guest_alignment.h"
#include "merge/session/wrapped_sources.h"
#include "merge/source/source.h"
#include "merge/source/timeline.h"

namespace trapline {
namespace {

// One recording on its way to the timeline. `source` is read for the result.
struct Recording {
  RecordingPart part;
  std::unique_ptr<Source> source;
  Description is;
  std::optional<CollectedEvidence> evidence;
  // Set for a guest's recording that has sync records of the guest.
  std::optional<GuestRecording> guest;
  std::optional<GuestBounds> bounds;
  std::optional<GuestAlignment> aligned;
  // Set for a guest's recording that trace-cmd shifted to the clock of a host that is also here.
  std::optional<ShiftBound> shift;
  // How the recording's times become times of the timeline's clock, unless `aligned` is set.
  clocks::AlignedSource placed;
};

// Returns whether --offset names the recording, so that the user gives its relation.
bool has_offset(const InputOptions& options, const std::string& path) {
  return std::ranges::any_of(options.offsets, [&path](const std::string& text) {
    const auto offset = clocks::parse_offset(text);
    return offset && (path == offset->source || path.ends_with("/" + offset->source));
  });
}

// Returns the machine of a guest, which its vCPUs' threads identify; adds it to `guests` if new.
MachineId machine_of(const std::map<std::int32_t, ThreadId>& threads,
                     std::vector<ThreadId>& guests) {
  const ThreadId first = threads.empty() ? ThreadId{} : threads.begin()->second;
  auto found = std::ranges::find(guests, first);
  if (first == ThreadId{} || found == guests.end()) found = guests.insert(guests.end(), first);
  return guest_machine(static_cast<std::uint16_t>(found - guests.begin() + 1));
}

// For a guest that trace-cmd recorded together with its host, with shifted times: the host, and
// its threads for the guest's CPUs.
struct ShiftedGuest {
  const Recording& host;
  std::map<std::int32_t, ThreadId> threads;
};

//   paths ─→ describe ─→ evidence of guests ─→ evidence of the host ─→ align ─→ sources
//
// Each recording is opened once. If its evidence is needed, it is read to its end before it is read
// for the result; a guest whose times are shifted is read together with its host. The host's
// recording is the first one.
class Recordings {
 public:
  // Borrows both arguments, which must outlive this object.
  Recordings(const InputOptions& options, Input& input) : options_(options), input_(input) {}

  Result<void> open(const std::vector<RecordingPart>& parts) {
    if (auto done = describe(parts); !done) return done;
    if (auto done = gather_shifted(); !done) return done;
    if (auto done = gather_guests(); !done) return done;
    if (auto done = gather_host(); !done) return done;
    if (auto done = align_guests(); !done) return done;
    return align_clocks();
  }

 private:
  [[nodiscard]] bool has_host() const { return recordings_.front().is.role == Role::kHostKernel; }
  [[nodiscard]] EvidenceObserver* what_observes() const {
    return has_host() && !observed_ ? options_.observer : nullptr;
  }
  [[nodiscard]] StampClock host() const {
    return {recordings_.front().is.clock, recordings_.front().is.cycles, options_.rate_change_ppm};
  }
  // Returns whether a recording is known to be of the host's machine, by the machines' names.
  [[nodiscard]] bool same_machine(const Description& is) const {
    const std::string name = machine_name(is);
    return !name.empty() && name == machine_name(recordings_.front().is);
  }

  // Opens the parts and takes their descriptions. Moves the host's recording to the front: the
  // first one with events of KVM, wherever it was named.
  Result<void> describe(const std::vector<RecordingPart>& parts) {
    const auto is_text = [](const RecordingPart& part) {
      return part.kind == SourceKind::kTraceText;
    };
    if (!options_.unit.empty() && std::ranges::none_of(parts, is_text))
      return fail(ErrorKind::kUsage, "--unit {}: none of the recordings is a text", options_.unit);
    for (const RecordingPart& part : parts) {
      if (part.kind == SourceKind::kGuestSync) {
        const auto file = read_sync_file(part.path);
        if (!file) return tl::unexpected(file.error());
        printed_.insert(printed_.end(), file->guest.begin(), file->guest.end());
        printed_path_ = part.path;
        continue;
      }
      auto source = open_source(part, options_);
      if (!source) return tl::unexpected(std::move(source).error());
      Description is = (*source)->describe();
      recordings_.push_back({part, std::move(*source), std::move(is), {}, {}, {}, {}, {}, {}});
    }
    if (recordings_.empty()) return tl::unexpected(open_source(printed_path_, {}).error());
    // A trace as text names no clock, so nothing can align it: beside other recordings, --offset
    // must be given for all recordings but one.
    for (const Recording& recording : recordings_) {
      if (recording.part.kind != SourceKind::kTraceText || recordings_.size() == 1) continue;
      if (std::ranges::count_if(
              recordings_,
              [this](const Recording& one) { return has_offset(options_, one.part.path); }) +
              1 >=
          std::ssize(recordings_)) {
        continue;
      }
      return fail(ErrorKind::kUsage,
                  "{}: a trace as text does not say its clock, so nothing aligns it with other "
                  "recordings; give --offset {}=NS, the nanoseconds to add to its times",
                  recording.part.path, recording.part.path);
    }
    const auto host = std::ranges::find_if(recordings_, [](const Recording& recording) {
      return recording.is.role == Role::kHostKernel && recording.is.has.any_kvm;
    });
    if (host != recordings_.end()) std::rotate(recordings_.begin(), host, host + 1);
    return {};
  }

  // Reads the first recording of `all` to its end. The others are guests whose shift it checks;
  // they are read with it, in order of time.
  Result<void> collect_evidence(const std::vector<Recording*>& all, const Collect& what) {
    Recording& first = *all.front();
    if (first.evidence) return {};
    std::vector<std::unique_ptr<Source>> sources;
    std::vector<Collector> collectors;
    for (const Recording* one : all) {
      auto again = one->source->again();
      if (!again) return tl::unexpected(std::move(again).error());
      sources.push_back(std::move(*again));
      collectors.emplace_back(one == &first ? what : Collect{.times = true});
    }
    EvidenceObserver* observer = &first == &recordings_.front() ? what_observes() : nullptr;
    // A recording that is alone needs no alignment, so the observer's exits are enough.
    if (observer != nullptr && recordings_.size() == 1) sources[0]->select(EventClass::kExits);
    Timeline timeline(std::move(sources));
    if (observer != nullptr) {
      input_.processes.merge(first.is.processes);
      observer->begin(timeline.source(0), first.is.has, input_.processes);
    }
    for (Event event; timeline.next(event) == Read::kEvent;) {
      collectors[event.source].on(event);
      if (event.source != 0) {
        all[event.source]->shift->on_guest(event);
        continue;
      }
      for (std::size_t i = 1; i < all.size(); ++i) all[i]->shift->on_host(event);
      if (observer != nullptr) observer->on(event);
    }
    for (std::size_t i = 0; i < all.size(); ++i) all[i]->evidence = collectors[i].take();
    if (observer == nullptr) return {};
    observed_ = true;
    observer->end(timeline.source(0).status());
    return {};
  }

  // Reads each host with the guests that trace-cmd recorded with it and whose times it shifted: a
  // guest's events must be in the runs of its vCPUs, which shows how far the shift may be off.
  Result<void> gather_shifted() {
    for (Recording& host : recordings_) {
      std::vector<Recording*> all{&host};
      for (Recording& one : recordings_) {
        const auto guest = shifted_guest(one);
        if (!guest || &guest->host != &host || guest->threads.empty()) continue;
        if (has_offset(options_, one.part.path)) continue;
        if (has_offset(options_, host.part.path)) {
          return fail(
              ErrorKind::kUsage,
              "{}: trace-cmd shifted its times to the clock of {}; give --offset {}=NS too, "
              "the nanoseconds to add to its times",
              one.part.path, host.part.path, one.part.path);
        }
        one.shift.emplace(guest->threads);
        all.push_back(&one);
      }
      if (all.size() == 1) continue;
      if (auto done = collect_evidence(all, {}); !done) return done;
    }
    return {};
  }

  // Returns the records that `trapline sync` printed, if the recording is of another machine than
  // the host. They are of one guest, so recordings of several such machines are an Error.
  Result<std::vector<GuestSyncLine>> printed_in(const Recording& recording) const {
    if (printed_.empty() || same_machine(recording.is)) return std::vector<GuestSyncLine>();
    for (const Recording& other : recordings_) {
      if (&other == &recordings_.front() || other.guest == std::nullopt) continue;
      if (same_machine(other.is)) continue;
      if (machine_name(other.is) == machine_name(recording.is)) continue;
      return fail(
          ErrorKind::kUsage,
          "{}: it holds sync records of one guest, and {} and {} are of different machines; "
          "put it into the uftrace directory of its guest as sync.txt",
          printed_path_, other.part.path, recording.part.path);
    }
    return printed_;
  }

  Result<void> gather_guests() {
    bool used = printed_.empty();
    for (Recording& recording : recordings_) {
      const bool may =
          recording.part.kind == SourceKind::kUftrace || recording.is.role == Role::kHostKernel;
      const bool is_host = &recording == &recordings_.front();
      if (!has_host() || !may || is_host || has_offset(options_, recording.part.path)) continue;
      if (auto gathered = gather_guest(recording); !gathered) return gathered;
      used |= recording.guest && recording.guest->inside && !recording.guest->syncs.empty();
    }
    if (used) return {};
    return fail(
        ErrorKind::kUsage,
        "{}: no recording is of another machine than {}, so it aligns none; where guest and "
        "host have the same name, put it into the guest's uftrace directory as sync.txt",
        printed_path_, recordings_.front().part.path);
  }

  Result<void> gather_guest(Recording& recording) {
    const bool of_tasks = recording.part.kind == SourceKind::kUftrace;
    GuestRecording guest;
    if (of_tasks) {
      auto file = read_sync_file(recording.part.path + "/sync.txt");
      if (!file) return tl::unexpected(std::move(file).error());
      guest.syncs = std::move(file->guest);
    } else {
      auto collected = collect_evidence({&recording}, {.times = true});
      if (!collected) return collected;
      guest.syncs = recording.evidence->guest_markers.lines();
      guest.brackets = recording.evidence->syncs;
      const auto actions = recording.evidence->guest_markers.clocks();
      guest.brackets.insert(guest.brackets.end(), actions.begin(), actions.end());
      std::ranges::stable_sort(guest.brackets, {},
                               [](const clocks::SyncEntry& entry) { return entry.point.stamp; });
    }
    // A sync record with a stamp comes from the plugin, which is outside the guest.
    guest.inside = !of_tasks || guest.syncs.empty() || !guest.syncs.front().stamp;
    guest.clock = recording.is.clock;
    guest.cycles = guest.inside && recording.is.cycles;
    guest.same_machine = same_machine(recording.is);
    if (guest.inside) {
      auto printed = printed_in(recording);
      if (!printed) return tl::unexpected(std::move(printed).error());
      guest.own_syncs = !of_tasks && printed->empty();
      // guest.syncs and *printed may have the same series: `trapline sync` writes each series to
      // trace_marker and prints it.
      std::set<std::uint32_t> known;
      for (const GuestSyncLine& line : guest.syncs) known.insert(line.record.series);
      for (const GuestSyncLine& line : *printed)
        if (!known.contains(line.record.series)) guest.syncs.push_back(line);
    }
    if (guest.syncs.empty()) return {};
    if (of_tasks) {
      const Collect what{.times = true, .of_tasks = true, .of_vcpus = !guest.inside};
      if (auto collected = collect_evidence({&recording}, what); !collected) return collected;
    }
    guest.times = std::move(recording.evidence->times);
    recording.guest = std::move(guest);
    return {};
  }

  // Makes one pass over the host's recording, if a guest or an observer needs it.
  Result<void> gather_host() {
    Collect what{.runs = true};
    for (Recording& recording : recordings_) {
      if (!recording.guest || recording.guest->syncs.empty()) continue;
      auto bounds = guest_bounds(*recording.guest, host());
      if (!bounds)
        return fail(bounds.error().kind, "{}: {}", recording.part.path, bounds.error().message);
      recording.bounds = std::move(*bounds);
    }
    for (Recording& recording : recordings_)
      if (recording.bounds) what.guests.push_back(&*recording.bounds);
    what.runs = !what.guests.empty();
    if (what.guests.empty() && what_observes() == nullptr) return {};
    recordings_.front()
        .evidence.reset();  // what gather_shifted() collected lacks the guests' bounds
    return collect_evidence({&recordings_.front()}, what);
  }

  Result<void> align_guests() {
    for (Recording& recording : recordings_) {
      if (!recording.bounds) continue;
      const CollectedEvidence& of_host = *recordings_.front().evidence;
      Processes processes = of_host.processes;
      processes.merge(input_.processes);
      auto aligned = align_guest(*recording.guest, *recording.bounds, host(), of_host, processes);
      if (!aligned) {
        return fail(aligned.error().kind,
                    "{} and {}: {}; or give --offset {}=NS, the nanoseconds to add to its times",
                    recording.part.path, recordings_.front().part.path, aligned.error().message,
                    recording.part.path);
      }
      recording.aligned = std::move(*aligned);
    }
    return {};
  }

  // Gives a recording with a time shift the clock of its host's recording. A recording whose host
  // is not among these keeps a clock of its own.
  void take_hosts_clock(const Recording& recording, clocks::SourceClock& clock) const {
    clock.clock = clocks::kHostsClock;
    const auto guest = shifted_guest(recording);
    if (!guest || guest->host.aligned) return;
    const Description& host = guest->host.is;
    clock.clock = host.clock;
    clock.machine = machine_name(host);
    clock.cycles = host.cycles;
    clock.nanoseconds_of_tsc = host.nanoseconds_of_tsc;
    clock.owner = host.path;
  }

  Result<std::vector<clocks::SourceClock>> read_clocks(bool with_syncs) {
    std::vector<clocks::SourceClock> all;
    const auto alone =
        std::ranges::count_if(recordings_, [](const Recording& one) { return !one.aligned; }) == 1;
    for (Recording& recording : recordings_) {
      if (recording.aligned) continue;
      clocks::SourceClock& clock = all.emplace_back(clock_of(recording.is));
      if (alone) {  // a single recording needs no alignment
        clock.applied.clear();
        break;
      }
      if (recording.is.shifted) take_hosts_clock(recording, clock);
      if (const auto range = recording.source->range())
        clock.interval = clocks::Interval{range->first.ns(), range->second.ns()};
      if (!with_syncs) continue;
      const auto known = add_known_evidence(clock);
      if (!known) return tl::unexpected(known.error());
      if (*known) continue;
      if (auto collected = collect_evidence({&recording}, {}); !collected)
        return tl::unexpected(std::move(collected).error());
      add_evidence(*recording.evidence, clock);
    }
    std::vector<clocks::OffsetOption> offsets;
    for (const std::string& text : options_.offsets) {
      auto offset = clocks::parse_offset(text);
      if (!offset) return tl::unexpected(std::move(offset).error());
      offsets.push_back(std::move(*offset));
    }
    if (auto applied = clocks::apply_offsets(offsets, all); !applied)
      return tl::unexpected(std::move(applied).error());
    return all;
  }

  // Leaves out, with a note, a session's part that nothing aligns, if another of its parts remains.
  bool leave_out_last(const std::string& why) {
    const auto last = std::find_if(recordings_.rbegin(), recordings_.rend(),
                                   [](const Recording& one) { return !one.aligned; });
    if (last == recordings_.rend() || last->part.named || &*last == &recordings_.front())
      return false;
    const auto folder = [](const Recording& one) {
      return std::filesystem::path(one.part.path).parent_path();
    };
    const bool stays = std::ranges::any_of(recordings_, [&](const Recording& one) {
      return &one != &*last && !one.part.named && folder(one) == folder(*last);
    });
    if (!stays) return false;
    input_.notes.push_back(fmt::format("{} is left out: {}", last->part.path, why));
    recordings_.erase(std::next(last).base());
    return true;
  }

  // Returns nullopt if the guest's host is not among these recordings.
  std::optional<ShiftedGuest> shifted_guest(const Recording& recording) const {
    if (!recording.is.shifted) return std::nullopt;
    for (const Recording& host : recordings_) {
      if (&host == &recording || host.is.shifted) continue;
      const auto guest =
          std::ranges::find(host.is.guests, recording.is.trace_id, &RecordedGuest::trace_id);
      const bool named = recording.is.trace_id != 0 && guest != host.is.guests.end();
      const bool is_peer = recording.is.peer_id != 0 && host.is.trace_id == recording.is.peer_id;
      if (!named && !is_peer) continue;
      return ShiftedGuest{host, named ? guest->threads : std::map<std::int32_t, ThreadId>()};
    }
    return std::nullopt;
  }

  // Says how far trace-cmd's shift of a guest's times may be off; the Error: too far.
  Result<void> check_shift(Recording& recording) const {
    // The greatest error of a right shift, in ns: a round trip of trace-cmd's messages takes less.
    constexpr std::uint64_t kMostOff = 1'000'000;
    const auto guest = shifted_guest(recording);
    const auto found = guest && recording.shift ? recording.shift->found() : std::nullopt;
    if (!found || recording.aligned) return {};
    clocks::AlignedSource& aligned = recording.placed;
    if (found->off_ns > kMostOff) {
      return fail(
          "{} and {}: trace-cmd's time shift is not that of these recordings: the guest's event "
          "at {} would be {} ns outside of its vCPU's runs, which left the guest at {} and went "
          "back at {}; record both again, or give --offset {}=NS, the nanoseconds to add to its "
          "times",
          recording.part.path, guest->host.part.path, seconds_text(found->farthest.ns()),
          found->off_ns, seconds_text(found->exit.ns()), seconds_text(found->entry.ns()),
          recording.part.path);
    }
    if (found->outside != 0) {
      aligned.notes = {fmt::format(
          "{}: trace-cmd's time shift is off by {} ns or more: {} of its {} events lie outside of "
          "their vCPUs' runs",
          recording.part.path, found->off_ns, found->outside, found->outside + found->events)};
      return {};
    }
    aligned.notes.clear();
    aligned.error_ns = static_cast<std::uint64_t>(std::max(-found->least, found->most));
    aligned.rate_change_ppm = 0;  // the bound assumes one constant error of the shift
    aligned.method = fmt::format("time shift; all {} events lie in {} runs of the vCPUs",
                                 found->events, found->runs);
    return {};
  }

  // Reads the kernels' recordings once more, together: two that have different threads on one CPU
  // at the same time are not of one boot.
  Result<void> check_cpus(const std::string& clock) const {
    std::vector<std::unique_ptr<Source>> sources;
    std::vector<CpuConflicts::Source> known;
    for (const Recording& recording : recordings_) {
      if (recording.aligned || recording.is.role != Role::kHostKernel || recording.is.shifted ||
          has_offset(options_, recording.part.path))
        continue;
      const clocks::AlignedSource& one = recording.placed;
      known.push_back({recording.is.has.sched_switch,
                       one.error_ns.value_or(one.one_boot_error_ns.value_or(0))});
      auto again = recording.source->again();
      if (!again) return tl::unexpected(std::move(again).error());
      (*again)->select(EventClass::kExits);
      sources.push_back(with_clock(std::move(*again), one, clock));
    }
    if (sources.size() < 2) return {};
    Timeline timeline(std::move(sources));
    CpuConflicts conflicts(std::move(known));
    for (Event event; timeline.next(event) == Read::kEvent;) conflicts.on(event);
    const auto found = conflicts.first();
    if (!found) return {};  // the pass for the result reports a faulty recording
    const auto describe = [&timeline](const Event& event) {
      const Source& source = timeline.source_of(event);
      return fmt::format("{} at {}", source.event_name(event), seconds_text(event.at.ns()));
    };
    const Source &one = timeline.source_of(found->from), &other = timeline.source_of(found->at);
    return fail(
        "{} and {}: they put different threads on one CPU at one time, so they are not of one "
        "boot, or their clocks do not agree: on CPU {} thread {} ran from {} to {}, and thread {} "
        "did {}; leave one of them out, or give --offset {}=NS, the nanoseconds to add to its "
        "times",
        one.info().path, other.info().path, found->from.cpu,
        static_cast<std::int32_t>(found->from.thread), describe(found->from), describe(found->to),
        static_cast<std::int32_t>(found->at.thread), describe(found->at), other.info().path);
  }

  Result<void> align_clocks() {
    auto clocks = read_clocks(false);
    if (!clocks) return tl::unexpected(std::move(clocks).error());
    if (!clocks::same_clocks(*clocks)) clocks = read_clocks(true);
    if (!clocks) return tl::unexpected(std::move(clocks).error());
    auto aligned = clocks::align(*clocks, options_.rate_change_ppm);
    while (!aligned && leave_out_last(aligned.error().message)) {
      clocks->pop_back();
      aligned = clocks::align(*clocks, options_.rate_change_ppm);
    }
    if (!aligned) return tl::unexpected(std::move(aligned).error());
    auto one = aligned->sources.begin();
    for (Recording& recording : recordings_)
      if (!recording.aligned) recording.placed = std::move(*one++);
    if (auto checked = check_cpus(aligned->clock); !checked) return checked;
    for (Recording& recording : recordings_)
      if (auto checked = check_shift(recording); !checked) return checked;
    std::vector<ThreadId> guests;  // the thread of one vCPU of each guest
    std::size_t kernels = 0;
    for (Recording& recording : recordings_) {
      if (recording.aligned) continue;
      const clocks::AlignedSource& placed = recording.placed;
      const auto guest = shifted_guest(recording);
      if (!guest) {
        input_.capabilities.merge(recording.is.has);
        if (recording.is.recorder != 0) input_.processes.recorder = ThreadId{recording.is.recorder};
        if (recording.is.selected != 0) input_.processes.selected = ThreadId{recording.is.selected};
        input_.processes.merge(recording.is.processes);
      }
      for (const std::string& note : placed.notes) input_.notes.push_back(note);
      if (recording.is.role == Role::kHostKernel && !guest) ++kernels;
      if (input_.sources.empty()) input_.observed = placed.map.is_identity();
      auto source = with_clock(std::move(recording.source), placed, aligned->clock);
      if (recording.part.kind == SourceKind::kUftrace) {
        auto file = read_sync_file(recording.part.path + "/sync.txt");
        if (file) source = with_vcpu_threads(std::move(source), std::move(file->threads));
      }
      if (guest) {
        source = with_guest_threads(std::move(source), guest->threads,
                                    machine_of(guest->threads, guests));
      }
      input_.sources.push_back(std::move(source));
    }
    input_.observed &= options_.observer != nullptr && has_host() && kernels == 1;
    for (Recording& recording : recordings_) {
      if (!recording.aligned) continue;
      if (recording.guest->inside) {
        input_.sources.push_back(
            with_guest_alignment(std::move(recording.source), *recording.aligned,
                                 machine_of(recording.aligned->threads, guests)));
        continue;
      }
      input_.sources.push_back(with_guest_calls(std::move(recording.source), *recording.aligned));
    }
    return {};
  }

  const InputOptions& options_;
  Input& input_;
  std::vector<Recording> recordings_;
  bool observed_ = false;  // the observer has seen the host's recording
  // The output of `trapline sync` in a guest, and where it was read.
  std::vector<GuestSyncLine> printed_;
  std::string printed_path_;
};

}  // namespace

Result<void> open_recordings(const InputOptions& options, Input& input,
                             const std::vector<RecordingPart>& parts) {
  return Recordings(options, input).open(parts);
}

}  // namespace trapline
