#include "merge/pass/selection.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

using Interval = std::pair<Timestamp, Timestamp>;

enum class Whose : std::uint8_t {
  kAll,    // all sources: nullopt if one does not know its interval on the timeline
  kKnown,  // only the sources that know their interval on the timeline
};

// Returns whether the source's range() covers only samples. The header of perf.data has only the
// samples' times, although a fork before the first sample is an event, too.
bool has_samples_times(const Source& source) { return source.info().kind == "perf.data"; }

std::optional<Interval> interval_of(const Timeline& timeline, Whose whose) {
  std::optional<Interval> all;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const Source& source = timeline.source(i);
    const auto one = source.range();
    if (!one || !source.info().aligned.is_same_clock() ||
        (whose == Whose::kAll && has_samples_times(source))) {
      if (whose == Whose::kAll) return std::nullopt;
      continue;
    }
    if (!all) all = one;
    all = Interval{std::min(all->first, one->first), std::max(all->second, one->second)};
  }
  return all;
}

std::string text_of(const TimeSpec& time) {
  return fmt::format("{}{}", time.relative ? "+" : "", seconds_text(time.ns));
}

std::string sentence(const std::optional<Interval>& interval,
                     std::string_view what = "the recording goes") {
  if (!interval) return "";
  const auto [first, last] = *interval;
  return fmt::format("; {} from {} to {} (+{})", what, seconds_text(first.ns()),
                     seconds_text(last.ns()), seconds_text(last.ns() - first.ns()));
}

std::string known_sentence(const Timeline& timeline) {
  bool samples = false;
  for (std::size_t i = 0; i < timeline.size(); ++i)
    samples = samples || has_samples_times(timeline.source(i));
  return sentence(interval_of(timeline, Whose::kKnown),
                  samples ? "the samples go" : "the recording goes");
}

}  // namespace

Result<TimeSpec> parse_time_spec(std::string_view option, std::string_view text) {
  const bool relative = !text.empty() && text.front() == '+';
  const auto ns = parse_duration(option, relative ? text.substr(1) : text, BareNumber::kSeconds);
  if (!ns) {
    return fail(
        ErrorKind::kUsage,
        "{}: '{}' is not a time; use seconds of the recording's clock (12.5), or a time from "
        "its start (+500ms)",
        option, text);
  }
  return TimeSpec{*ns, relative};
}

Result<void> check_window(const Timeline& timeline, const NamedTime& from, const NamedTime& to) {
  if (!from.time && !to.time) return {};
  const std::optional<Interval> interval = interval_of(timeline, Whose::kAll);
  const bool comparable =
      interval || (from.time && to.time && from.time->relative == to.time->relative);
  if (!comparable) return {};
  const Timestamp first = interval ? interval->first : Timestamp();
  const auto fault = [&](const NamedTime& time, std::string_view what) {
    return fail(ErrorKind::kUsage, "{}: {} {}{}", time.option, text_of(*time.time), what,
                sentence(interval));
  };
  if (from.time && to.time && from.time->resolve(first) > to.time->resolve(first))
    return fault(from, fmt::format("is after {} {}", to.option, text_of(*to.time)));
  if (!interval) return {};
  if (from.time && from.time->resolve(first) > interval->second)
    return fault(from, "is after the recording's end");
  if (to.time && to.time->resolve(first) < first)
    return fault(to, "is before the recording's start");
  return {};
}

Error empty_window(const Timeline& timeline) {
  return {"--from/--to: no event lies in that part" + known_sentence(timeline), ErrorKind::kUsage};
}

std::string nothing_in_window(const Timeline& timeline) {
  return "nothing lies in that part of the recording" + known_sentence(timeline);
}

namespace {

constexpr std::size_t kMostListed = 20;

// Returns the names, first those that the user may have meant.
std::vector<std::string> by_nearness(std::string_view wanted, const std::set<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view slip = nearest(wanted, views);
  std::string word = lowered(wanted);
  std::erase_if(word, [](char c) { return c == '*' || c == '?'; });
  const auto distance = [&](const std::string& name) {
    if (name == slip) return 0;
    const auto at = word.empty() ? std::string::npos : lowered(name).find(word);
    return at == 0 ? 1 : at != std::string::npos ? 2 : 3;
  };
  std::vector<std::string> all(names.begin(), names.end());
  std::ranges::stable_sort(all, {}, distance);
  return all;
}

}  // namespace

Error unknown_name(std::string_view option, std::string_view wanted, std::string_view fault,
                   const std::set<std::string>& names, std::string_view nothing) {
  std::string text = fmt::format("{} {}: {}; ", option, printable(wanted), fault);
  if (names.empty()) return {text += nothing, ErrorKind::kUsage};
  const std::vector<std::string> all = by_nearness(wanted, names);
  text += all.size() == 1 ? "there is " : "there are ";
  for (std::size_t i = 0; i < std::min(all.size(), kMostListed); ++i)
    text += (i == 0 ? "" : ", ") + all[i];
  if (all.size() > kMostListed) text += fmt::format(" and {} more", all.size() - kMostListed);
  return {std::move(text), ErrorKind::kUsage};
}

bool VcpuFilter::holds(const Vm& of, std::int32_t number) const {
  if (vcpu && number != *vcpu) return false;
  return vm.empty() || of.given == vm || of.id() == vm || of.id() == "~" + vm ||
         of.id() == "?" + vm || of.text() == vm;
}

std::string VcpuFilter::text() const {
  std::string all = vm.empty() ? "" : "--vm " + printable(vm);
  if (vcpu) all += fmt::format("{}--vcpu {}", all.empty() ? "" : " and ", *vcpu);
  return all;
}

Result<void> VcpuFilter::check(const std::vector<VcpuThread>& threads, const std::vector<Vm>& vms,
                               std::string_view none) const {
  std::set<std::string> vm_names, numbers;
  const VcpuFilter of_vm{{}, vm};
  for (std::size_t i = 0; i < threads.size(); ++i) {
    if (holds(vms[i], threads[i].vcpu)) return {};
    vm_names.insert(vms[i].text());
    if (of_vm.holds(vms[i], threads[i].vcpu))
      numbers.insert(threads[i].vcpu == kNoVcpu ? "unknown" : std::to_string(threads[i].vcpu));
  }
  if (numbers.empty() && !vm.empty())
    return tl::unexpected(
        unknown_name("--vm", vm, "no such VM has a vCPU in the recording", vm_names, none));
  return tl::unexpected(unknown_name("--vcpu", vcpu ? std::to_string(*vcpu) : "",
                                     "no such vCPU is in the recording", numbers, none));
}

std::vector<std::pair<std::string_view, std::string>> ExitFilter::options() const {
  std::vector<std::pair<std::string_view, std::string>> requested;
  for (const auto& [option, pattern] :
       {std::pair{"--reason", &reason}, std::pair{"--detail", &detail},
        std::pair{"--device", &device}, std::pair{"--function", &function}}) {
    if (!pattern->empty()) requested.emplace_back(option, *pattern);
  }
  return requested;
}

std::string ExitFilter::text() const {
  std::string all;
  for (const auto& [option, pattern] : options())
    all += fmt::format("{}{} {}", all.empty() ? "" : " and ", option, printable(pattern));
  return all;
}

std::vector<std::string> Selection::vcpu_and_exit_words() const {
  std::vector<std::string> words;
  if (!vcpus.vm.empty()) words = {"--vm", vcpus.vm};
  if (vcpus.vcpu) words.insert(words.end(), {"--vcpu", std::to_string(*vcpus.vcpu)});
  for (const auto& [option, pattern] : exits.options())
    words.insert(words.end(), {std::string(option), pattern});
  return words;
}

std::vector<std::string> Selection::time_words() const {
  std::vector<std::string> words;
  if (!from.text.empty()) words = {"--from", from.text};
  if (!to.text.empty()) words.insert(words.end(), {"--to", to.text});
  return words;
}

std::vector<std::string> Selection::words() const {
  std::vector<std::string> all = vcpu_and_exit_words();
  for (std::string& word : time_words()) all.push_back(std::move(word));
  return all;
}

}  // namespace trapline
