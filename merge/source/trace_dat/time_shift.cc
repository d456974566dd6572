#include "merge/source/trace_dat/time_shift.h"

#include <algorithm>

namespace trapline::trace_dat {
namespace {

constexpr std::uint32_t kInterpolate = 1;  // flag of the option
constexpr std::size_t kSampleSize = 3 * sizeof(std::uint64_t);

// Limit for a sample's offset; interpolating between larger ones would overflow.
constexpr std::int64_t kLongestShift = std::int64_t{1} << 61;

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

}  // namespace

bool TimeShift::read_samples(ByteCursor& option, std::vector<Sample>& samples) const {
  const auto count = option.number<std::uint32_t>();
  if (!count || *count > option.left() / kSampleSize) return false;
  samples.resize(*count);
  for (Sample& sample : samples) sample.time = *option.number<std::uint64_t>();
  for (Sample& sample : samples)
    sample.offset = static_cast<std::int64_t>(*option.number<std::uint64_t>());
  for (Sample& sample : samples) sample.scaling = *option.number<std::uint64_t>();
  return std::ranges::all_of(samples, [](const Sample& sample) {
    return sample.offset > -kLongestShift && sample.offset < kLongestShift;
  });
}

std::optional<TimeShift> TimeShift::parse(ByteCursor& option) {
  constexpr std::uint32_t kMost = 8192;
  TimeShift shift;
  const auto flags = option.number<std::uint32_t>(), cpus = option.number<std::uint32_t>();
  if (!flags || !cpus || *cpus > kMost) return std::nullopt;
  shift.interpolates_ = (*flags & kInterpolate) != 0;
  shift.cpus_.resize(*cpus);
  for (auto& samples : shift.cpus_)
    if (!shift.read_samples(option, samples)) return std::nullopt;
  const bool fractions = option.left() != 0;
  for (auto& samples : shift.cpus_) {
    for (Sample& sample : samples) {
      if (!fractions) break;
      const auto fraction = option.number<std::uint64_t>();
      if (!fraction || *fraction > 63) return std::nullopt;
      sample.fraction = *fraction;
    }
    std::ranges::stable_sort(samples, {}, &Sample::time);
    const auto same = [](const Sample& a, const Sample& b) { return a.time == b.time; };
    samples.erase(std::unique(samples.begin(), samples.end(), same), samples.end());
  }
  return shift;
}

std::uint64_t TimeShift::operator()(std::uint32_t cpu, std::uint64_t count) const {
  if (cpu >= cpus_.size() || cpus_[cpu].empty()) return count;
  const std::vector<Sample>& samples = cpus_[cpu];
  // The last sample at or before the count, or the first one. If there are several, the very last
  // is not used, as in trace-cmd, because a next sample is needed as well.
  const auto after = std::ranges::upper_bound(samples, count, {}, &Sample::time);
  auto at = after == samples.begin() ? after : std::prev(after);
  if (samples.size() > 1 && std::next(at) == samples.end()) --at;
  Wide offset = at->offset;
  if (interpolates_ && samples.size() > 1) {
    const Sample& next = *std::next(at);
    const Wide length = Wide{next.time} - at->time;
    const Wide change = (Wide{count} - at->time) * (Wide{next.offset} - at->offset);
    offset += (change + length / 2) / length;
  }
  const UnsignedWide scaled = (UnsignedWide{count} * at->scaling) >> at->fraction;
  return static_cast<std::uint64_t>(scaled) + static_cast<std::uint64_t>(offset);
}

}  // namespace trapline::trace_dat
