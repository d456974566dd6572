#include "merge/source/timeline.h"

#include <algorithm>

namespace trapline {
namespace {

constexpr std::size_t kNone = ~std::size_t{0};

}  // namespace

Timeline::Timeline(std::vector<std::unique_ptr<Source>> sources) : handed_out_(kNone) {
  for (auto& source : sources) lanes_.push_back({std::move(source), {}});
  if (lanes_.size() > 1) {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) fetch(lane);
  }
}

bool Timeline::is_later(std::size_t a, std::size_t b) const {
  const Timestamp at_a = lanes_[a].ahead.at;
  const Timestamp at_b = lanes_[b].ahead.at;
  return at_a != at_b ? at_a > at_b : a > b;
}

// Puts the lane's next event in view; a lane that ended leaves the heap.
void Timeline::fetch(std::size_t lane) {
  if (!lanes_[lane].source->next(lanes_[lane].ahead)) return;
  lanes_[lane].ahead.source = static_cast<std::uint16_t>(lane);
  heap_.push_back(lane);
  std::push_heap(heap_.begin(), heap_.end(),
                 [this](std::size_t a, std::size_t b) { return is_later(a, b); });
}

bool Timeline::next_of_many(Event& event) {
  // Only now may the source reuse the buffer that the last event's views point into.
  if (handed_out_ != kNone) fetch(std::exchange(handed_out_, kNone));
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(),
                [this](std::size_t a, std::size_t b) { return is_later(a, b); });
  handed_out_ = heap_.back();
  heap_.pop_back();
  event = lanes_[handed_out_].ahead;
  return true;
}

Result<void> Timeline::status() const {
  for (const Lane& lane : lanes_) {
    if (!lane.source->status()) return lane.source->status();
  }
  return {};
}

double Timeline::progress() const {
  double sum = 0;
  for (const Lane& lane : lanes_) sum += lane.source->progress();
  return lanes_.empty() ? 1 : sum / static_cast<double>(lanes_.size());
}

}  // namespace trapline
