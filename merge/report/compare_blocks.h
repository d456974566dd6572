// A side of a comparison cut into blocks of time, and figures of it with their spread over
// resamples of those blocks.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "merge/report/compare.h"

namespace trapline {

// The block that a recording needs, in nanoseconds: from the autocorrelation of the bins' time in
// exits, and of the rates of the largest rows.
struct NeededBlock {
  std::uint64_t ns = 0;
  bool enough = true;  // false: the recording is too short for blocks of the length that it needs
};
[[nodiscard]] NeededBlock needed_block(const Recorded& recorded);

struct SideBlocks {
  static constexpr std::size_t kMostBlocks = 128;  // of a recording

  SideBlocks(const std::vector<Recorded>& side, std::uint64_t block_ns, std::size_t resamples,
             std::uint64_t seed);
  // The block of a recording's bin, among those of all recordings.
  [[nodiscard]] std::size_t block_of(std::size_t recording, std::uint32_t bin) const;

  std::vector<std::size_t> counts, first, bins_per_block;  // of each recording
  std::vector<double> wall, vcpu_wall, guest;              // of each block; wall in seconds
  Resamples resamples;
};

// One row in the blocks of a side.
struct RowBlocks {
  RowBlocks(const std::vector<Recorded>& side, const SideBlocks& blocks, const std::string& key);

  std::uint64_t exits = 0;
  std::vector<double> count, total;
  std::array<std::vector<double>, kParts> parts;
  std::vector<std::uint16_t> buckets;  // those that occur, ascending
  // For each of buckets, for each block: how many exits are in it or in a smaller one.
  std::vector<double> up_to;
};

// The sum of `above` by the sum of `below`.
[[nodiscard]] Estimate ratio_of(const SideBlocks& side, const std::vector<double>& above,
                                const std::vector<double>& below);
// By nearest rank, as Histogram's.
[[nodiscard]] Estimate percentile_of(const SideBlocks& side, const RowBlocks& row,
                                     unsigned per_mille);
[[nodiscard]] std::size_t blocks_above_zero(const std::vector<double>& values);

}  // namespace trapline
