#include "merge/session/marker_overlap.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "backend_ftrace/base/text.h"
#include "merge/source/marker_calls.h"
#include "merge/source/open_recording.h"
#include "merge/source/trace_dat/trace_dat_source.h"
#include "merge/source/uftrace/sync_file.h"

namespace trapline {
namespace {

constexpr std::size_t kMostFunctions = 1u << 20;

struct Counts {
  std::uint64_t entries = 0, returns = 0;
  std::string name;
};
struct Tally {
  std::map<std::uint64_t, Counts> functions;  // by address
  std::set<std::string, std::less<>> runs;
  std::uint64_t calls = 0;  // entries and returns
  std::uint64_t lost = 0;

  void add(const GuestCall& call) {
    if (call.off_cpu) return;
    ++calls;
    if (functions.size() >= kMostFunctions && !functions.contains(call.function)) return;
    Counts& counts = functions[call.function];
    ++(call.entry ? counts.entries : counts.returns);
    if (counts.entries + counts.returns == 1) counts.name = call.name;
  }
};

Result<Tally> tally(Source& source) {
  Tally sum;
  for (Event event; source.next(event) == Read::kEvent;) {
    if (const auto* call = std::get_if<GuestCall>(&event.payload)) {
      sum.add(*call);
    } else if (const auto* marker = std::get_if<Marker>(&event.payload)) {
      const auto run = parse_marker_run(marker->text);
      if (run && sum.runs.size() < 1000) sum.runs.emplace(*run);
    }
  }
  if (!source.status()) return tl::unexpected(source.status().error());
  sum.lost = source.counters().lost_events;
  return sum;
}

std::uint64_t missing(std::uint64_t here, std::uint64_t there) {
  return there > here ? there - here : 0;
}

struct Difference {
  std::uint64_t only_in_markers = 0, only_in_directory = 0;
  std::string function;  // the function that differs most
};

Difference compare(const Tally& markers, const Tally& directory) {
  Difference difference;
  std::uint64_t most = 0;
  const auto look = [&](std::uint64_t function, const std::string& name) {
    const auto find = [function](const Tally& tally) {
      const auto found = tally.functions.find(function);
      return found == tally.functions.end() ? Counts() : found->second;
    };
    const Counts a = find(markers), b = find(directory);
    const std::uint64_t in_a = missing(b.entries, a.entries) + missing(b.returns, a.returns);
    const std::uint64_t in_b = missing(a.entries, b.entries) + missing(a.returns, b.returns);
    difference.only_in_markers += in_a;
    difference.only_in_directory += in_b;
    if (in_a + in_b <= most) return;
    most = in_a + in_b;
    difference.function = name.empty() ? fmt::format("{:#x}", function) : printable(name);
  };
  for (const auto& [function, counts] : markers.functions) look(function, counts.name);
  for (const auto& [function, counts] : directory.functions)
    if (!markers.functions.contains(function)) look(function, counts.name);
  return difference;
}

}  // namespace

Result<std::optional<MarkerOverlap>> compare_marker_calls(const File& trace_dat,
                                                          const std::string& directory) {
  using Answer = std::optional<MarkerOverlap>;
  const auto sync = read_sync_file(directory + "/sync.txt");
  if (!sync) return tl::unexpected(sync.error());
  if (sync->clock.empty()) return Answer();  // not made by the plugin
  auto trace = trace_dat::open_trace_dat(trace_dat);
  if (!trace) return tl::unexpected(std::move(trace).error());
  if (!(*trace)->capabilities().markers) return Answer();
  (*trace)->select(EventClass::kExits);  // includes markers
  auto markers = tally(**trace);
  if (!markers) return tl::unexpected(std::move(markers).error());
  if (markers->calls == 0) return Answer();
  const std::string& run = sync->run;
  if (!run.empty() && !markers->runs.empty() && !markers->runs.contains(run)) return Answer();
  auto recorded = open_uftrace(directory);
  if (!recorded) return tl::unexpected(std::move(recorded).error());
  auto in_directory = tally(**recorded);
  if (!in_directory) return tl::unexpected(std::move(in_directory).error());
  const bool same_functions = std::ranges::any_of(
      in_directory->functions,
      [&markers](const auto& function) { return markers->functions.contains(function.first); });
  if (run.empty() && !same_functions) return Answer();

  const Difference difference = compare(*markers, *in_directory);
  MarkerOverlap overlap;
  overlap.use_markers = markers->calls >= in_directory->calls;
  const std::string& left_out = overlap.use_markers ? directory : trace_dat.path();
  const std::string of = overlap.use_markers ? "its calls" : "the calls in its markers";
  const std::string& other = overlap.use_markers ? trace_dat.path() : directory;
  if (difference.only_in_markers + difference.only_in_directory == 0) {
    overlap.note =
        fmt::format("{}: {} are those in {} ({} calls and returns, no difference) and count once",
                    left_out, of, other, markers->calls);
  } else {
    overlap.note = fmt::format(
        "{}: {} are those of the same run in {} and count once, but the two differ: {} calls and "
        "returns only in the markers, {} only in the directory, most of them of {}; lost: {} in "
        "{}, {} in {}",
        left_out, of, other, difference.only_in_markers, difference.only_in_directory,
        difference.function, markers->lost, trace_dat.path(), in_directory->lost, directory);
  }
  return Answer(std::move(overlap));
}

}  // namespace trapline
