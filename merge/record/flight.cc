#include "merge/record/flight.h"

#include <unistd.h>

#include <algorithm>

#include "backend_ftrace/base/size.h"
#include "backend_ftrace/clock.h"
#include "merge/record/setup.h"
#include "merge/record/threads.h"

namespace trapline::record {
namespace {

constexpr unsigned kRoundsForAll = 100'000;  // 25 GiB a CPU in pages of 4 KiB: more than any buffer
// Estimated bytes of trace.dat's head: kernel symbols, event formats.
constexpr std::uint64_t kHeadBytes = 16u << 20;

}  // namespace

Result<Flight> Flight::open(const RecordOptions& options) {
  auto store = FlightStore::open(options.folder, options.flight->budget_mb << 20);
  if (!store) return tl::unexpected(std::move(store).error());
  for (const std::string& name : store->remove_halves())
    options.say("removed the half snapshot of a recorder that was killed: " + name);
  auto control = FlightControl::open(store->folder());
  if (!control) return tl::unexpected(std::move(control).error());
  return Flight(options, std::move(*store), std::move(*control));
}

FlightRing& Flight::start(const PageReader& reader) {
  return ring_.emplace(RingLimits{.keep_ns = options_->flight->span_ns,
                                  .ring_bytes = std::size_t{options_->flight->ring_mb} << 20,
                                  .cpus = reader.cpus()});
}

void Flight::look_for_hit(const SnapshotFacts& found) {
  const bool ended = found.hits != std::exchange(hits_, found.hits);
  const bool lasts = found.certain != std::exchange(certain_, found.certain);
  if ((!ended && !lasts) || due_ != 0) return;
  const SessionHit& hit = ended ? found.latest : found.latest_certain;
  const double ms = static_cast<double>(hit.ns) / 1e6;
  const std::string& text = options_->snapshot->trigger.text;
  due_why_ = ended
                 ? fmt::format("{}: {} of thread {} took {:.3f} ms", text, hit.reason, hit.tid, ms)
                 : fmt::format("{}: thread {} for {:.3f} ms, and it lasts", text, hit.tid, ms);
  due_ = std::max<std::uint64_t>(read_clock(ClockId::kMono) + options_->snapshot->around_ns, 1);
}

std::string Flight::take_due() {
  due_ = 0;
  return due_why_;
}

// Reads until every CPU was found empty twice. The first time, all events made before this call
// have been read. But when the newest event so far was read, another CPU might still have had an
// older one. The second time shows that none is left, so the events are complete up to that time.
Result<std::uint64_t> Flight::read_all(PageReader& reader, PageSinks sinks) {
  auto drained = reader.rounds(sinks, kRoundsForAll);
  const std::uint64_t complete = ring_->newest();
  if (drained) drained = reader.rounds(sinks, kRoundsForAll);
  return drained.map([complete](bool) { return complete; });
}

Result<void> Flight::check_spacing() {
  const std::uint64_t now = read_clock(ClockId::kMono), spacing = options_->flight->spacing_ns;
  if (last_ == 0 || now - last_ >= spacing) return {};
  ++refused_;
  return fail(
      "no snapshot: the last one was taken {:.1f} s ago, and there is at most one in {:g} s "
      "(--spacing)",
      static_cast<double>(now - last_) / 1e9, static_cast<double>(spacing) / 1e9);
}

Window Flight::cut(std::uint64_t complete) const {
  return {std::min(ring_->begin(), complete), complete};
}

Result<std::string> Flight::write(const Instance& instance, const std::vector<EventName>& events,
                                  const Window& cut, SessionJson& session,
                                  const std::string& cmdlines) {
  const std::uint64_t now = read_clock(ClockId::kMono);
  auto removed = store_.make_room(ring_->held_bytes() * 5 / 4 + kHeadBytes);
  if (!removed) return tl::unexpected(std::move(removed).error());
  for (const std::string& name : *removed) say("removed the oldest snapshot: " + name);
  SessionFlight& flight = *session.flight;
  flight.span_ns = options_->flight->span_ns;
  flight.from_ns = cut.from_ns;
  flight.to_ns = cut.to_ns;
  flight.shortened = ring_->is_short();
  flight.refused = refused_;
  store_.follow_rename();
  const std::string name = store_.name_for(session.end_real_ns);
  auto writer = SessionWriter::make(make_session(store_.folder(), name), session);
  if (!writer) return tl::unexpected(std::move(writer).error());
  const auto kept = writer->keep_ring(open_page_files(*writer, instance, *options_, events), *ring_,
                                      cut.from_ns, cut.to_ns, session, cmdlines);
  if (!kept) return tl::unexpected(kept.error());
  last_ = now;
  refused_ = 0;
  const std::string path = store_.folder().path_of(name);
  say_snapshot(path, session);
  return path;
}

void Flight::say_what_it_does() const {
  const FlightOptions& requested = *options_->flight;
  const double mib_per_cpu = static_cast<double>(options_->buffer_kb) / 1024;
  say(fmt::format(
      "holds the last {:g} s of events in at most {} MiB (--ring-size), beside the kernel's "
      "buffers, {:g} MiB for each of {} CPUs (--buffer-size)",
      static_cast<double>(requested.span_ns) / 1e9, requested.ring_mb, mib_per_cpu, ring_->cpus()));
  say(fmt::format(
      "writes nothing until asked: trapline snapshot {}, kill -USR1 {}{}", options_->folder,
      ::getpid(),
      options_->snapshot ? fmt::format(", or '{}'", options_->snapshot->trigger.text) : ""));
  say(
      fmt::format("snapshots: at most one in {:g} s (--spacing), together at most {} MiB "
                  "(--disk-budget), beyond that the oldest is deleted",
                  static_cast<double>(requested.spacing_ns) / 1e9, requested.budget_mb));
}

void Flight::say_snapshot(const std::string& path, const SessionJson& session) const {
  const SessionFlight& flight = *session.flight;
  const std::string reason = flight.why.empty() ? "" : fmt::format(" ({})", flight.why);
  say(fmt::format("snapshot: {}: the last {:.1f} s{}", path,
                  static_cast<double>(flight.to_ns - flight.from_ns) / 1e9, reason));
  if (flight.shortened) {
    say(fmt::format("it is shorter than {:g} s, since the ring was full: --ring-size {} holds more",
                    static_cast<double>(flight.span_ns) / 1e9,
                    size_text(2 * options_->flight->ring_mb * kMib)));
  }
  std::uint64_t lost = 0;
  for (const CpuLoss& loss : session.losses) lost += loss.overwritten;
  if (lost != 0)
    say(fmt::format("the kernel lost {} events in it; --buffer-size {} loses fewer", lost,
                    size_text(4 * options_->buffer_kb * kKib)));
}

}  // namespace trapline::record
