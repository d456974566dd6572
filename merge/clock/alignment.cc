#include "merge/clock/alignment.h"

#include <algorithm>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/clock/assumption.h"

namespace trapline::clocks {
namespace {

// A clock of a machine. `owner`: the source, if no other source can have the clock.
struct Clock {
  std::string name;
  std::string machine;
  std::string owner;
  bool cycles = false;
};

Clock clock_of(const SourceClock& source) {
  Clock clock{source.clock, source.machine, "", source.cycles};
  const auto id = clock_from_name(source.clock);
  if (id) clock.name = clock_name(*id);
  // ftrace's clock `counter` counts the events of one instance, so no other source has it.
  if (id == ClockId::kCounter || source.nanoseconds_of_tsc || !id)
    clock.owner = source.owner.empty() ? source.path : source.owner;
  return clock;
}

bool same_machine(const Clock& a, const Clock& b) {
  return a.machine.empty() || b.machine.empty() || a.machine == b.machine;
}
bool same(const Clock& a, const Clock& b) {
  return a.name == b.name && a.owner == b.owner && a.cycles == b.cycles && same_machine(a, b);
}
std::optional<ClockId> readable(const Clock& clock) {
  if (!clock.owner.empty()) return std::nullopt;
  const auto id = clock_from_name(clock.name);
  if (!id || !is_readable(*id) || (*id == ClockId::kTsc) != clock.cycles) return std::nullopt;
  return id;
}

// Adds the brackets between the clocks `from` and `to` that the sync records of `witness` give.
void add_brackets(const SourceClock& witness, const Clock& from, const Clock& to,
                  std::vector<ClockBound>& brackets) {
  const Clock stamps = clock_of(witness);
  if (!same_machine(stamps, from) || !same_machine(stamps, to)) return;
  const auto from_id = readable(from), to_id = readable(to);
  const bool stamps_from = same(stamps, from), stamps_to = same(stamps, to);
  for (const SyncEntry& entry : witness.syncs) {
    const SyncPoint& p = entry.point;
    const auto has = [&p](ClockId id) { return p.before.at(id) != 0 && p.after.at(id) != 0; };
    if (stamps_from && to_id && has(*to_id)) {
      brackets.push_back(ClockBound::readings(p.stamp, p.stamp, p.before.at(*to_id),
                                              p.after.at(*to_id), entry.series));
    } else if (stamps_to && from_id && has(*from_id)) {
      brackets.push_back(ClockBound::readings(p.before.at(*from_id), p.after.at(*from_id), p.stamp,
                                              p.stamp, entry.series));
    } else if (from_id && to_id && has(*from_id) && has(*to_id)) {
      // All readings before the marker were taken before all readings after it.
      brackets.push_back(ClockBound::readings(p.before.at(*from_id), p.after.at(*from_id),
                                              p.before.at(*to_id), p.after.at(*to_id),
                                              entry.series));
    }
  }
}

// The tick of ftrace's clock `uptime`, in ns: a hundredth of a second, whatever the kernel's tick.
constexpr double kUptimeTick = 1e7;
double unit(const Clock& clock) { return clock.name == "uptime" ? kUptimeTick : 1; }

RateWindow rate_window(const Clock& from, const Clock& to) {
  if (from.cycles != to.cycles) return kAnyRate;
  const double rate = unit(from) / unit(to);
  return {rate * kNanoseconds.least, rate * kNanoseconds.most};
}

Drive drive_of(const Clock& clock) {
  if (clock.cycles || !clock.owner.empty()) return Drive::kCounter;
  return clocks::drive_of(clock.name);
}

// Aligns a source by brackets. `witness`: the source whose sync records the brackets are from.
Result<AlignedSource> by_brackets(const SourceClock& source, std::span<const ClockBound> brackets,
                                  const Clock& from, const Clock& to, const SourceClock& witness,
                                  std::optional<double> rate_change_ppm) {
  const auto relation =
      relate(brackets, witness.syncs, {clock_from_name(from.name), drive_of(from)},
             {clock_from_name(to.name), drive_of(to)}, rate_window(from, to), rate_change_ppm,
             source.interval);
  if (!relation) return tl::unexpected(relation.error());
  AlignedSource aligned{relation->alignment("sync records"), {}};
  if (relation->groups() == 1) {
    aligned.notes.push_back(fmt::format(
        "{}: one sync record only: the error grows by an assumed drift of {} ppm away from it",
        source.path, kApartPpm));
  }
  return aligned;
}

Result<AlignedSource> by_offset(const SourceClock& source) {
  AlignedSource aligned;
  aligned.map = ClockMap::offset(*source.offset);
  aligned.offset_ns = *source.offset;
  aligned.error_ns.reset();
  aligned.method = "offset option";
  aligned.notes.push_back(
      fmt::format("{}: the offset is the user's; its error is not known", source.path));
  return aligned;
}

std::string named(const Clock& clock) {
  return clock.owner.empty() || clock.name == kHostsClock || clock.name.empty()
             ? clock.name
             : clock.name + " of its own";
}

// Aligns one source. Sets `witness` to the source whose sync records relate the two clocks.
Result<AlignedSource> align_one(std::span<const SourceClock> sources, std::size_t i,
                                const Clock& timeline, std::optional<double> rate_change_ppm,
                                const SourceClock*& witness) {
  const SourceClock& source = sources[i];
  const Clock clock = clock_of(source);
  if (source.offset) return by_offset(source);
  if (same(clock, timeline)) {
    AlignedSource aligned;
    aligned.method = source.applied;
    if (source.shifted) {
      aligned.error_ns.reset();
      aligned.notes.push_back(
          fmt::format("{}: trace-cmd moved its times to its host's clock; their error is not known",
                      source.path));
    }
    return aligned;
  }
  std::vector<ClockBound> brackets;
  // Tries the source's own records first: one witness is enough, and two would have to be merged in
  // order.
  add_brackets(source, clock, timeline, brackets);
  for (const SourceClock& other : sources) {
    if (!brackets.empty()) break;
    add_brackets(other, clock, timeline, brackets);
    witness = &other;
  }
  if (brackets.empty()) return fail("no sync record has both clocks");
  auto aligned = by_brackets(source, brackets, clock, timeline, *witness, rate_change_ppm);
  if (aligned && !source.applied.empty()) aligned->method = source.applied + ", sync records";
  return aligned;
}

// Returns the first source on the timeline's clock, except number `but`, as an example for a
// message; another source if there is none.
const SourceClock& holder(std::span<const SourceClock> sources, const Clock& timeline,
                          std::size_t but) {
  for (const SourceClock& source : sources)
    if (&source != &sources[but] && same(clock_of(source), timeline)) return source;
  return sources[but == 0 && sources.size() > 1 ? 1 : 0];
}

bool other_boot(const Boot& a, const Boot& b) {
  return !a.id.empty() && !b.id.empty() && a.id != b.id;
}
bool same_boot(const Boot& a, const Boot& b) {
  return (!a.id.empty() && a.id == b.id) || (!a.session.empty() && a.session == b.session);
}

// Returns whether the alignment assumes that the source is of the timeline's boot, which is the
// first source's. Offsets that a user gave and evidence that names the guest need no such
// assumption.
bool assumes_one_boot(std::span<const SourceClock> sources, const SourceClock& source,
                      const SourceClock& witness) {
  const auto first = std::ranges::find_if(
      sources, [](const SourceClock& one) { return !one.offset && !one.shifted; });
  if (source.offset || source.shifted || first == sources.end()) return false;
  const auto is_known = [&](const SourceClock& one) {
    return &one == &*first || same_boot(one.boot, first->boot);
  };
  return !is_known(source) || !is_known(witness);
}

Result<Alignment> align_to(std::span<const SourceClock> sources, const Clock& timeline,
                           std::optional<double> rate_change_ppm) {
  Alignment all;
  all.clock = timeline.name;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const SourceClock* witness = &sources[i];
    auto one = align_one(sources, i, timeline, rate_change_ppm, witness);
    if (!one) {
      const SourceClock& other = holder(sources, timeline, i);
      return fail(
          "{}: its clock is {}, that of {} is {}, and nothing aligns them ({}); record both on "
          "the same clock, or give --offset {}=NS, the nanoseconds to add to its times",
          sources[i].path, named(clock_of(sources[i])), other.path, named(clock_of(other)),
          one.error().message, sources[i].path);
    }
    if (assumes_one_boot(sources, sources[i], *witness))
      one->one_boot_error_ns = std::exchange(one->error_ns, std::nullopt);
    all.sources.push_back(std::move(*one));
  }
  return all;
}

// Returns the reason why two sources on a clock of the same name were on different machines or
// boots; nullopt if there is none.
std::optional<std::string> not_one_boot(const SourceClock& a, const SourceClock& b) {
  if (!a.system.empty() && !b.system.empty() && a.system != b.system)
    return fmt::format("they were recorded on {} and on {}", a.system, b.system);
  if (a.cpus != 0 && b.cpus != 0 && a.cpus != b.cpus)
    return fmt::format("they were recorded on machines with {} and {} CPUs", a.cpus, b.cpus);
  if (same_boot(a.boot, b.boot)) return std::nullopt;
  if (!a.interval || !b.interval || a.interval->first > a.interval->last ||
      b.interval->first > b.interval->last)
    return std::nullopt;
  const bool a_first = a.interval->first < b.interval->first;
  const SourceClock &early = a_first ? a : b, &late = a_first ? b : a;
  if (early.interval->last >= late.interval->first) return std::nullopt;
  return fmt::format("{} ends at {} and {} begins at {}", early.path,
                     seconds_text(early.interval->last), late.path,
                     seconds_text(late.interval->first));
}

Result<void> check_boots(std::span<const SourceClock> sources) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const SourceClock &a = sources[j], &b = sources[i];
      if (a.offset || b.offset || a.shifted || b.shifted) continue;
      if (other_boot(a.boot, b.boot)) {
        return fail(
            "{} and {}: they were recorded in different boots ({} and {}), each with clocks of its "
            "own; record both at one time, or give --offset {}=NS, the nanoseconds to add to its "
            "times",
            a.path, b.path, a.boot.id, b.boot.id, b.path);
      }
      if (!same(clock_of(a), clock_of(b))) continue;
      if (const auto why = not_one_boot(a, b)) {
        return fail(
            "{} and {}: both are on a clock {}, but not on the same one: {}; record both at one "
            "time, or give --offset {}=NS, the nanoseconds to add to its times (0 where it is one "
            "clock after all)",
            a.path, b.path, named(clock_of(a)), *why, b.path);
      }
    }
  }
  return {};
}

}  // namespace

bool same_clocks(std::span<const SourceClock> sources) {
  return std::all_of(sources.begin(), sources.end(), [&](const SourceClock& source) {
    return source.offset || same(clock_of(source), clock_of(sources.front()));
  });
}

Result<Alignment> align(std::span<const SourceClock> sources,
                        std::optional<double> rate_change_ppm) {
  if (sources.empty()) return Alignment{};
  if (auto one = check_boots(sources); !one) return tl::unexpected(std::move(one).error());
  // A source with an offset does not provide the timeline's clock, unless all sources have one: its
  // times are moved to another source's clock.
  std::vector<Clock> candidates;
  for (const SourceClock& source : sources)
    if (!source.offset) candidates.push_back(clock_of(source));
  if (candidates.empty()) candidates.push_back(clock_of(sources.front()));
  // Clocks that count ns come first: on `uptime`, all times would be rounded to hundredths of a
  // second.
  std::stable_partition(candidates.begin(), candidates.end(),
                        [](const Clock& clock) { return unit(clock) == 1; });
  candidates.insert(candidates.begin() + (unit(candidates.front()) == 1 ? 1 : 0),
                    Clock{"mono", candidates.front().machine, "", false});
  std::optional<Error> first_error;
  for (const Clock& candidate : candidates) {
    auto aligned = align_to(sources, candidate, rate_change_ppm);
    if (aligned) return aligned;
    if (!first_error) first_error = std::move(aligned).error();
  }
  return tl::unexpected(std::move(*first_error));
}

Result<OffsetOption> parse_offset(std::string_view text) {
  const auto equals = text.rfind('=');
  if (equals != text.npos && equals > 0) {
    std::string_view number = text.substr(equals + 1);
    if (number.starts_with('+')) number.remove_prefix(1);
    OffsetOption option{std::string(text.substr(0, equals)), 0};
    if (take_number(number, option.ns) && number.empty() && option.ns > -(std::int64_t{1} << 62) &&
        option.ns < std::int64_t{1} << 62)
      return option;
  }
  return fail(ErrorKind::kUsage,
              "--offset {}: expected SOURCE=NS, as in --offset uftrace.data=-1500000", text);
}

Result<void> apply_offsets(std::span<const OffsetOption> options, std::span<SourceClock> sources) {
  for (const OffsetOption& option : options) {
    std::vector<SourceClock*> named;
    const auto number = parse_number(option.source);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const std::string& path = sources[i].path;
      if (path == option.source || path.ends_with("/" + option.source) || number == i + 1)
        named.push_back(&sources[i]);
    }
    if (named.size() != 1) {
      return fail(ErrorKind::kUsage, "--offset {}: {} of the sources have this name", option.source,
                  named.empty() ? "none" : "several");
    }
    named.front()->offset = option.ns;
  }
  return {};
}

}  // namespace trapline::clocks
