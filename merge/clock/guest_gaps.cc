#include "merge/clock/guest_gaps.h"

#include <algorithm>

namespace trapline {

void GuestGaps::on_exit(std::uint64_t at) {
  if (entry_ != 0) gap(entry_, at);
  entry_ = 0;
  last_exit_ = at;
}

void GuestGaps::on_entry(std::uint64_t at) { entry_ = at; }

void GuestGaps::on_hole() {
  entry_ = 0;
  last_exit_ = 0;
  open_.clear();
}

void GuestGaps::gap(std::uint64_t from, std::uint64_t to) {
  // Records that may lie before what is known are left out.
  while (last_exit_ == 0 && next_ < records_.size() && low(records_[next_]) < from) ++next_;
  for (; next_ < records_.size() && low(records_[next_]) <= to; ++next_)
    open_.push_back({records_[next_]});
  std::erase_if(open_, [&](Open& open) {
    if (open.record.target + open.record.error < from) {
      decide(open, from);
      return true;
    }
    if (low(open.record) <= to && open.touched++ == 0) {
      open.from = from;
      open.to = to;
    }
    return false;
  });
}

void GuestGaps::decide(const Open& open, std::uint64_t next_gap) {
  ++counters_.records;
  const std::uint64_t at = open.record.target;
  if (open.touched == 0) {
    ++counters_.impossible;
    const std::uint64_t before = at - std::min(at, last_exit_);
    const std::uint64_t after = next_gap - std::min(next_gap, at);
    counters_.residual_ns = std::max(counters_.residual_ns, std::min(before, after));
  } else if (open.touched == 1) {
    ++counters_.decided;
    bounds_.push_back({open.record.source, open.from, open.to});
    const std::uint64_t outside = at < open.from ? open.from - at : at > open.to ? at - open.to : 0;
    counters_.residual_ns = std::max(counters_.residual_ns, outside);
  }
}

}  // namespace trapline
