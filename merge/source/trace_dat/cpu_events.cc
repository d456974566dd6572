#include "merge/source/trace_dat/cpu_events.h"

namespace trapline::trace_dat {

bool CpuEvents::advance_page() {
  do {
    if (!status_) return false;
    if (page_.damaged()) {
      status_ = fail(ErrorKind::kDamaged,
                     "{}: damaged: an event of CPU {} before offset {} does not fit its page",
                     file_->path(), cpu_, reader_.position());
      return false;
    }
    auto page = reader_.next();
    if (!page) {
      status_ = tl::unexpected(std::move(page).error());
      return false;
    }
    if (page->empty()) return false;
    if (!page_.load(*page, commit_size_, order_)) {
      status_ = fail(ErrorKind::kDamaged,
                     "{}: damaged: a page of CPU {} before offset {} is not a ring-buffer page",
                     file_->path(), cpu_, reader_.position());
      return false;
    }
    const std::int64_t lost = page_.lost();
    if (page_.empty() && shift_ == nullptr && page_.time() >= next_.time) {
      next_ = {page_.time(), nullptr, 0};
      lost_ = lost;
      after_marked_boundary_ = lost != RingPage::kNoneLost;
      return true;
    }
    // An empty page of no time: what it says was lost counts for the next.
    if (lost != RingPage::kNoneLost && !after_marked_boundary_) lost_ = lost;
    after_marked_boundary_ = false;
  } while (!page_.next(next_));
  shift_time();
  return true;
}

}  // namespace trapline::trace_dat
