// Distributions in the cells of a text table.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "merge/model/histogram.h"
#include "merge/render/units.h"

namespace trapline {

// One unit for the medians of all these histograms of all rows.
template <typename Rows, typename Row>
[[nodiscard]] Unit unit_of_medians(Rows&& rows, std::initializer_list<Histogram Row::*> parts,
                                   bool cycles) {
  std::vector<std::uint64_t> values;
  for (const Row& row : rows) {
    for (const auto part : parts) values.push_back((row.*part).percentile(500));
  }
  return choose_unit(values, cycles);
}

// "-" of nothing.
[[nodiscard]] inline std::string percentile_cell(const Histogram& histogram,
                                                 std::uint32_t per_mille, const Unit& unit) {
  return histogram.count() == 0 ? "-" : in_unit(histogram.percentile(per_mille), unit);
}

// The median and the 99th percentile.
inline void add_percentiles(std::vector<std::string>& cells, const Histogram& histogram,
                            const Unit& unit) {
  cells.push_back(percentile_cell(histogram, 500, unit));
  cells.push_back(percentile_cell(histogram, 990, unit));
}

}  // namespace trapline
