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

// Loads the page into page_ if it can have been recorded after an event at `last`.
bool CpuEvents::load(std::span<const std::byte> page, std::uint64_t last) {
  if (std::exchange(is_doubtful_, false)) return false;
  RingPage begin;
  if (!begin.load(page, commit_size_, order_)) return false;
  const std::uint64_t time = time_of(begin);
  if (time == 0 || time < last) return false;
  if (begin.empty()) {
    // A boundary page has at most a number of lost events after its header. If there is more, the
    // page is not empty, and its length is damaged.
    const auto rest = page.subspan(8 + commit_size_ * (begin.lost() > 0 ? 2 : 1));
    if (!has_boundaries_ || std::ranges::any_of(rest, [](std::byte b) { return b != std::byte{}; }))
      return false;
  }
  RingPage walk = begin;
  walk.skip_all();
  if (walk.damaged()) return false;
  RingPage after;
  const std::uint64_t next = after.load(reader_.peek(), commit_size_, order_) ? time_of(after) : 0;
  if (next != 0 && next >= last && next < walk.time()) {
    constexpr std::size_t kMostMisplaced = 4096;
    if (misplaced_.size() < kMostMisplaced) misplaced_.push_back(time);
    is_doubtful_ = last == 0;
    return false;
  }
  page_ = begin;
  return true;
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
    if (!load(*page, last)) {
      pass_over({1, reader_.position()}, last);
      continue;
    }
    ++counts_.all;
    const std::int64_t lost = page_.lost();
    if (!misplaced_.empty() && std::erase_if(misplaced_, [this](std::uint64_t time) {
                                 return time <= time_of(page_);
                               }) != 0) [[unlikely]] {
      damaged_before_ = true;
      lost_ = RingPage::kUnknownLost;
    }
    const bool same_loss = after_marked_boundary_ || damaged_before_;
    after_marked_boundary_ = false;
    if (page_.empty() && shift_ == nullptr) {
      next_ = {page_.time(), nullptr, 0};
      after_marked_boundary_ = lost != RingPage::kNoneLost;
      if (!damaged_before_) lost_ = lost;
      return true;
    }
    if (lost != RingPage::kNoneLost && !same_loss) lost_ = lost;
    if (page_.next(next_)) break;
  }
  shift_time();
  return true;
}

}  // namespace trapline::trace_dat
