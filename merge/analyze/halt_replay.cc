#include "merge/analyze/halt_replay.h"

#include <algorithm>
#include <utility>

namespace trapline {
namespace {

constexpr std::uint64_t kHalved = 2;

template <std::size_t... I>
std::array<HaltReplay, sizeof...(I)> replays(std::uint64_t shrink, std::index_sequence<I...>) {
  return {HaltReplay(HaltReplays::kSettings[I], shrink)...};
}

}  // namespace

void HaltReplay::add(const Halt& halt) {
  const bool wins = halt.at_once || (interval_ != 0 && halt.wake_ns <= interval_);
  const std::uint64_t late = wins ? 0 : halt.late_ns;
  polling_ += std::min(halt.wake_ns, interval_);
  late_ += late;
  ++(wins ? won_ : lost_);
  if (!wins && !halt.slept) ++would_sleep_;
  adjust(halt.wake_ns + late);
}

void HaltReplay::adjust(std::uint64_t halted_ns) {
  if (max_ == 0 || halted_ns <= interval_) return;
  if (interval_ != 0 && halted_ns > max_) {
    interval_ = how_.shrink == 0 ? 0 : interval_ / how_.shrink;
    if (interval_ < how_.grow_start) interval_ = 0;
  } else if (interval_ < max_ && halted_ns < max_) {
    interval_ = std::min(std::max(interval_ * how_.grow, how_.grow_start), max_);
  }
}

HaltReplays::HaltReplays()
    : zeroing_(replays(0, std::make_index_sequence<kSettings.size()>())),
      halving_(replays(kHalved, std::make_index_sequence<kSettings.size()>())) {}

void HaltReplays::add(const Halt& halt) {
  ++halts_;
  if (halt.slept) late_.add(halt.late_ns);
  for (HaltReplay& replay : zeroing_) replay.add(halt);
  for (HaltReplay& replay : halving_) replay.add(halt);
}

// An interval that is halved below grow_start becomes 0 too: that tells nothing.
void HaltReplays::on_change(std::uint64_t before, std::uint64_t now) {
  if (now >= before) return;
  if (now != 0) ++halved_;
  if (now == 0 && before / kHalved >= PollParameters().grow_start) ++zeroed_;
}

HaltReplays::Rows HaltReplays::rows(bool halves) const {
  Rows rows;
  const auto& replays = halves ? halving_ : zeroing_;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const HaltReplay& replay = replays[i];
    rows[i] = {replay.max_ns(), replay.won(), replay.lost(), replay.polling_ns(),
               replay.late_ns() + replay.would_sleep() * late_.percentile(500).value_or(0)};
  }
  return rows;
}

}  // namespace trapline
