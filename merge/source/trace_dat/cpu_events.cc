#include "merge/source/trace_dat/cpu_events.h"

#include <algorithm>

namespace trapline::trace_dat {

// Returns the time of the page's first event; of a boundary page, which has no events, the time in
// its header; 0: no time. The header's time can be that of an event that is not in the page any
// more, if `trapline record` cut the page.
std::uint64_t CpuEvents::time_of(RingPage page) const {
  kernel_events::RecordedEvent first;
  if (page.time() == 0 || page.empty()) return page.time();
  return page.next(first) ? first.time : page.time();
}

// Walks the page to its end and keeps its events, for which events_ has room. The byte order is a
// template's parameter, so that it is not tested for each event.
template <std::endian kOrder>
void CpuEvents::find_events(RingPage& page) {
  kernel_events::RecordedEvent* end = events_.data();
  unwanted_.clear();
  const std::uint8_t* const selected = selected_;
  bool is_unwanted = false;
  std::uint64_t last = 0;
  page.take_all([&](const kernel_events::RecordedEvent& event) {
    is_unwanted = false;
    if (selected != nullptr && event.size >= sizeof(std::uint16_t)) [[likely]] {
      const auto type = trapline::load<std::uint16_t>(event.data, kOrder);
      if (selected[type] == 0) {
        is_unwanted = true;
        unwanted_.push_back(type);
        last = event.time;
        if (end == events_.data()) *end++ = {last, nullptr, kMarkSize};
        return;
      }
    }
    *end++ = event;
  });
  if (is_unwanted && end[-1].time != last) *end++ = {last, nullptr, kMarkSize};
  found_ = std::span(events_.data(), end);
  if (shift_ == nullptr) return;
  for (auto& event : found_) event.time = (*shift_)(cpu_, event.time);
}

std::uint64_t CpuEvents::load(std::span<const std::byte> page, std::uint64_t last) {
  if (std::exchange(is_doubtful_, false)) return 0;
  RingPage walk;
  if (!walk.load(page, commit_size_, order_)) return 0;
  const std::uint64_t time = time_of(walk);
  if (time == 0 || time < last) return 0;
  const bool is_boundary = walk.empty();
  if (is_boundary) {
    // A boundary page has at most a number of lost events after its header. If there is more, the
    // page is not empty, and its length is damaged.
    const auto rest = page.subspan(8 + commit_size_ * (walk.lost() > 0 ? 2 : 1));
    if (!has_boundaries_ || std::ranges::any_of(rest, [](std::byte b) { return b != std::byte{}; }))
      return 0;
  }
  constexpr std::size_t kLeastSize = 8;  // of an event in a page
  events_.resize(std::max(events_.size(), page.size() / kLeastSize + 1));
  order_ == std::endian::little ? find_events<std::endian::little>(walk)
                                : find_events<std::endian::big>(walk);
  if (walk.damaged()) return 0;
  RingPage after;
  const std::uint64_t next = after.load(reader_.peek(), commit_size_, order_) ? time_of(after) : 0;
  if (next != 0 && next >= last && next < walk.time()) {
    constexpr std::size_t kMostMisplaced = 4096;
    if (misplaced_.size() < kMostMisplaced) misplaced_.push_back(time);
    is_doubtful_ = last == 0;
    return 0;
  }
  if (is_boundary && shift_ == nullptr) {
    events_[0] = {time, nullptr, 0};
    found_ = std::span(events_).first(1);
  }
  page_ = walk;
  return time;
}

void CpuEvents::pass_over(const PageReader::Damaged& pages, std::uint64_t last) {
  constexpr std::size_t kMostTold = 8;
  damaged_before_ = true;
  lost_ = RingPage::kUnknownLost;
  counts_.all += pages.pages;
  counts_.damaged += pages.pages;
  if (counts_.first.size() < kMostTold) counts_.first.push_back({pages.offset, last});
}

bool CpuEvents::advance_page() {
  const std::uint64_t last = page_.time();
  lost_ = RingPage::kNoneLost;
  damaged_before_ = false;
  for (;;) {
    auto page = reader_.next();
    if (!page) {
      status_ = tl::unexpected(std::move(page).error());
      return false;
    }
    if (const auto damaged = reader_.take_damaged(); damaged.pages != 0) pass_over(damaged, last);
    if (page->empty()) {
      damaged_before_ |= !misplaced_.empty();
      return false;
    }
    const std::uint64_t time = load(*page, last);
    if (time == 0) {
      pass_over({1, reader_.position()}, last);
      continue;
    }
    ++counts_.all;
    const std::int64_t lost = page_.lost();
    if (!misplaced_.empty() && std::erase_if(misplaced_, [time](std::uint64_t misplaced) {
                                 return misplaced <= time;
                               }) != 0) [[unlikely]] {
      damaged_before_ = true;
      lost_ = RingPage::kUnknownLost;
    }
    const bool same_loss = after_marked_boundary_ || damaged_before_;
    after_marked_boundary_ = false;
    const bool is_boundary = !found_.empty() && is_boundary_page(found_.front());
    if (is_boundary) after_marked_boundary_ = lost != RingPage::kNoneLost;
    if (is_boundary ? !damaged_before_ : lost != RingPage::kNoneLost && !same_loss) lost_ = lost;
    if (found_.empty()) continue;
    next_ = found_.data();
    last_ = &found_.back();
    return true;
  }
}

}  // namespace trapline::trace_dat
