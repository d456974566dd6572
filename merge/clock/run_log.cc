#include "merge/clock/run_log.h"

namespace trapline {

void RunLog::add(Log& log, Entry entry) {
  const std::uint64_t stretch = log.seen++ / kStretch;
  if (stretch % every_ != 0) return;
  log.stretches[stretch].push_back(entry);
  if (++kept_ >= most_) thin_out();
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
    on_exit(event.thread, event.at.ns());
  } else if (std::holds_alternative<KvmEntry>(event.payload)) {
    on_entry(event.thread, event.at.ns());
  } else if (std::holds_alternative<Lost>(event.payload)) {
    on_loss();
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

}  // namespace trapline
