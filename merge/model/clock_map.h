// Converts a source's times to the timeline's, once per event: by an integer multiplication and a
// shift, or not at all if the clocks are the same. A ClockMap consists of pieces: intervals of
// source time, each with its own rate. Copies of a map share the pieces.
//
// Within a piece, the conversion keeps the order of times. Across pieces, a later source time can
// become an earlier one if a clock was set back: the source's times then do not show the true
// order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "merge/model/event.h"

namespace trapline {

class ClockMap {
 public:
  struct Piece {
    std::uint64_t from = 0;    // the piece covers source times from here up to the next piece
    std::uint64_t source = 0;  // a source time
    std::uint64_t target = 0;  // the time on the timeline that `source` becomes
    std::uint64_t mult = 1;    // target ticks per source tick, times 2^shift; below 2^63
    unsigned shift = 0;
    [[nodiscard]] std::uint64_t operator()(std::uint64_t time) const {
      __extension__ using Wide = __int128;
      const auto delta = static_cast<std::int64_t>(time - source);
      const Wide sum = Wide{target} + ((Wide{delta} * static_cast<std::int64_t>(mult)) >> shift);
      if (sum < 0) return 0;
      constexpr std::uint64_t kMost = ~std::uint64_t{0};
      return sum > Wide{kMost} ? kMost : static_cast<std::uint64_t>(sum);
    }
  };

  ClockMap() = default;  // the identity
  // `pieces` are in order of `from`; the first one also covers earlier times.
  explicit ClockMap(std::vector<Piece> pieces)
      : first_(pieces.front()), identity_(pieces.size() == 1 && is_identity(pieces.front())) {
    if (pieces.size() > 1) pieces_ = std::make_shared<const std::vector<Piece>>(std::move(pieces));
  }
  [[nodiscard]] static ClockMap offset(std::int64_t ns) {
    // kBase is far from 0 and 2^63, so that neither a negative `ns` nor a difference of times
    // overflows.
    constexpr std::uint64_t kBase = std::uint64_t{1} << 62;
    return ClockMap({{0, kBase, kBase + static_cast<std::uint64_t>(ns), 1, 0}});
  }

  [[nodiscard]] bool is_identity() const { return identity_; }
  [[nodiscard]] std::uint64_t operator()(std::uint64_t time) const {
    if (identity_) [[likely]]
      return time;
    if (!pieces_ || time < (*pieces_)[1].from) return first_(time);
    const auto after = std::ranges::upper_bound(*pieces_, time, {}, &Piece::from);
    return (*(after - 1))(time);
  }
  [[nodiscard]] Timestamp operator()(Timestamp at) const { return Timestamp((*this)(at.ns())); }
  // Returns the first source time that is not before `target` on the timeline.
  [[nodiscard]] std::uint64_t source_of(std::uint64_t target) const {
    std::uint64_t low = 0, high = ~std::uint64_t{0} >> 1;
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if ((*this)(middle) >= target) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

 private:
  static bool is_identity(const Piece& piece) {
    return piece.source == piece.target && piece.mult == 1 && piece.shift == 0;
  }
  Piece first_;
  std::shared_ptr<const std::vector<Piece>> pieces_;  // only if there are several
  bool identity_ = true;
};

}  // namespace trapline
