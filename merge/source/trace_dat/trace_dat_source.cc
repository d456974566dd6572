#include "merge/source/trace_dat/trace_dat_source.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/source/trace_dat/fallback_source.h"
#include "merge/source/trace_dat/page_source.h"
#include "merge/source/trace_dat/time_range.h"
#include "merge/source/trace_dat/unfinished.h"

namespace trapline::trace_dat {
namespace {

constexpr std::uint32_t kPlainPage = 4096;

Result<TimeScale> scale_of(const File& file, const Layout& layout, const Options& options,
                           bool& cycles) {
  const std::int64_t offset = layout.offset_ns + options.offset_ns;
  const bool tsc = layout.clock == "x86-tsc";
  cycles = false;
  if (options.tsc_khz && (!tsc || layout.tsc2nsec)) {
    return fail(ErrorKind::kUsage, "{}: --tsc-khz: the recording's clock is {}, in nanoseconds",
                file.path(), layout.clock);
  }
  constexpr std::uint64_t kFastest = 100'000'000;  // 100 GHz
  if (options.tsc_khz && (*options.tsc_khz == 0 || *options.tsc_khz > kFastest)) {
    return fail(ErrorKind::kUsage,
                "--tsc-khz {}: not a plausible TSC frequency; take the value from the host's "
                "kernel log (tsc: Detected ... MHz)",
                *options.tsc_khz);
  }
  if (options.tsc_khz) return TimeScale::from_khz(*options.tsc_khz, offset);
  if (layout.tsc2nsec) return TimeScale(layout.tsc2nsec->mult, layout.tsc2nsec->shift, offset);
  cycles = tsc;
  return TimeScale(1, 0, offset);
}

bool page_source_reads(const Layout& layout) {
  const bool plain_pages = std::all_of(
      layout.buffers.begin(), layout.buffers.end(),
      [](const Buffer& buffer) { return buffer.cpus.empty() || buffer.page_size == kPlainPage; });
  return layout.order == std::endian::little && plain_pages;
}

bool any_data(const Layout& layout) {
  return std::any_of(layout.buffers.begin(), layout.buffers.end(),
                     [](const Buffer& buffer) { return !buffer.cpus.empty(); });
}

}  // namespace

std::optional<std::pair<Timestamp, Timestamp>> TraceDatSource::range() const {
  const auto stamps = time_range(recording_.file, recording_.layout);
  if (!stamps) return std::nullopt;
  return std::pair(recording_.scale(stamps->first), recording_.scale(stamps->second));
}

Description TraceDatSource::describe() const {
  const Layout& layout = recording_.layout;
  Description is = Source::describe();
  is.nanoseconds_of_tsc = is.clock == "x86-tsc" && !is.cycles;
  // "Linux NAME 6.1.0 …"
  const auto start = layout.uname.find(' ');
  if (start != std::string::npos) {
    is.machine.name = layout.uname.substr(start + 1, layout.uname.find(' ', start + 1) - start - 1);
  }
  is.machine.system = layout.uname;
  is.machine.cpus = layout.cpu_count;
  is.witness = Witness::kKernel;
  is.has = capabilities_;
  is.shifted = layout.time_shift.has_value();
  is.trace_id = layout.trace_id;
  is.peer_id = layout.peer_id;
  is.guests = layout.guests;
  return is;
}

std::vector<std::pair<std::string, std::string>> TraceDatSource::facts() const {
  constexpr std::string_view kCompressions[] = {"uncompressed", "zstd", "zlib"};
  const Layout& layout = recording_.layout;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"format", fmt::format("trace.dat version {}, {}", layout.version,
                             kCompressions[static_cast<std::size_t>(layout.compression)])},
      {"host", layout.uname},
      {"recorded by", layout.writer},
      {"CPUs", std::to_string(layout.cpu_count)}};
  for (const Buffer& buffer : layout.buffers) {
    facts.emplace_back("buffer", fmt::format("{}: {} CPUs with data, {}-byte pages",
                                             buffer.name.empty() ? "top" : buffer.name,
                                             buffer.cpus.size(), buffer.page_size));
  }
  if (layout.tsc2nsec) {
    facts.emplace_back(
        "TSC2NSEC", fmt::format("mult {} shift {}", layout.tsc2nsec->mult, layout.tsc2nsec->shift));
  }
  if (layout.time_shift) facts.emplace_back("time shift", "to the clock of its host's recording");
  if (layout.offset_ns != 0) {
    facts.emplace_back("offset", fmt::format("{} ns", layout.offset_ns));
  }
  return facts;
}

std::vector<std::pair<std::string, std::uint64_t>> TraceDatSource::event_counts() const {
  std::vector<std::pair<std::string, std::uint64_t>> counts;
  for (std::size_t type = 0; type < recording_.counts.size(); ++type) {
    if (recording_.counts[type] == 0) continue;
    const auto name = recording_.formats.name(static_cast<std::uint16_t>(type));
    counts.emplace_back(name.empty() ? fmt::format("type {}", type) : std::string(name),
                        recording_.counts[type]);
  }
  return counts;
}

void TraceDatSource::decode(const RecordedEvent& recorded, std::uint32_t cpu, Event& event) {
  event.at = recording_.scale(recorded.time);
  event.cpu = cpu;
  event.raw = {recorded.data, recorded.size};
  count(event.at);
  if (!recording_.formats.decode(recorded, event)) [[unlikely]]
    ++counters_.damaged_events;
  if (const auto* marker = std::get_if<Marker>(&event.payload);
      marker != nullptr && marker->text.starts_with(kMarkerCallPrefix)) [[unlikely]] {
    on_marker(event);
  }
  if (recorded.size >= kCommonFields) [[likely]]
    ++recording_.counts[event.type];
}

void TraceDatSource::on_marker(Event& event) {
  if (!recording_.marker_calls) return;
  const std::uint64_t lost = marker_calls_.lost(), gaps = marker_calls_.gaps();
  const std::uint64_t damaged = marker_calls_.damaged();
  marker_calls_.on(event);
  counters_.lost_events += marker_calls_.lost() - lost;
  counters_.gaps += marker_calls_.gaps() - gaps;
  counters_.damaged_events += marker_calls_.damaged() - damaged;
}

void TraceDatSource::select(EventClass events) {
  const auto schemas = recording_.formats.schemas();
  for (std::size_t type = 0; type < selected_.size(); ++type) {
    selected_[type] =
        has(events, type < schemas.size() ? schemas[type].events : EventClass::kOthers);
  }
}

void TraceDatSource::fill_lost(std::uint32_t cpu, Timestamp from, Timestamp to, std::int64_t lost,
                               Event& event) {
  const std::uint64_t count = lost > 0 ? static_cast<std::uint64_t>(lost) : 0;
  event.at = from;
  event.cpu = cpu;
  event.thread = ThreadId{-1};
  event.type = 0;
  event.raw = {};
  event.payload = Lost{from, to, count};
  ++counters_.gaps;
  counters_.lost_events += count;
  if (count == 0) ++counters_.gaps_uncounted;
}

void TraceDatSource::fill_left_out(std::uint32_t cpu, Timestamp from, Timestamp to,
                                   std::int64_t events, Event& event) {
  const SourceCounters before = counters_;
  fill_lost(cpu, from, to, events, event);
  std::get<Lost>(event.payload).on_purpose = true;
  counters_.left_out_events += counters_.lost_events - before.lost_events;
  ++counters_.left_out_pieces;
  counters_.lost_events = before.lost_events;
  counters_.gaps = before.gaps;
  counters_.gaps_uncounted = before.gaps_uncounted;
}

std::string TraceDatSource::event_name(const Event& event) const {
  if (std::holds_alternative<Lost>(event.payload)) return "lost";
  if (const auto* call = std::get_if<GuestCall>(&event.payload)) {
    return call->entry ? "guest:entry" : "guest:exit";
  }
  return std::string(recording_.formats.name(event.type));
}

std::string TraceDatSource::event_text(const Event& event) const {
  if (const auto* lost = std::get_if<Lost>(&event.payload)) {
    return (lost->count == 0 ? "events (count unknown)" : fmt::format("{} events", lost->count)) +
           (lost->on_purpose ? ", left out by --snapshot-on" : "");
  }
  if (const auto* call = std::get_if<GuestCall>(&event.payload)) {
    return call->name.empty() ? fmt::format("{:#x}", call->function) : printable(call->name);
  }
  if (const auto* marker = std::get_if<Marker>(&event.payload)) {
    return printable(trimmed(marker->text));
  }
  return recording_.formats.text(
      event.type, event.raw, event.cpu,
      [this](std::size_t most, std::vector<RecordedEvent>& events) { following(most, events); });
}

std::string TraceDatSource::comm(ThreadId thread) const { return recording_.formats.comm(thread); }

std::string TraceDatSource::exit_reason(std::uint32_t isa, std::uint32_t reason,
                                        std::uint32_t exception_class) const {
  return reasons().of_exit(isa, reason, exception_class);
}

std::string TraceDatSource::userspace_reason(std::uint32_t reason) const {
  return reasons().of_userspace(reason);
}

Result<std::unique_ptr<TraceDatSource>> open_trace_dat(std::string path, const Options& options) {
  auto file = open_trace_file(std::move(path));
  if (!file) return tl::unexpected(std::move(file).error());
  auto layout = read_layout(*file);
  if (!layout) return tl::unexpected(std::move(layout).error());
  if (!any_data(*layout)) {
    return fail(ErrorKind::kDamaged,
                "{}: holds no events: every CPU's data is empty; was anything enabled while it was "
                "recorded?",
                file->path());
  }
  SourceInfo info{file->path(), "trace.dat", layout->clock, false};
  auto scale = scale_of(*file, *layout, options, info.cycles);
  if (!scale) return tl::unexpected(std::move(scale).error());
  auto formats = read_formats(*file, *layout);
  if (!formats) return tl::unexpected(std::move(formats).error());
  const bool pages = page_source_reads(*layout) && !options.use_libtracecmd;
  if (!pages && file->is_composed()) {
    const std::string& trace = file->path();
    return fail(ErrorKind::kUsage,
                "{}: its pages cannot be read before the session is finished; give, once its "
                "recorder has ended: trapline record --finish {}",
                trace, trace.substr(0, trace.rfind('/')));
  }
  if (!pages) {
    // libtracecmd applies what the file says; what the user says remains.
    *scale = options.tsc_khz ? TimeScale::from_khz(*options.tsc_khz, options.offset_ns)
                             : TimeScale(1, 0, options.offset_ns);
  }
  TraceFile recording{
      std::move(*file),    std::move(*layout), std::move(*formats), std::move(info), *scale, {},
      options.marker_calls};
  return pages ? PageSource::open(std::move(recording))
               : FallbackSource::open(std::move(recording));
}

}  // namespace trapline::trace_dat
