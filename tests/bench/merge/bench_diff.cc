// How often `trapline diff` errs: pairs of sides made from a real recording, whose true changes are
// known.
//
//   bench_diff [--pairs N] [--times N]... [--cut] RECORDING...
//   bench_diff [--pairs N] --windows SECONDS RECORDING [--row DEVICE SLOWER...]
//
// (BENCH_DIFF_VERBOSE=1 names the false claims.)
//
// A side is put together from pieces of the recording (50 ms, from random places, in a circle, so
// that every exit is as likely as the others): the autocorrelation within a piece stays, and what
// is true of the recording is true of every side. Each side is --times as long as the recording
// (4). Every duration of its row with the most time that is not a halt is then multiplied by 1 +
// shift on the second side. Prints, for each shift: in how many pairs anything was claimed of any
// row but for this one, how often the row was found to have changed (in any figure that did), how
// often its mean was, how often the intervals hold the truth, and in how many pairs a side was said
// to be too short. --cut: and windows of the recording that do not overlap, without resampling.
//
// --windows: pairs of windows of a long recording, as it is: that nothing changed is true of all.
// With --row also a window of RECORDING and one of SLOWER, where that device has a delay
// (tests/bench/merge/slow-device); the truth is the change of its mean from all of the one to all
// of the other.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "merge/report/compare_run.h"
#include "merge/report/compare_sink.h"

namespace trapline {
namespace {

constexpr std::uint64_t kPiece = 50'000'000;  // ns

struct Exit {
  std::uint64_t end, guest;  // after the recording's begin; guest time before it
  std::uint32_t row;         // of row_names()
  bool halt;
  std::uint64_t total;
  Parts parts;
};

// Of all recordings: what a row's number means.
std::vector<std::string>& row_names() {
  static std::vector<std::string> names;
  return names;
}

std::uint32_t row_of(const std::string& name) {
  auto& names = row_names();
  const auto place = std::find(names.begin(), names.end(), name);
  if (place == names.end()) names.push_back(name);
  return static_cast<std::uint32_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

class Collector : public SpanSink {
 public:
  explicit Collector(bool devices) : devices_(devices) {}
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kExits; }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    const std::uint64_t begin = pipeline.begin().value_or(exit.start).ns();
    const std::uint64_t guest = last_ == Timestamp() ? 0 : elapsed(last_, exit.start);
    last_ = exit.end;
    const std::string name = devices_ ? std::string(pipeline.names()[exit.device])
                                      : fmt::format("{}", exit.reason.reason);
    exits.push_back({exit.end.ns() - begin, guest, row_of(name), is_halt(exit.reason), exit.total(),
                     exit.parts});
  }
  std::vector<Exit> exits;

 private:
  bool devices_;
  Timestamp last_;
};

std::vector<Exit> read_exits(const char* path, bool devices = false) {
  InputOptions options;
  options.paths = {path};
  auto input = open_input(options);
  if (!input) {
    fmt::print(stderr, "{}\n", input.error().message);
    std::exit(1);
  }
  Timeline timeline(std::move(input->sources));
  Collector collector(devices);
  Pipeline pipeline(pipeline_options(timeline, *input), {&collector});
  Event event;
  while (timeline.next(event) == Read::kEvent && pipeline.push(event)) {
  }
  pipeline.finish();
  return std::move(collector.exits);
}

std::string name_of(std::uint32_t row) { return row_names()[row]; }

// Takes exits in order and makes a Recorded of them.
class Side {
 public:
  void add(const Exit& exit, std::uint64_t at, double factor) {
    auto place = std::find(rows_.begin(), rows_.end(), exit.row);
    if (place == rows_.end()) place = rows_.insert(place, exit.row);
    const auto total = static_cast<std::uint64_t>(static_cast<double>(exit.total) * factor);
    Parts parts = exit.parts;
    for (auto& part : parts) {
      part = static_cast<std::uint64_t>(static_cast<double>(part) * factor);
    }
    const auto row = static_cast<std::size_t>(place - rows_.begin());
    if (row >= halts_.size()) halts_.resize(row + 1);
    halts_[row] = exit.halt;
    bins_.add(row, Timestamp(at), total, parts);
    bins_.add_guest(Timestamp(at), exit.guest);
    ++exits_;
  }
  [[nodiscard]] Recorded take(std::uint64_t wall) {
    bins_.finish();
    Recorded recorded;
    recorded.exits = exits_;
    recorded.events = exits_;
    recorded.wall_ns = wall;
    recorded.bin_ns = bins_.width();
    recorded.guest = bins_.guest();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      recorded.rows[name_of(rows_[i])] = {halts_[i], bins_.take(i)};
    }
    return recorded;
  }

 private:
  TimeBins bins_;
  std::vector<std::uint32_t> rows_;
  std::vector<bool> halts_;
  std::uint64_t exits_ = 0;
};

Recorded resampled(const std::vector<Exit>& exits, Random& random, std::uint64_t times_as_long,
                   std::uint32_t shifted, double factor) {
  const std::uint64_t length = exits.back().end + 1;
  const std::uint64_t wall = times_as_long * length;
  Side side;
  for (std::uint64_t at = 0; at < wall; at += kPiece) {
    const std::uint64_t from = random.next() % length;
    const std::uint64_t piece = std::min(kPiece, wall - at);
    auto next = std::lower_bound(exits.begin(), exits.end(), from,
                                 [](const Exit& exit, std::uint64_t ns) { return exit.end < ns; });
    std::uint64_t turn = 0;
    while (true) {
      if (next == exits.end()) {
        next = exits.begin();
        turn += length;
      }
      const std::uint64_t offset = next->end + turn - from;
      if (offset >= piece) break;
      side.add(*next, at + offset, next->row == shifted ? factor : 1);
      ++next;
    }
  }
  return side.take(wall);
}

Recorded window(const std::vector<Exit>& exits, std::uint64_t from, std::uint64_t length) {
  Side side;
  for (const Exit& exit : exits) {
    if (exit.end >= from && exit.end < from + length) side.add(exit, exit.end - from, 1);
  }
  return side.take(length);
}

struct Score {
  std::size_t pairs = 0, too_short = 0, false_claims = 0, any = 0, tested = 0, found = 0,
              intervals = 0, covered = 0;
};

// The true change of a metric of the row, or of another one; nothing where it is not known.
std::optional<double> truth(const ComparedRow& row, Metric metric, const std::string& shifted,
                            double shift) {
  if (row.key != shifted || metric == Metric::kRate) return 0;
  return shift;  // each duration and each part is multiplied
}

void count(const Comparison& comparison, const std::string& shifted, double shift, Score& score) {
  bool claimed = false, any = false;
  for (const ComparedRow& row : comparison.rows) {
    for (std::size_t i = 0; i < kMetrics; ++i) {
      const MetricChange& metric = row.metrics[i];
      if (!metric.tested) continue;
      const auto expected = truth(row, static_cast<Metric>(i), shifted, shift);
      if (!expected) continue;
      (*expected == 0 ? claimed : any) |= metric.real;
      if (*expected == 0 && metric.real && std::getenv("BENCH_DIFF_VERBOSE") != nullptr) {
        fmt::print(stderr, "{} of row {}: {} of {} exits, {:+.1f} %, p {:.2g}\n", kMetricNames[i],
                   row.key, row.before_count, row.after_count, metric.change.change * 100,
                   metric.change.p);
      }
      if (!std::isfinite(metric.change.change)) continue;
      ++score.intervals;
      score.covered += metric.change.low <= *expected && *expected <= metric.change.high ? 1u : 0u;
    }
    const MetricChange& mean = row.of(Metric::kMean);
    if (row.key != shifted || !mean.tested) continue;
    ++score.tested;
    score.found += mean.real ? 1 : 0;
  }
  ++score.pairs;
  score.too_short += comparison.warnings.empty() ? 0u : 1u;
  score.false_claims += claimed ? 1 : 0;
  score.any += any ? 1 : 0;
}

double percent(std::size_t part, std::size_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void print(std::string_view name, std::string_view length, std::string_view kind,
           const Score& score) {
  fmt::print("| {} | {} | {} | {} | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % |\n", name,
             length, kind, score.pairs, percent(score.false_claims, score.pairs),
             percent(score.any, score.pairs), percent(score.found, score.tested),
             percent(score.covered, score.intervals), percent(score.too_short, score.pairs));
  std::fflush(stdout);
}

std::string seconds(std::uint64_t ns) {
  return fmt::format("{:.1f} s", static_cast<double>(ns) / 1e9);
}

std::uint32_t largest_row(const std::vector<Exit>& exits) {
  std::map<std::uint32_t, std::uint64_t> totals;
  for (const Exit& exit : exits) {
    if (!exit.halt) totals[exit.row] += exit.total;
  }
  return std::max_element(totals.begin(), totals.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

void bench(const char* path, std::size_t pairs, std::uint64_t times_as_long, bool cut) {
  const std::vector<Exit> exits = read_exits(path);
  const std::string_view full = path;
  const std::string_view name = full.substr(full.rfind('/') + 1);
  const std::uint32_t shifted = largest_row(exits);
  Random random(17);
  for (const double shift : {0.0, 0.05, 0.1, 0.2, 0.4}) {
    Score score;
    for (std::size_t i = 0; i < pairs; ++i) {
      const Recorded before = resampled(exits, random, times_as_long, shifted, 1);
      const Recorded after = resampled(exits, random, times_as_long, shifted, 1 + shift);
      CompareOptions options;
      options.seed = i + 1;
      count(compare({before}, {after}, options), name_of(shifted), shift, score);
    }
    print(name, seconds(times_as_long * (exits.back().end + 1)),
          fmt::format("{:+.0f} %", shift * 100), score);
  }
  if (!cut) return;
  Score score;
  const std::uint64_t length = exits.back().end + 1, part = length / 4;
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::uint64_t first = random.next() % (length - 2 * part);
    const std::uint64_t second = first + part + random.next() % (length - first - 2 * part + 1);
    CompareOptions options;
    options.seed = i + 1;
    count(compare({window(exits, first, part)}, {window(exits, second, part)}, options), "", 0,
          score);
  }
  print(name, seconds(part), "cut", score);
}

double mean_of(const std::vector<Exit>& exits, std::uint32_t row) {
  double sum = 0, count = 0;
  for (const Exit& exit : exits) {
    if (exit.row != row) continue;
    sum += static_cast<double>(exit.total);
    ++count;
  }
  return sum / std::max(1.0, count);
}

// Of windows of two recordings: the truth is known of the mean of the slow row, and that the
// durations of all others did not change.
void count_slower(const Comparison& comparison, const std::string& slow, double shift,
                  Score& score) {
  bool claimed = false, any = false;
  for (const ComparedRow& row : comparison.rows) {
    for (const Metric metric : {Metric::kMean, Metric::kP50, Metric::kP99, Metric::kCost}) {
      const MetricChange& change = row.of(metric);
      if (!change.tested) continue;
      if (row.key != slow && metric != Metric::kCost) claimed |= change.real;
      if (row.key == slow) any |= change.real && change.change.change > 0;
    }
    const MetricChange& mean = row.of(Metric::kMean);
    if (row.key != slow || !mean.tested) continue;
    ++score.tested;
    score.found += mean.real ? 1 : 0;
    ++score.intervals;
    score.covered += mean.change.low <= shift && shift <= mean.change.high ? 1u : 0u;
  }
  ++score.pairs;
  score.too_short += comparison.warnings.empty() ? 0u : 1u;
  score.false_claims += claimed ? 1 : 0;
  score.any += any ? 1 : 0;
}

void bench_windows(const std::vector<const char*>& recordings, std::size_t pairs,
                   std::uint64_t window_ns, const std::string& slow) {
  const auto base_name = [](std::string_view path) { return path.substr(path.rfind('/') + 1); };
  const std::vector<Exit> base = read_exits(recordings.front(), !slow.empty());
  const std::uint64_t length = base.back().end + 1;
  if (length < 2 * window_ns) {
    fmt::print(stderr, "{}: no two windows of {}\n", recordings.front(), seconds(window_ns));
    std::exit(1);
  }
  Random random(17);
  Score same;
  for (std::size_t i = 0; i < pairs; ++i) {
    // Two places that do not overlap, either first.
    const std::uint64_t room = length - 2 * window_ns + 1;
    std::uint64_t first = random.next() % room, second = random.next() % room;
    if (first > second) std::swap(first, second);
    second += window_ns;
    if (random.next() % 2 == 1) std::swap(first, second);
    CompareOptions options;
    options.seed = i + 1;
    count(compare({window(base, first, window_ns)}, {window(base, second, window_ns)}, options), "",
          0, same);
  }
  print(base_name(recordings.front()), seconds(window_ns), "same", same);
  const std::uint32_t row = row_of(slow);
  for (std::size_t n = 1; n < recordings.size(); ++n) {
    const std::vector<Exit> slower = read_exits(recordings[n], true);
    const double shift = mean_of(slower, row) / mean_of(base, row) - 1;
    Score score;
    for (std::size_t i = 0; i < pairs; ++i) {
      const std::uint64_t first = random.next() % (length - window_ns);
      const std::uint64_t second = random.next() % (slower.back().end + 1 - window_ns);
      CompareOptions options;
      options.seed = i + 1;
      count_slower(
          compare({window(base, first, window_ns)}, {window(slower, second, window_ns)}, options),
          slow, shift, score);
    }
    print(base_name(recordings[n]), seconds(window_ns), fmt::format("{:+.1f} %", shift * 100),
          score);
  }
}

}  // namespace
}  // namespace trapline

int main(int argc, char** argv) {
  std::size_t pairs = 200;
  std::vector<std::uint64_t> times;
  std::vector<const char*> recordings;
  std::string row;
  double seconds = 0;
  bool cut = false;
  const auto is = [&](int i, const char* name, bool has_value) {
    return std::strcmp(argv[i], name) == 0 && (!has_value || i + 1 < argc);
  };
  for (int i = 1; i < argc; ++i) {
    if (is(i, "--pairs", true)) {
      pairs = std::strtoul(argv[++i], nullptr, 10);
    } else if (is(i, "--times", true)) {
      times.push_back(std::max(1ul, std::strtoul(argv[++i], nullptr, 10)));
    } else if (is(i, "--windows", true)) {
      seconds = std::strtod(argv[++i], nullptr);
    } else if (is(i, "--row", true)) {
      row = argv[++i];
    } else if (is(i, "--cut", false)) {
      cut = true;
    } else {
      recordings.push_back(argv[i]);
    }
  }
  fmt::print(
      "| recording | a side | shift | pairs | false claims | row found | mean found | interval "
      "holds the truth | said to be too short |\n|---|---|---|---|---|---|---|---|---|\n");
  if (seconds > 0) {
    trapline::bench_windows(recordings, pairs, static_cast<std::uint64_t>(seconds * 1e9), row);
    return 0;
  }
  if (times.empty()) times.push_back(4);
  for (const char* recording : recordings) {
    for (std::size_t k = 0; k < times.size(); ++k) {
      trapline::bench(recording, pairs, times[k], cut && k == 0);
    }
  }
  return 0;
}
