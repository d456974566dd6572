#include "merge/report/kernel_sample_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/pass/exit_text.h"
#include "merge/report/folded_stacks.h"
#include "merge/report/keyed_rows.h"
#include "merge/report/report.h"
#include "merge/report/tables.h"

namespace trapline {
namespace {

constexpr std::string_view kNotSampled = "not sampled", kOtherStack = "[other]";

struct Counts {
  SampleSum own, total;
};

CellValue to_cell(std::uint64_t ns) { return to_value(ns); }
CellValue to_cell(const std::optional<std::uint64_t>& ns) {
  return ns ? to_value(*ns) : CellValue();
}

}  // namespace

SampledTime sampled_time(const SampleSum& part, const SampleSum& all, std::uint64_t whole_ns,
                         std::uint64_t unseen_ns) {
  if (all.samples == 0) return {};
  constexpr double kZ = 1.959963984540054;                 // of 95 %
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;  // that llround() takes
  const auto whole = static_cast<double>(std::min(whole_ns, kMost));
  const auto ns_of = [whole](double share) {
    return static_cast<std::uint64_t>(std::llround(whole * std::clamp(share, 0.0, 1.0)));
  };
  // Its low and high end where samples of this weight are of the whole.
  const auto interval = [&](double weight) {
    const double n = weight * all.weight / all.squares;
    const double p = std::clamp(part.weight / weight, 0.0, 1.0);
    const double scale = 1 + kZ * kZ / n;
    const double middle = (p + kZ * kZ / (2 * n)) / scale;
    const double reach = kZ / scale * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n));
    return std::pair(ns_of(middle - reach), ns_of(middle + reach));
  };
  const double seen =
      whole == 0 ? 1 : 1 - static_cast<double>(std::min(unseen_ns, whole_ns)) / whole;
  if (seen <= 0) return {};
  const std::uint64_t ns = ns_of(seen * part.weight / all.weight);
  return {part.samples, ns, std::min(interval(all.weight / seen).first, ns),
          std::max(interval(all.weight).second, ns)};
}

void KernelSampleTable::add(const ExitSpan& exit, const KernelSamples& samples) {
  const Key key{exit.source, exit.reason, exit.thread};
  Reason& reason = bounded(reasons_, key, kMostReasons, other_);
  const std::uint64_t count = samples.count(exit.thread);
  const std::uint64_t ns = exit.parts[static_cast<std::size_t>(Part::kKernel)];
  settle(reason, count);
  if (!samples.is_covered()) {
    reason.not_sampled_ns += ns;
    return;
  }
  // Of several threads nothing tells which was still sampled.
  std::uint64_t& unproven = &reason == &other_ ? reason.not_sampled_ns : reason.pending_ns;
  (samples.shares().empty() ? unproven : reason.ns) += ns;
  reason.before = count;
  for (const SampleShare& share : samples.shares()) {
    reason.all += share.sum;
    const auto known = reason.stacks.find(share.stack);
    if (known == reason.stacks.end()) ++stacks_;
    const bool fits = known != reason.stacks.end() || stacks_ <= kMostStacks;
    reason.stacks[fits ? share.stack : 0] += share.sum;
  }
}

void KernelSampleTable::settle(Reason& reason, std::uint64_t count) {
  if (count > reason.before) reason.ns += std::exchange(reason.pending_ns, 0);
}

std::map<std::string, KernelSampleTable::Reason> KernelSampleTable::by_name(
    const Naming& names) const {
  std::map<std::string, Reason> reasons;
  const KernelSamples& samples = *names.pipeline.samples();
  const auto take = [&reasons](const std::string& name, Reason more, std::uint64_t count) {
    settle(more, count);
    Reason& reason = reasons[name];
    reason.ns += more.ns;
    reason.not_sampled_ns += more.not_sampled_ns + more.pending_ns;
    reason.all += more.all;
    for (const auto& [stack, sum] : more.stacks) reason.stacks[stack] += sum;
  };
  for (const auto& [key, reason] : reasons_) {
    const auto& [source, exit_reason, thread] = key;
    take(printable(reason_text(names.timeline.source(source), exit_reason)), reason,
         samples.count(thread));
  }
  if (other_.before != 0 || other_.not_sampled_ns != 0)
    take(std::string(Report::kFoldedKey), other_, other_.before);
  for (auto& [name, reason] : reasons) {
    if (reason.all.samples == 0) {
      reason.not_sampled_ns += std::exchange(reason.ns, 0);
    } else if (samples.by_timer() && reason.all.weight < static_cast<double>(reason.ns)) {
      reason.unseen_ns = reason.ns - static_cast<std::uint64_t>(reason.all.weight);
    }
  }
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
    report.samples += reason.all.samples;
    if (const std::uint64_t ns = reason.not_sampled_ns + reason.unseen_ns; ns != 0) {
      report.not_sampled_ns += ns;
      const SampledTime all{0, ns, {}, {}};
      report.rows.push_back({name, std::string(kNotSampled), all, all});
    }
    std::map<std::string, Counts> functions;  // two addresses may have one name
    std::set<std::string_view> counted;       // a function that calls itself has its total once
    for (const auto& [stack, sum] : reason.stacks) {
      counted.clear();
      if (stack == 0) functions[std::string(kOtherStack)].own += sum;
      for (KernelStackId at = stack; at != 0; at = samples.frame(at).parent) {
        const std::string_view function = names.names[samples.frame(at).name];
        Counts& counts = functions[printable(function)];
        if (at == stack) counts.own += sum;
        if (counted.insert(function).second) counts.total += sum;
      }
    }
    const auto time_of = [&reason = reason](const SampleSum& part) {
      return sampled_time(part, reason.all, reason.ns, reason.unseen_ns);
    };
    for (const auto& [function, counts] : functions)
      report.rows.push_back({name, function, time_of(counts.own), time_of(counts.total)});
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
  for (const auto& [name, reason] : by_name(names)) {
    const std::uint64_t not_sampled_ns = reason.not_sampled_ns + reason.unseen_ns;
    const std::uint64_t sampled_ns = reason.ns - reason.unseen_ns;
    if (not_sampled_ns != 0)
      take(fmt::format("{};{}", folded_frame(name), kNotSampled), not_sampled_ns);
    double until = 0;
    std::uint64_t told = 0;  // they sum to the time whatever is rounded
    for (const auto& [stack, sum] : reason.stacks) {
      std::string inside = stack == 0 ? fmt::format(";{}", kOtherStack) : std::string();
      for (KernelStackId at = stack; at != 0; at = samples.frame(at).parent)
        inside.insert(0, ';' + folded_frame(names.names[samples.frame(at).name]));
      until += sum.weight;
      const bool is_last = stack == reason.stacks.rbegin()->first;
      constexpr double kMost = 9e18;  // that the cast takes
      const double share =
          std::min(kMost, static_cast<double>(sampled_ns) * (until / reason.all.weight));
      const std::uint64_t end =
          is_last ? sampled_ns : std::clamp(static_cast<std::uint64_t>(share), told, sampled_ns);
      take(folded_frame(name) + inside, end - told);
      told = end;
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
                           auto SampledTime::*what, StandsOut stands_out, std::uint8_t goes) {
    add({.key = std::string(key),
         .title = std::string(title),
         .unit = Unit::kDuration,
         .goes = goes,
         .stands_out = stands_out},
        [which, what](const Row& row) { return to_cell(row.*which.*what); });
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
