#include "merge/record/sync_log.h"

#include <unistd.h>

#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "merge/record/page_cut.h"
#include "merge/source/trace_dat/ring_page.h"

namespace trapline::record {

bool SyncLog::write_series(int marker_fd) {
  SyncSeries series;
  SyncCollector pairs;
  char text[kMaxSyncText];
  std::optional<SyncPoint> best;
  SessionSync bracket;
  for (std::size_t size; (size = series.next(text)) != 0;) {
    if (::write(marker_fd, text, size) < 0) return false;
    series.written();
    const auto record = parse_sync(std::string_view(text, size));
    const auto point = record ? pairs.add(*record, 0) : std::nullopt;  // the stamp is not known yet
    if (!point || (best && !narrower(*point, *best))) continue;
    best = point;
    bracket = {record->series, record->index - 1, point->before,
               point->after,   std::nullopt,      point->adjustment};
  }
  if (best) keep(bracket);
  return true;
}

Result<void> SyncLog::page(unsigned, std::span<const std::byte> page) {
  if (brackets_.empty() || brackets_.back().stamp) return {};
  if (::memmem(page.data(), page.size(), kSyncPrefix.data(), kSyncPrefix.size()) == nullptr)
    return {};
  trace_dat::RingPage walk;
  if (!walk.load(page, kCommitSize)) return {};
  for (kernel_events::RecordedEvent event; walk.next(event);) {
    std::string_view text(reinterpret_cast<const char*>(event.data), event.size);
    const auto at = text.find(kSyncPrefix);
    if (at == std::string_view::npos) continue;
    text.remove_prefix(at);
    const auto sync = parse_sync(text.substr(0, text.find_first_of(std::string_view("\n\0", 2))));
    for (SessionSync& bracket : brackets_)
      if (sync && bracket.series == sync->series && bracket.index == sync->index)
        bracket.stamp = event.time;
  }
  return {};
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
