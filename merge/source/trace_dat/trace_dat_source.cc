#include "merge/source/trace_dat/trace_dat_source.h"

#include <algorithm>

#include "merge/source/trace_dat/page_source.h"
#include "merge/source/trace_dat/sample.h"
#include "merge/source/trace_dat/tail.h"

namespace trapline::trace_dat {
namespace {

Result<TimeScale> scale_of(const File& file, const Layout& layout,
                           std::optional<std::uint64_t> tsc_khz, bool& cycles) {
  const bool tsc = layout.clock == "x86-tsc";
  cycles = false;
  if (tsc_khz && (!tsc || layout.tsc2nsec)) {
    return fail(ErrorKind::kUsage, "{}: --tsc-khz: the recording's clock is {}, in nanoseconds",
                file.path(), layout.clock);
  }
  constexpr std::uint64_t kFastest = 100'000'000;  // 100 GHz
  if (tsc_khz && (*tsc_khz == 0 || *tsc_khz > kFastest)) {
    return fail(ErrorKind::kUsage,
                "--tsc-khz {}: not a plausible TSC frequency; take the value from the host's "
                "kernel log (tsc: Detected ... MHz)",
                *tsc_khz);
  }
  if (tsc_khz) return TimeScale::from_khz(*tsc_khz, layout.offset_ns);
  if (layout.tsc2nsec)
    return TimeScale(layout.tsc2nsec->mult, layout.tsc2nsec->shift, layout.offset_ns);
  cycles = tsc;
  return TimeScale(1, 0, layout.offset_ns);
}

bool any_data(const Layout& layout) {
  return std::ranges::any_of(layout.buffers, [](const Buffer& buffer) {
    return std::ranges::any_of(buffer.cpus,
                               [](const CpuPages& cpu) { return cpu.pages.size != 0; });
  });
}

using Range = std::optional<std::pair<std::uint64_t, std::uint64_t>>;

void widen(Range& range, std::uint64_t time) {
  if (!range) range.emplace(time, time);
  range->first = std::min(range->first, time);
  range->second = std::max(range->second, time);
}

// Returns the recorded times of the recording's beginning and end, from the first and last events
// of each CPU; empty if there is no event.
Range time_range(const File& file, const Layout& layout) {
  constexpr std::size_t kAtOnce = 64u << 10;
  Range range;
  for (const Buffer& buffer : layout.buffers) {
    for (const CpuPages& cpu : buffer.cpus) {
      if (cpu.pages.size == 0) continue;
      const auto open = [&] {
        return CpuEvents(file, layout, cpu, buffer.page_size, kAtOnce,
                         layout.time_shift ? &*layout.time_shift : nullptr);
      };
      CpuEvents first = open();
      if (!first.advance()) continue;
      widen(range, first.peek().time);
      const double pages = static_cast<double>(cpu.pages.size) / buffer.page_size;
      bool ends = false;
      // Looks for the last event in the last pages; in all pages only if the last are damaged.
      for (const double place : {std::max(0.01, 1 - 1.5 / pages), 0.0}) {
        CpuEvents last = open();
        if (ends || !last.skip_to(place)) break;
        for (; last.advance(); ends = true) widen(range, last.peek().time);
      }
    }
  }
  return range;
}

}  // namespace

std::optional<std::pair<Timestamp, Timestamp>> TraceDatSource::range() const {
  const auto stamps = time_range(file_, layout_);
  if (!stamps) return std::nullopt;
  return std::pair(scale_(stamps->first), scale_(stamps->second));
}

Description TraceDatSource::describe() const {
  const Layout& layout = layout_;
  Description is = Source::describe();
  is.nanoseconds_of_tsc = is.clock == "x86-tsc" && !is.cycles;
  // "Linux NAME 6.1.0 x86_64"; some versions put the kernel's build date before the last word.
  const std::string& uname = layout.uname;
  const auto name = std::min(uname.find(' '), uname.size());
  const auto release = std::min(uname.find(' ', name + 1), uname.size());
  const auto after = std::min(uname.find(' ', release + 1), uname.size());
  if (after < uname.size()) {
    is.machine.name = uname.substr(name + 1, release - name - 1);
    is.machine.system = uname.substr(0, after) + uname.substr(uname.rfind(' '));
  }
  is.machine.cpus = layout.cpu_count;
  is.witness = Witness::kKernel;
  const RecorderText recorder = RecorderText::parse(layout.writer);
  is.recorder = recorder.process;
  is.selected = recorder.selected;
  is.shifted = layout.time_shift.has_value();
  is.trace_id = layout.trace_id;
  is.peer_id = layout.peer_id;
  is.guests = layout.guests;
  return is;
}

std::vector<std::pair<std::string, std::string>> TraceDatSource::facts() const {
  constexpr std::string_view kCompressions[] = {"uncompressed", "zstd", "zlib"};
  const Layout& layout = layout_;
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
  if (!layout.unknown_options.empty()) {
    std::vector<std::uint16_t> ids;
    for (const auto& [id, times] : layout.unknown_options) ids.push_back(id);
    facts.emplace_back("not read", fmt::format("options {}, of a newer trace-cmd than this knows",
                                               fmt::join(ids, ", ")));
  }
  if (layout.cut) facts.emplace_back("cut off", *layout.cut);
  if (layout.offset_ns != 0) facts.emplace_back("offset", fmt::format("{} ns", layout.offset_ns));
  std::ranges::move(KernelEventSource::facts(), std::back_inserter(facts));
  return facts;
}

std::string TraceDatSource::kallsyms() const {
  return read_text_section(file_, layout_, layout_.kallsyms, sizeof(std::uint32_t)).value_or("");
}

std::string TraceDatSource::kernel_function(std::uint64_t address) const {
  if (!symbols_) symbols_.emplace(kallsyms());
  return std::string(symbols_->function_at(address));
}

Result<std::unique_ptr<TraceDatSource>> open_trace_dat(File file,
                                                       std::optional<std::uint64_t> tsc_khz,
                                                       bool marker_calls) {
  auto layout = read_layout(file);
  if (!layout) return tl::unexpected(std::move(layout).error());
  if (!any_data(*layout)) return no_events(file, *layout);
  SourceInfo info{file.path(), "trace.dat", layout->clock, false};
  auto scale = scale_of(file, *layout, tsc_khz, info.cycles);
  if (!scale) return tl::unexpected(std::move(scale).error());
  auto formats = read_formats(file, *layout);
  if (!formats) return tl::unexpected(std::move(formats).error());
  auto capabilities = sample_capabilities(file, *layout, *formats);
  if (!capabilities) return tl::unexpected(std::move(capabilities).error());
  return std::make_unique<PageSource>(std::make_shared<const TraceFile>(TraceFile{
                                          std::move(file), std::move(*layout), std::move(*formats),
                                          std::move(info), *scale, marker_calls}),
                                      *capabilities);
}

}  // namespace trapline::trace_dat
