#include "merge/clock/guest_run_intervals.h"

#include <algorithm>

namespace trapline {

void GuestRunIntervals::on_exit(std::uint64_t at) {
  // An exit that KVM handled on its fast path has no kvm_entry: the guest may have run all the
  // time.
  const std::uint64_t from = entry_ != 0 ? entry_ : last_exit_;
  if (from != 0) gap(from, at);
  entry_ = 0;
  last_exit_ = at;
}

void GuestRunIntervals::on_entry(std::uint64_t at) { entry_ = at; }

void GuestRunIntervals::on_hole() {
  entry_ = 0;
  last_exit_ = 0;
  open_.clear();
}

void GuestRunIntervals::gap(std::uint64_t from, std::uint64_t to) {
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

void GuestRunIntervals::decide(const Open& open, std::uint64_t next_gap) {
  ++counters_.records;
  const std::uint64_t at = open.record.target;
  if (open.touched == 0) {
    ++counters_.impossible;
    if (!impossible_) impossible_ = {open.record, last_exit_, next_gap};
    const std::uint64_t before = at - std::min(at, last_exit_);
    const std::uint64_t after = next_gap - std::min(next_gap, at);
    counters_.residual_ns = std::max(counters_.residual_ns, std::min(before, after));
  } else if (open.touched == 1) {
    ++counters_.decided;
    if (open.from != decided_for_) ++counters_.intervals;
    decided_for_ = open.from;
    bounds_.push_back(ClockBound::at(open.record.source, open.from, open.to));
    const std::uint64_t outside = at < open.from ? open.from - at : at > open.to ? at - open.to : 0;
    counters_.residual_ns = std::max(counters_.residual_ns, outside);
  }
}

}  // namespace trapline
