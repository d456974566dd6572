#include "merge/record/sync_log.h"

#include <unistd.h>

#include <optional>
#include <string_view>

#include "backend_ftrace/sync.h"

namespace trapline::record {

bool SyncLog::write_series(int marker_fd) {
  SyncSeries series;
  char text[kMaxSyncText];
  std::optional<SessionSync> best;
  std::optional<SyncRecord> previous;
  std::optional<ClockAdjustment> adjustment;
  for (std::size_t size; (size = series.next(text)) != 0;) {
    if (::write(marker_fd, text, size) < 0) return false;
    series.written();
    // The after-reading of a marker stands in the next one's text.
    auto record = parse_sync(std::string_view(text, size));
    if (record && record->adjustment) adjustment = record->adjustment;
    if (record && previous && previous->before && record->after) {
      const SessionSync bracket{previous->series, previous->index, *previous->before,
                                *record->after,   std::nullopt,    adjustment};
      const auto width = [](const SessionSync& b) {
        return b.after.at(ClockId::kMono) - b.before.at(ClockId::kMono);
      };
      if (!best || width(bracket) < width(*best)) best = bracket;
    }
    previous = record;
  }
  if (best) keep(*best);
  return true;
}

void SyncLog::stamp(std::uint64_t series, std::uint32_t index, std::uint64_t stamp) {
  for (SessionSync& bracket : brackets_) {
    if (bracket.series == series && bracket.index == index) bracket.stamp = stamp;
  }
}

void SyncLog::keep(const SessionSync& bracket) {
  if (last_is_extra_) brackets_.pop_back();
  brackets_.push_back(bracket);
  last_is_extra_ = seen_++ % stride_ != 0;
  if (brackets_.size() < kMostSyncs) return;
  std::vector<SessionSync> thinner;
  for (std::size_t i = 0; i < brackets_.size(); i += 2) thinner.push_back(brackets_[i]);
  if (brackets_.size() % 2 == 0) thinner.push_back(brackets_.back());
  last_is_extra_ = brackets_.size() % 2 == 0;
  brackets_ = std::move(thinner);
  stride_ *= 2;
}

}  // namespace trapline::record
