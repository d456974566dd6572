#include "merge/clock/guest_run_intervals.h"

#include <algorithm>

namespace trapline {

void RunLog::add(Log& log, Entry entry) {
  const std::uint64_t stretch = log.seen++ / kStretch;
  if (stretch % every_ != 0) return;
  log.stretches[stretch].push_back(entry);
  if (++kept_ >= kMost) thin_out();
}

void RunLog::thin_out() {
  every_ *= 2;
  for (auto& [thread, log] : threads_) {
    std::erase_if(log.stretches, [this](const auto& stretch) {
      if (stretch.first % every_ == 0) return false;
      kept_ -= stretch.second.size();
      return true;
    });
  }
}

void RunLog::on_event(const Event& event) {
  if (std::holds_alternative<KvmExit>(event.payload)) {
    add(threads_[event.thread], {event.at.ns(), Step::kExit});
  } else if (std::holds_alternative<KvmEntry>(event.payload)) {
    add(threads_[event.thread], {event.at.ns(), Step::kEntry});
  } else if (std::holds_alternative<Lost>(event.payload)) {
    for (auto& [thread, log] : threads_) add(log, {0, Step::kLoss});
  }
}

void RunLog::replay(ThreadId thread, GuestRunIntervals& into) const {
  const auto found = threads_.find(thread);
  if (found == threads_.end()) return;
  std::uint64_t expected = 0;
  for (const auto& [number, stretch] : found->second.stretches) {
    if (number != expected) into.on_hole();
    expected = number + 1;
    for (const Entry& entry : stretch) {
      if (entry.step == Step::kExit) into.on_exit(entry.at);
      if (entry.step == Step::kEntry) into.on_entry(entry.at);
      if (entry.step == Step::kLoss) into.on_hole();
    }
  }
}

void GuestRunIntervals::on_exit(std::uint64_t at) {
  // An exit that KVM handled on its fast path has no kvm_entry, so the guest may have run all the
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
  // Skips records that may be earlier than everything known of the vCPU.
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
