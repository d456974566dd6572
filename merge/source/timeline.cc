#include "merge/source/timeline.h"

#include <utility>

namespace trapline {
namespace {

constexpr std::size_t kNone = ~std::size_t{0};

}  // namespace

Timeline::Timeline(std::vector<std::unique_ptr<Source>> sources) : handed_out_(kNone) {
  if (sources.size() == 1) only_ = sources[0].get();
  for (auto& source : sources) lanes_.push_back({std::move(source), {}});
  // The first next() fetches these lanes' events, after select() was called.
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) pending_.push_back(lane);
}

// Fetches the lane's next event and puts the lane in the heap; a lane that ended stays out of it.
void Timeline::fetch(std::size_t lane) {
  switch (lanes_[lane].source->next(lanes_[lane].ahead)) {
    case Read::kEvent:
      lanes_[lane].ahead.source = static_cast<std::uint16_t>(lane);
      heap_.push(lane, lanes_[lane].ahead.at.ns());
      break;
    case Read::kPending:
      pending_.push_back(lane);
      break;
    case Read::kEnd:
      break;
  }
}

Read Timeline::next_of_many(Event& event) {
  if (!pending_.empty()) [[unlikely]] {
    std::vector<std::size_t> again;
    again.swap(pending_);
    for (const std::size_t lane : again) fetch(lane);
  }
  // From now on the source may reuse the buffer that the last event's views point into.
  if (handed_out_ != kNone) fetch(std::exchange(handed_out_, kNone));
  if (!pending_.empty()) [[unlikely]]
    return Read::kPending;
  if (heap_.empty()) return Read::kEnd;
  handed_out_ = heap_.pop();
  event = lanes_[handed_out_].ahead;
  return Read::kEvent;
}

Result<void> Timeline::status() const {
  for (const Lane& lane : lanes_)
    if (!lane.source->status()) return lane.source->status();
  return {};
}

double Timeline::progress() const {
  double sum = 0;
  for (const Lane& lane : lanes_) sum += lane.source->progress();
  return lanes_.empty() ? 1 : sum / static_cast<double>(lanes_.size());
}

}  // namespace trapline
