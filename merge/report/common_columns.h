// Columns that several tables have: the parts of a time, and the figures of a distribution.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "merge/model/exit_span.h"
#include "merge/model/histogram.h"
#include "merge/report/table.h"

namespace trapline {

// The parts of the time `whole`, "kernel_ns" and so on, which columns show as shares of it.
struct PartsOf {
  Parts parts;
  std::uint64_t whole;
  bool halts = false;  // the time contains only halts
};
inline constexpr std::array<std::string_view, kParts> kNoParts = {};
// Title of the kernel's column if it includes the VMM's time.
inline constexpr std::string_view kKernelOrUser = "kernel or QEMU";
[[nodiscard]] inline std::array<std::string_view, kParts> part_titles(const States& known) {
  std::array<std::string_view, kParts> titles = kPartNames;
  if (known[static_cast<std::size_t>(State::kKernel)] &&
      !known[static_cast<std::size_t>(State::kUser)])
    titles[static_cast<std::size_t>(Part::kKernel)] = kKernelOrUser;
  return titles;
}
// Returns the titles of all states, as part_titles().
[[nodiscard]] inline std::array<std::string_view, kStates> state_titles(const States& known) {
  std::array<std::string_view, kStates> titles = kStateNames;
  std::ranges::copy(part_titles(known), titles.begin());
  return titles;
}
template <typename Row, typename Get>
void add_part(TableOf<Row>& table, const States& known, std::size_t part, Column column, Get get) {
  column.key = std::string(kPartNames[part]) + "_ns";
  column.unit = Unit::kShare;
  table.add(std::move(column), [known, part, get](const Row& row) {
    const PartsOf of = get(row);
    return Share{known_ns(known, part, of.parts, of.halts), of.whole};
  });
}
// Adds a column for each part. `drop_order`: Column::drop_order of the first part. On a narrow
// terminal the last parts are dropped first.
template <typename Row, typename Get>
void add_parts(TableOf<Row>& table, const States& known,
               const std::array<std::string_view, kParts>& titles, std::string_view whole,
               std::uint8_t drop_order, Get get) {
  for (std::size_t i = 0; i < kParts; ++i)
    add_part(table, known, i,
             {.title = std::string(titles[i]),
              .drop_order = static_cast<std::uint8_t>(drop_order == 0 ? 0 : drop_order + i),
              .whole = std::string(whole)},
             get);
}
// Adds the parts of calls of guest functions, which have no kernel time. QEMU's part is titled
// "devices"; `at_most` returns a row's share in the column beside it, "devices at most".
template <typename Row, typename Get, typename AtMost>
void add_call_parts(TableOf<Row>& table, const States& known, const std::string& whole, Get get,
                    AtMost at_most) {
  constexpr std::array<std::string_view, kParts> kTitles = {"", "devices", "preempted", "blocked",
                                                            ""};
  for (std::size_t i = 0; i < kParts; ++i) {
    if (static_cast<Part>(i) == Part::kPreempted)
      table.add({.title = "devices at most", .unit = Unit::kShare, .whole = whole}, at_most);
    add_part(table, known, i, {.title = std::string(kTitles[i]), .whole = whole}, get);
  }
}

// Titles of the columns of a distribution that text shows.
struct DistributionTitles {
  struct Title {
    std::string_view text{};
    std::uint8_t drop_order = 0;
    Title() = default;
    Title(const char* title, std::uint8_t when = 0) : text(title), drop_order(when) {}
    Title(std::string_view title) : text(title) {}
  };
  Title count{}, mean{}, p50{}, p90{}, p99{}, max{};
  std::uint8_t block = 0;
};

// Adds min_ns, mean_ns, the percentiles and max_ns of a Histogram, or of a type with the same
// figures. `get` returns a pointer to it; nullptr means that the row has none.
template <typename Row, typename Get>
void add_percentiles(TableOf<Row>& table, const std::string& prefix,
                     const DistributionTitles& titles, Get get) {
  const auto add = [&](std::string_view key, const DistributionTitles::Title& title, auto figure) {
    table.add({prefix + std::string(key), std::string(title.text), Unit::kDuration, titles.block,
               title.drop_order},
              [get, figure](const Row& row) -> CellValue {
                const auto* histogram = get(row);
                if (histogram == nullptr) return Absent();
                return histogram->count() == 0 ? CellValue() : to_value(figure(*histogram));
              });
  };
  const auto percentile = [](std::uint32_t per_mille) {
    return [per_mille](const auto& histogram) { return histogram.percentile(per_mille); };
  };
  add("min_ns", {}, [](const auto& histogram) { return histogram.min(); });
  add("mean_ns", titles.mean, [](const auto& histogram) { return histogram.mean(); });
  add("p50_ns", titles.p50, percentile(500));
  add("p90_ns", titles.p90, percentile(900));
  add("p99_ns", titles.p99, percentile(990));
  add("p999_ns", {}, percentile(999));
  add("max_ns", titles.max, [](const auto& histogram) { return histogram.max(); });
}

// Adds a histogram's count, total, mean and percentiles as an object such as "raise_to_inject".
template <typename Row, typename Get>
void add_distribution(TableOf<Row>& table, std::string_view key, const DistributionTitles& titles,
                      Get get) {
  const std::string prefix = std::string(key) + '.';
  const auto add = [&](std::string_view name, const DistributionTitles::Title& title, auto figure) {
    table.add({prefix + std::string(name), std::string(title.text), Unit::kCount, titles.block},
              [get, figure](const Row& row) -> CellValue {
                const auto* histogram = get(row);
                return histogram == nullptr ? CellValue(Absent()) : to_value(figure(*histogram));
              });
  };
  add("count", titles.count, [](const auto& histogram) { return histogram.count(); });
  add("total_ns", {}, [](const auto& histogram) { return histogram.total(); });
  add_percentiles(table, prefix, titles, get);
}
template <typename Row, typename Base>
void add_distribution(TableOf<Row>& table, std::string_view key, const DistributionTitles& titles,
                      Histogram Base::*histogram) {
  add_distribution(table, key, titles, [histogram](const Row& row) { return &(row.*histogram); });
}

}  // namespace trapline
