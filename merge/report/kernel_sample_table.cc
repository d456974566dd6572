#include "merge/report/kernel_sample_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/pass/exit_text.h"
#include "merge/report/keyed_rows.h"
#include "merge/report/report.h"
#include "merge/report/tables.h"

namespace trapline {
namespace {

constexpr std::string_view kNotSampled = "not sampled", kOtherStack = "[other]";

// Of `whole` the part with which `of` equal ones come to `until`, without rounding that adds up.
std::uint64_t part_until(std::uint64_t until, std::uint64_t of, std::uint64_t whole) {
  return whole / of * until + whole % of * until / of;
}

struct Counts {
  std::uint64_t own = 0, total = 0;
};

}  // namespace

SampledTime sampled_time(std::uint64_t samples, std::uint64_t of, std::uint64_t whole_ns) {
  if (of == 0) return {};
  constexpr double kZ = 1.959963984540054;  // of 95 %
  const auto n = static_cast<double>(of), whole = static_cast<double>(whole_ns);
  const double p = static_cast<double>(samples) / n;
  const double scale = 1 + kZ * kZ / n;
  const double middle = (p + kZ * kZ / (2 * n)) / scale;
  const double reach = kZ / scale * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n));
  const auto ns_of = [whole](double share) {
    return static_cast<std::uint64_t>(std::llround(whole * std::clamp(share, 0.0, 1.0)));
  };
  SampledTime time{samples, ns_of(p), ns_of(middle - reach), ns_of(middle + reach)};
  time.low_ns = std::min(time.low_ns, time.ns);
  time.high_ns = std::max(time.high_ns, time.ns);
  return time;
}

void KernelSampleTable::add(const ExitSpan& exit, const KernelSamples& samples) {
  const Key key{exit.source, exit.reason.reason, exit.reason.isa, exit.reason.exception_class,
                exit.thread};
  Reason& reason = bounded(reasons_, key, kMostReasons, other_);
  reason.ns += exit.parts[static_cast<std::size_t>(Part::kKernel)];
  for (const SampleShare& share : samples.shares()) {
    reason.samples += share.samples;
    const auto known = reason.stacks.find(share.stack);
    if (known == reason.stacks.end()) ++stacks_;
    const bool fits = known != reason.stacks.end() || stacks_ <= kMostStacks;
    reason.stacks[fits ? share.stack : 0] += share.samples;
  }
}

std::map<std::string, KernelSampleTable::Reason> KernelSampleTable::by_name(
    const Naming& names) const {
  std::map<std::string, Reason> reasons;
  const KernelSamples& samples = *names.pipeline.samples();
  const auto add = [&reasons](const std::string& name, const Reason& more, bool sampled) {
    Reason& reason = reasons[name];
    (sampled ? reason.ns : reason.not_sampled_ns) += more.ns;
    reason.samples += more.samples;
    for (const auto& [stack, number] : more.stacks) reason.stacks[stack] += number;
  };
  for (const auto& [key, reason] : reasons_) {
    const auto& [source, number, isa, exception_class, thread] = key;
    add(printable(reason_text(names.timeline.source(source), {number, isa, exception_class})),
        reason, samples.has(thread));
  }
  if (other_.ns != 0 || other_.samples != 0) add(std::string(Report::kFoldedKey), other_, true);
  for (auto& [name, reason] : reasons)
    if (reason.samples == 0) reason.not_sampled_ns += std::exchange(reason.ns, 0);
  return reasons;
}

KernelSampleReport KernelSampleTable::report(const Naming& names, std::size_t top) const {
  const KernelSamples& samples = *names.pipeline.samples();
  KernelSampleReport report;
  report.counters = samples.counters();
  report.by_timer = samples.by_timer();
  for (std::size_t i = 0; i < names.timeline.size(); ++i) {
    const SourceCounters counters = names.timeline.source(i).counters();
    report.lost += counters.lost_samples;
    report.throttled += counters.throttled;
  }
  for (const auto& [name, reason] : by_name(names)) {
    report.total_ns += reason.ns + reason.not_sampled_ns;
    report.samples += reason.samples;
    if (const std::uint64_t ns = reason.not_sampled_ns; ns != 0) {
      report.not_sampled_ns += ns;
      const SampledTime all{0, ns, ns, ns};
      report.rows.push_back({name, std::string(kNotSampled), all, all});
    }
    std::map<std::string, Counts> functions;  // two addresses may have one name
    std::set<std::string_view> counted;       // a function that calls itself has its total once
    for (const auto& [stack, number] : reason.stacks) {
      counted.clear();
      if (stack == 0) functions[std::string(kOtherStack)].own += number;
      for (SampleStackId at = stack; at != 0; at = samples.frame(at).parent) {
        const std::string_view function = names.names[samples.frame(at).name];
        Counts& counts = functions[printable(function)];
        if (at == stack) counts.own += number;
        if (counted.insert(function).second) counts.total += number;
      }
    }
    for (const auto& [function, counts] : functions)
      report.rows.push_back({name, function, sampled_time(counts.own, reason.samples, reason.ns),
                             sampled_time(counts.total, reason.samples, reason.ns)});
  }
  std::ranges::stable_sort(report.rows, std::greater<>(), [](const KernelSampleRow& row) {
    return std::pair(row.own.ns, row.total.ns);
  });
  report.rows_left_out = keep_first(report.rows, top);
  return report;
}

void KernelSampleTable::each_stack(
    const Naming& names, const std::function<void(const std::string&, std::uint64_t)>& take) const {
  const KernelSamples& samples = *names.pipeline.samples();
  const auto frame = [](std::string_view text) {
    std::string one = printable(text);
    std::ranges::replace(one, ';', ':');
    return one;
  };
  for (const auto& [name, reason] : by_name(names)) {
    if (reason.not_sampled_ns != 0)
      take(fmt::format("{};{}", frame(name), kNotSampled), reason.not_sampled_ns);
    std::uint64_t until = 0;
    for (const auto& [stack, number] : reason.stacks) {
      std::string inside = stack == 0 ? fmt::format(";{}", kOtherStack) : std::string();
      for (SampleStackId at = stack; at != 0; at = samples.frame(at).parent)
        inside.insert(0, ';' + frame(names.names[samples.frame(at).name]));
      const std::uint64_t before = part_until(until, reason.samples, reason.ns);
      until += number;
      take(frame(name) + inside, part_until(until, reason.samples, reason.ns) - before);
    }
  }
}

Table kernel_sample_table(const KernelSampleReport& samples) {
  using Row = KernelSampleRow;
  enum Goes : std::uint8_t { kTotal = 1 };
  TableOf<Row> table(samples.rows, [](const Row& row) { return row.reason + ": " + row.function; });
  table.left_out = samples.rows_left_out;
  const auto add = [&table](Column column, auto get) { table.add(std::move(column), get); };
  const auto time = [&add](std::string_view key, std::string_view title, SampledTime Row::*which,
                           std::uint64_t SampledTime::*what, StandsOut stands_out,
                           std::uint8_t goes) {
    add({.key = std::string(key),
         .title = std::string(title),
         .unit = Unit::kDuration,
         .goes = goes,
         .stands_out = stands_out},
        [which, what](const Row& row) { return row.*which.*what; });
  };
  add({"reason"}, &Row::reason);
  add({"function"}, &Row::function);
  add({.key = "samples", .title = "samples"}, [](const Row& row) { return row.own.samples; });
  time("ns", "time", &Row::own, &SampledTime::ns, StandsOut::kLargest, 0);
  add({.title = "share", .unit = Unit::kShare}, [whole = samples.total_ns](const Row& row) {
    return Share{row.own.ns, whole};
  });
  time("low_ns", "low", &Row::own, &SampledTime::low_ns, StandsOut::kNever, 0);
  time("high_ns", "high", &Row::own, &SampledTime::high_ns, StandsOut::kNever, 0);
  add({.key = "total_samples"}, [](const Row& row) { return row.total.samples; });
  time("total_ns", "with callees", &Row::total, &SampledTime::ns, StandsOut::kNever, kTotal);
  time("total_low_ns", "", &Row::total, &SampledTime::low_ns, StandsOut::kNever, 0);
  time("total_high_ns", "", &Row::total, &SampledTime::high_ns, StandsOut::kNever, 0);
  return table;
}

}  // namespace trapline
