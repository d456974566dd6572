#include "merge/analyze/memory_work.h"

namespace trapline {

void MemoryWorks::on_entry(Timestamp at) {
  if (open_ && open_->work == MemoryWork::kDirtyLog && ended_.size() < kMost)
    ended_.push_back({open_->work, open_->begin, at});
  open_.reset();
}

void MemoryWorks::on(HostStep step, Timestamp at) {
  if (step == HostStep::kDirtyRingFull) {
    inner_ = 0;
    open_ = Run{MemoryWork::kDirtyLog, at, at};
    return;
  }
  const bool reclaims = step == HostStep::kReclaimBegin || step == HostStep::kReclaimEnd;
  const MemoryWork work = reclaims ? MemoryWork::kReclaim : MemoryWork::kCompaction;
  if (step == HostStep::kReclaimBegin || step == HostStep::kCompactionBegin) {
    inner_ = open_ ? inner_ + 1 : 0;
    if (!open_) open_ = Run{work, at, at};
    return;
  }
  if (open_ && open_->work == MemoryWork::kDirtyLog && inner_ == 0) return;  // of no beginning
  if (open_ && inner_ != 0) {
    --inner_;
    return;
  }
  if (open_ && open_->work == work && ended_.size() < kMost)
    ended_.push_back({work, open_->begin, at});
  open_.reset();
}

}  // namespace trapline
