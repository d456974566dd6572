#include "merge/analyze/block_requests.h"

#include <algorithm>
#include <iterator>

namespace trapline {
namespace {

constexpr std::uint32_t kMinorBits = 20;
constexpr std::uint64_t kLargest = ~std::uint64_t{0};  // the largest distance

// Returns how many sectors two ranges share.
std::uint64_t overlap(std::uint64_t a, std::uint64_t size_a, std::uint64_t b,
                      std::uint64_t size_b) {
  const std::uint64_t begin = std::max(a, b), end = std::min(a + size_a, b + size_b);
  return begin < end ? end - begin : 0;
}

}  // namespace

void BlockRequests::begin(ThreadId process, std::uint64_t value, const BlockTransfer& transfer) {
  (void)end(process, value);  // drops an open request with the same key
  if (open_.size() < kMostOpen)
    open_[{process, value}] = {transfer, transfer.sectors, {}, {}, {}, 0, false};
}

std::optional<BlockTimes> BlockRequests::end(ThreadId process, std::uint64_t value) {
  const Key key{process, value};
  const auto found = open_.extract(key);
  if (!found) return std::nullopt;
  const Request& request = found.mapped();
  for (Bio& bio : bios_) std::erase(bio.requests, key);
  std::erase_if(bios_, [](const Bio& bio) { return bio.requests.empty(); });
  const bool whole = request.issued && request.completed && request.on_disk == 0;
  if (!whole || request.uncertain) return std::nullopt;
  return BlockTimes{request.queued, *request.issued, *request.completed};
}

void BlockRequests::on(const Event& event, const BlockIo& block, ThreadId process) {
  if (open_.empty() || block.read == block.write || block.sectors == 0) return;
  switch (block.step) {
    case BlockStep::kQueued:
      bios_are_recorded_ = true;
      if (Bio* bio = add(block, process)) {
        for (const Key& key : bio->requests) {
          Request& request = open_.at(key);
          if (!request.queued) request.queued = event.at;
        }
      }
      break;
    case BlockStep::kIssued:
      // Without recorded bios, a disk's request counts for the process whose thread passes it to
      // the driver.
      if (!bios_are_recorded_) (void)add(block, process);
      issue(event.at, block);
      break;
    case BlockStep::kCompleted:
      complete(event.at, block);
      break;
  }
}

BlockRequests::Bio* BlockRequests::add(const BlockIo& block, ThreadId process) {
  if (process == ThreadId{}) return nullptr;
  std::vector<Key> of = owners(block, process);
  if (of.empty()) return nullptr;
  if (bios_.size() >= kMostOpen) {
    ++ambiguous_;
    for (const Key& key : of) open_.at(key).uncertain = true;
    return nullptr;
  }
  for (const Key& key : of) {
    Request& request = open_.at(key);
    request.unqueued -= std::min<std::uint64_t>(request.unqueued, block.sectors);
  }
  bios_.push_back({block.device, block.sector, block.sectors, block.sectors, false, std::move(of)});
  return &bios_.back();
}

void BlockRequests::Place::add(std::uint64_t distance) {
  const auto at = std::ranges::lower_bound(known, distance);
  if (at == known.end() || *at != distance) known.insert(at, distance);
}

// Returns the requests of `open` that share sectors with the bio if the image lies at one of the
// distances in `place`. Returns none if two distances give different requests or if one gives too
// many. A binary search finds a request's distances, since there may be many requests and many
// distances.
std::vector<BlockRequests::Key> BlockRequests::at_place(const Place& place, const BlockIo& block,
                                                        const Open& open) {
  const std::vector<std::uint64_t>& known = place.known;
  std::vector<std::vector<Key>> at(known.size());
  for (const auto& [key, request] : open) {
    const BlockTransfer& transfer = request->transfer;
    // The distance is the device's sector minus the guest's: bio and request can share sectors only
    // if the distance is at most `size` above `least`, which may wrap around 0.
    const std::uint64_t least = block.sector - transfer.sector - transfer.sectors;
    const bool is_all = transfer.sectors > kLargest / 2;
    const std::uint64_t size = is_all ? kLargest : transfer.sectors + block.sectors;
    auto next = static_cast<std::size_t>(std::ranges::lower_bound(known, least) - known.begin());
    for (std::size_t i = 0; i < known.size(); ++i, ++next) {
      if (next >= known.size()) next = 0;
      const std::uint64_t distance = known[next];
      if (distance - least > size) break;
      if (overlap(transfer.sector + distance, transfer.sectors, block.sector, block.sectors) != 0)
        at[next].push_back(key);
      if (at[next].size() > kMostOwners) return {};
    }
  }
  std::vector<Key> found;
  for (std::vector<Key>& here : at) {
    if (here.empty() || here == found) continue;
    if (!found.empty()) return {};
    found = std::move(here);
  }
  return found;
}

std::vector<BlockRequests::Key> BlockRequests::owners(const BlockIo& block, ThreadId process) {
  Open open;
  for (auto at = open_.lower_bound({process, 0}); at != open_.end() && at->first.first == process;
       ++at) {
    if (at->second.transfer.write == block.write) open.emplace_back(at->first, &at->second);
  }
  if (open.empty()) return {};
  const std::pair where{process, block.device};
  if (places_.size() >= kMostPlaces && !places_.contains(where)) places_.clear();
  Place& place = places_[where];
  if (open.size() == 1) {
    const BlockTransfer& only = open[0].second->transfer;
    if (only.sectors == block.sectors && place.known.size() < kMostKnown)
      place.add(block.sector - only.sector);
    return {open[0].first};
  }
  std::vector<Key> found = at_place(place, block, open);
  if (!found.empty() && found.size() <= kMostOwners) return found;
  std::erase_if(open, [](const auto& one) { return one.second->unqueued == 0; });
  narrow(place, block, open);
  found = at_place(place, block, open);
  if (found.size() > kMostOwners) found.clear();
  if (found.empty() && !open.empty()) {
    ++ambiguous_;
    for (const auto& [key, request] : open) request->uncertain = true;
  }
  return found;
}

// Keeps the possible places of the image that explain this bio too; starts anew if none does.
void BlockRequests::narrow(Place& place, const BlockIo& block, const Open& open) {
  std::vector<std::uint64_t> distances, both;
  for (const auto& [key, request] : open) {
    const BlockTransfer& transfer = request->transfer;
    if (transfer.sectors == block.sectors) distances.push_back(block.sector - transfer.sector);
  }
  std::ranges::sort(distances);
  distances.erase(std::unique(distances.begin(), distances.end()), distances.end());
  std::ranges::set_intersection(distances, place.possible, std::back_inserter(both));
  const bool agrees = !both.empty();
  place.possible = agrees ? std::move(both) : std::move(distances);
  place.seen = agrees ? place.seen + 1 : 1;
  if (place.possible.size() != 1 || place.seen < kEnough || place.known.size() >= kMostKnown)
    return;
  place.add(place.possible.front());
  place.possible.clear();
  place.seen = 0;
}

// Returns the device number that the bios in a disk's request have. A bio for a partition has the
// partition's number and the disk's sector; the request has the disk's number, which is below those
// of its partitions.
std::uint32_t BlockRequests::device_of(const BlockIo& block) const {
  std::uint32_t nearest = 0;
  for (const Bio& bio : bios_) {
    if (bio.device < block.device || bio.device >> kMinorBits != block.device >> kMinorBits ||
        overlap(bio.sector, bio.sectors, block.sector, block.sectors) == 0) {
      continue;
    }
    if (nearest == 0 || bio.device < nearest) nearest = bio.device;
  }
  return nearest;
}

void BlockRequests::issue(Timestamp at, const BlockIo& block) {
  const std::uint32_t device = device_of(block);
  for (Bio& bio : bios_) {
    if (bio.issued || bio.device != device ||
        overlap(bio.sector, bio.sectors, block.sector, block.sectors) == 0) {
      continue;
    }
    bio.issued = true;
    for (const Key& key : bio.requests) {
      Request& request = open_.at(key);
      if (!request.issued) request.issued = at;
      ++request.on_disk;
    }
  }
}

void BlockRequests::complete(Timestamp at, const BlockIo& block) {
  const std::uint32_t device = device_of(block);
  std::erase_if(bios_, [&](Bio& bio) {
    const std::uint64_t done = overlap(bio.sector, bio.sectors, block.sector, block.sectors);
    if (!bio.issued || bio.device != device || done == 0) return false;
    bio.left -= std::min(bio.left, done);
    if (bio.left != 0) return false;
    for (const Key& key : bio.requests) {
      Request& request = open_.at(key);
      request.completed = at;
      --request.on_disk;
    }
    return true;
  });
}

void BlockRequests::on_hole() {
  open_.clear();
  bios_.clear();
}

}  // namespace trapline
