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
    for (const auto part : parts) values.push_back((row.*part).percentile(500).value_or(0));
  }
  return choose_unit(values, cycles);
}

// The median and the 99th percentile, "-" where they are not known.
inline void add_percentiles(std::vector<std::string>& cells, const Histogram& histogram,
                            const Unit& unit) {
  cells.push_back(in_unit(histogram.percentile(500), unit));
  cells.push_back(in_unit(histogram.percentile(990), unit));
}

}  // namespace trapline
